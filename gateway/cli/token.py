"""`brains-gateway token`: make, list and revoke tokens. What is secret is printed once, to stdout, and kept nowhere."""

import argparse
import secrets
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import Final

from gateway.app import log
from gateway.app.brains import brains_for
from gateway.app.startup import CannotStart, say
from gateway.cli.print_table import print_table
from gateway.config import token_file
from gateway.config.settings import BadSetting, Settings
from gateway.operations.errors import GatewayError
from gateway.operations.names import check_id

_NAME_LENGTH: Final = 256
_BRAINS_NAMED: Final = 10


def run(settings: Settings, arguments: argparse.Namespace) -> None:
    path = settings.tokens_path
    match arguments.verb:
        case "create":
            create_token(settings, arguments)
        case "revoke":
            revoke_token(path, arguments.id)
        case _:
            list_tokens(path)


def create_token(settings: Settings, arguments: argparse.Namespace) -> None:
    token = token_file.make_token()
    record = _record(token, arguments)
    if record.brain is not None and not arguments.anyway:
        _check_brain(settings, record)
    with token_file.change(settings.tokens_path) as records:
        _check_person(record, records, is_named=arguments.subject is not None)
        records.append(record)
    if record.org is not None and settings.upstream_url is not None and settings.upstream_auth == "static":
        say(
            f"The platform is not told of the organization {record.org}: it sees one token for all callers. "
            "With BRAINS_UPSTREAM_AUTH=internal it is told."
        )
    endpoints = "/mcp or /<surface>/mcp" if record.brain else "/mcp/<brain> or /<surface>/mcp/<brain>"
    say(f"Token {record.id} for {record.name}, to be used at {endpoints}. It is shown this once:")
    sys.stdout.write(f"{token}\n")


def _record(token: str, arguments: argparse.Namespace) -> token_file.Record:
    now, name, org = datetime.now(UTC), _checked(arguments.name, "name"), arguments.org
    if org is not None:
        _checked(org, "--org")
    try:
        brain = None if arguments.brain is None else check_id(arguments.brain, "--brain")
    except GatewayError as error:
        raise BadSetting(error.message) from None
    # Of two organizations that have somebody by the same name, each means its own.
    own = name if org is None else f"{name}@{org}"
    return token_file.Record(
        id=secrets.token_hex(4),
        sha256=token_file.digest(token),
        name=name,
        subject=own if arguments.subject is None else _checked(arguments.subject, "--subject"),
        scope=f"brains:{arguments.scope}",
        brain=brain,
        org=org,
        projects=tuple(arguments.project),
        created=now,
        expires=None if arguments.days is None else now + timedelta(days=arguments.days),
    )


def _checked(value: str, option: str) -> str:
    if not value.strip() or len(value) > _NAME_LENGTH or not value.isprintable():
        raise BadSetting(f"{option} must be 1 to {_NAME_LENGTH} characters that can be shown.")
    return value


def _check_person(record: token_file.Record, records: Sequence[token_file.Record], *, is_named: bool) -> None:
    """That nobody gets the private notes of somebody else, which go by the subject, also those of a token of before.

    Raises:
        BadSetting: with what to say if it is the same person.
    """
    alike = [other for other in records if other.subject == record.subject]
    if any(other.org != record.org for other in alike):
        raise BadSetting(
            f"{record.subject} is the subject of token {alike[0].id}, of another organization: "
            "name another with --subject, because private notes go by it."
        )
    if alike and not is_named:
        raise BadSetting(
            f"{record.subject} is the subject of token {alike[0].id} already: choose another name, "
            f"or, if it is the same person, who then shares its private notes, add --subject {quote(record.subject)}"
        )
    now = datetime.now(UTC)
    for other in records:
        if (other.name, other.org) == (record.name, record.org) and other not in alike and other.state(now) == "active":
            raise BadSetting(
                f"There is a token for {record.name} already, {other.id}: choose another name, "
                f"or, if it is the same person, say --subject {quote(other.subject)}"
            )


def _check_brain(settings: Settings, record: token_file.Record) -> None:
    """That there is the brain that a token is to be bound to. A platform that is down keeps nobody from making one.

    Raises:
        BadSetting: there is no such brain.
    """
    log.configure("error", settings.log_format)
    try:
        brains = brains_for(settings, record)
    except (BadSetting, CannotStart, GatewayError) as error:
        say(f"Whether there is a brain {record.brain} could not be checked: {getattr(error, 'message', error)}")
        return
    if not any(record.brain in names for names in brains):
        there = ", ".join(slug for slug, _ in brains[:_BRAINS_NAMED]) or "none yet"
        raise BadSetting(
            f"There is no brain {record.brain}. There are: {there}. "
            "Create it with memory_create_brain first, or add --anyway."
        )


def revoke_token(path: Path, token_id: str) -> None:
    with token_file.change(path) as records:
        found = [n for n, record in enumerate(records) if record.id == token_id]
        if not found:
            raise BadSetting(f"There is no token {token_id}: brains-gateway token list shows those there are.")
        for n in found:
            records[n] = records[n].model_copy(update={"revoked": records[n].revoked or datetime.now(UTC)})
    say(f"Token {token_id} is revoked. Gateways that run read the file again with the next call.")


def list_tokens(path: Path) -> None:
    now = datetime.now(UTC)
    records = token_file.parse(path.read_bytes()) if path.exists() else []
    rows = [("ID", "NAME", "SUBJECT", "SCOPE", "BRAIN", "ORG", "EXPIRES", "STATE")]
    rows += [
        (
            record.id,
            record.name,
            record.subject,
            record.scope.removeprefix("brains:"),
            record.brain or "(in the URL)",
            record.org or "",
            record.expires.date().isoformat() if record.expires else "never",
            record.state(now),
        )
        for record in records
    ]
    print_table(rows)
