"""`brains-gateway user`: add, list and remove those who log in by a password, and change their passwords."""

import argparse
import sys
from datetime import UTC, datetime
from getpass import getpass
from pathlib import Path

from gateway.app.startup import say
from gateway.cli.given import check_brain, checked
from gateway.cli.print_table import print_table
from gateway.config import user_file
from gateway.config.passwords import LEAST, MOST, hash_password
from gateway.config.settings import BadSetting, Settings
from gateway.operations import audit
from gateway.operations.errors import GatewayError
from gateway.operations.names import check_id

_AGAIN = "Whoever is logged in as them has to log in again."


def run(settings: Settings, arguments: argparse.Namespace) -> None:
    path = settings.users_path
    match arguments.verb:
        case "add":
            add_user(settings, arguments)
        case "remove":
            remove_user(path, arguments.name)
        case "password":
            change_password(path, arguments.name)
        case _:
            list_users(path)


def add_user(settings: Settings, arguments: argparse.Namespace) -> None:
    name = arguments.name.lower()
    if not user_file.NAME.fullmatch(name):
        raise BadSetting("name must be 1 to 64 letters, digits and . _ @ + -, and begin with a letter or digit.")
    if any(user.name == name for user in _users(settings.users_path)):
        raise BadSetting(f"There is a user {name} already: brains-gateway user password {name} changes the password.")
    user = _user(name, arguments)
    if user.brain is not None and not arguments.anyway:
        check_brain(settings, user)
    user = user.model_copy(update={"password": hash_password(_asked_password())})
    with user_file.change(settings.users_path) as users:
        _check_person(user, users)
        users.append(user)
    audit.note("command", tool="user add", client=name, brain=user.brain, scope=user.scope, outcome="ok")
    say(f"User {name} is added. They log in with BRAINS_AUTH=password, in the browser that their client opens.")


def _user(name: str, arguments: argparse.Namespace) -> user_file.User:
    org = None if arguments.org is None else checked(arguments.org, "--org")
    try:
        brain = None if arguments.brain is None else check_id(arguments.brain, "--brain")
    except GatewayError as error:
        raise BadSetting(error.message) from None
    # Two organizations may have different people with the same name.
    own = name if org is None else f"{name}@{org}"
    return user_file.User.model_construct(
        name=name,
        password="",
        subject=own if arguments.subject is None else checked(arguments.subject, "--subject"),
        scope=f"brains:{arguments.scope}",
        brain=brain,
        org=org,
        projects=tuple(arguments.project),
        created=datetime.now(UTC),
    )


def _check_person(user: user_file.User, users: list[user_file.User]) -> None:
    """Refuse a subject that belongs to somebody else, because private notes belong to the subject.

    Raises: BadSetting.
    """
    for other in users:
        if other.name == user.name or other.subject == user.subject:
            raise BadSetting(
                f"{other.subject} is the subject of user {other.name} already: name another with --subject, "
                "because private notes go by it."
            )


def remove_user(path: Path, name: str) -> None:
    with user_file.change(path) as users:
        users.remove(_found(users, name))
    audit.note("command", tool="user remove", client=name.lower(), outcome="ok")
    say(f"User {name.lower()} is removed. Gateways that run read the file again with the next call.")


def change_password(path: Path, name: str) -> None:
    _found(_users(path), name)
    hashed = hash_password(_asked_password())
    with user_file.change(path) as users:
        user = _found(users, name)
        users[users.index(user)] = user.model_copy(update={"password": hashed})
    audit.note("command", tool="user password", client=user.name, outcome="ok")
    say(f"The password of {user.name} is changed. {_AGAIN}")


def list_users(path: Path) -> None:
    rows = [("NAME", "SUBJECT", "SCOPE", "BRAIN", "ORG", "CREATED", "STATE")]
    rows += [
        (
            user.name,
            user.subject,
            user.scope.removeprefix("brains:"),
            user.brain or "(all of theirs)",
            user.org or "",
            user.created.date().isoformat(),
            "active" if user.is_understood else "not understood",
        )
        for user in _users(path)
    ]
    print_table(rows)


def _users(path: Path) -> list[user_file.User]:
    return user_file.parse(path.read_bytes()) if path.exists() else []


def _found(users: list[user_file.User], name: str) -> user_file.User:
    found = next((user for user in users if user.name == name.lower()), None)
    if found is None:
        raise BadSetting(f"There is no user {name}: brains-gateway user list shows those there are.")
    return found


def _asked_password() -> str:
    """From the terminal, twice; or the one line of standard input. On a command line others could read it.

    Raises: BadSetting.
    """
    if sys.stdin.isatty():
        password = getpass("Password: ")
        if getpass("The same again: ") != password:
            raise BadSetting("These were two passwords: nothing is changed.")
    else:
        password = sys.stdin.readline(MOST + 2).rstrip("\r\n")
    if not LEAST <= len(password) <= MOST:
        raise BadSetting(f"A password must have {LEAST} to {MOST} characters. A few words that you make up are good.")
    return password
