"""`brains-gateway token`: make, import, list and revoke tokens. A secret is printed once, and stored nowhere."""

import argparse
import math
import re
import secrets
import string
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from getpass import getpass
from pathlib import Path
from shlex import quote
from typing import Final

from gateway.app.startup import say
from gateway.cli.given import check_brain, checked
from gateway.cli.print_table import print_table
from gateway.config import token_file
from gateway.config.settings import BadSetting, Settings
from gateway.operations import audit
from gateway.operations.errors import GatewayError
from gateway.operations.names import check_id

_BROUGHT: Final = re.compile(r"(bto_|brt_)([A-Za-z0-9._~+/=-]{16,512})")
_BROUGHT_LENGTH: Final = 1024
# How many bits a random token must have, and how many different characters a random one has at least.
_BITS: Final = 80
_CHARACTERS: Final = 6


def run(settings: Settings, arguments: argparse.Namespace) -> None:
    path = settings.tokens_path
    match arguments.verb:
        case "create":
            create_token(settings, arguments)
        case "import":
            import_token(settings, arguments)
        case "revoke":
            revoke_token(path, arguments.id)
        case _:
            list_tokens(path)


def create_token(settings: Settings, arguments: argparse.Namespace) -> None:
    token = token_file.make_token()
    record = _keep(settings, _record(token_file.digest(token), arguments), arguments)
    say(f"Token {record.id} for {record.name}, to be used at {_endpoints(record)}. It is shown this once:")
    sys.stdout.write(f"{token}\n")


def import_token(settings: Settings, arguments: argparse.Namespace) -> None:
    """Accept a token from elsewhere. Only its hash is kept, as with our own tokens."""
    if arguments.sha256 == token_file.digest(""):
        raise BadSetting("--sha256 is the hash of an empty text, and not of a token.")
    record = _record(arguments.sha256 or _brought_hash(arguments), arguments)
    if record.expires is not None and record.expires <= record.created:
        raise BadSetting("--expires must be in the future.")
    _keep(settings, record, arguments)
    say(f"Token {record.id} for {record.name} is imported, to be used at {_endpoints(record)}.")
    if arguments.sha256:
        say("A hash does not show whether its token is easy to guess: be sure that it was made at random, and long.")
        if record.brain is None:
            say("Without --brain it is good for every brain that the URL names. A bto_ token should have a --brain.")


def _brought_hash(arguments: argparse.Namespace) -> str:
    """The hash of the token on standard input: on a command line others could read it.

    Raises:
        BadSetting: it is malformed or too easy to guess.
    """
    try:
        token = (getpass("Token: ") if sys.stdin.isatty() else sys.stdin.read(_BROUGHT_LENGTH)).strip()
    except UnicodeDecodeError:
        token = ""
    if (found := _BROUGHT.fullmatch(token)) is None:
        raise BadSetting("Standard input must hold one token: bto_ or brt_, and 16 to 512 letters, digits and signs.")
    if _bits(found[2]) < _BITS or len(set(found[2])) < _CHARACTERS:
        raise BadSetting("That token is too easy to guess. Make another with: brains-gateway token create")
    if found[1] == "bto_" and arguments.brain is None:
        raise BadSetting("A bto_ token carries its brain: say which one that is with --brain.")
    return token_file.digest(token)


def _bits(word: str) -> float:
    """How many bits a word has, if it was chosen at random from the kinds of characters that it has."""
    for alphabet in (string.digits, string.digits + "abcdef", string.digits + "ABCDEF"):
        if set(word) <= set(alphabet):
            return len(word) * math.log2(len(alphabet))
    kinds = (string.digits, string.ascii_lowercase, string.ascii_uppercase, "._~+/=-")
    return len(word) * math.log2(sum(len(kind) for kind in kinds if set(kind) & set(word)))


def _keep(settings: Settings, record: token_file.Record, arguments: argparse.Namespace) -> token_file.Record:
    """Put a token in the file, unless its brain does not exist or its subject belongs to somebody else."""
    if record.brain is not None and not arguments.anyway:
        check_brain(settings, record)
    with token_file.change(settings.tokens_path) as records:
        if there := next((other for other in records if other.sha256 == record.sha256), None):
            raise BadSetting(f"That token is there already: it is {there.id}, for {there.name}.")
        _check_person(record, records, is_named=arguments.subject is not None)
        records.append(record)
    done = f"token {arguments.verb}"
    audit.note("command", tool=done, client=record.id, brain=record.brain, scope=record.scope, outcome="ok")
    if record.org is not None and settings.upstream_url is not None and settings.upstream_auth == "static":
        say(
            f"The platform is not told of the organization {record.org}: it sees one token for all callers. "
            "With BRAINS_UPSTREAM_AUTH=internal it is told."
        )
    return record


def _endpoints(record: token_file.Record) -> str:
    return "/mcp or /<surface>/mcp" if record.brain else "/mcp/<brain> or /<surface>/mcp/<brain>"


def _record(sha256: str, arguments: argparse.Namespace) -> token_file.Record:
    now, name, org = datetime.now(UTC), checked(arguments.name, "name"), arguments.org
    if org is not None:
        checked(org, "--org")
    try:
        brain = None if arguments.brain is None else check_id(arguments.brain, "--brain")
    except GatewayError as error:
        raise BadSetting(error.message) from None
    # Two organizations may have different people with the same name.
    own = name if org is None else f"{name}@{org}"
    return token_file.Record(
        id=secrets.token_hex(4),
        sha256=sha256,
        name=name,
        subject=own if arguments.subject is None else checked(arguments.subject, "--subject"),
        scope=f"brains:{arguments.scope.removesuffix('-only')}",
        brain=brain,
        org=org,
        projects=tuple(arguments.project),
        created=now,
        expires=arguments.expires if arguments.days is None else now + timedelta(days=arguments.days),
    )


def _check_person(record: token_file.Record, records: Sequence[token_file.Record], *, is_named: bool) -> None:
    """Refuse a subject that belongs to somebody else, who would share their private notes, also with an older token.

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


def revoke_token(path: Path, token_id: str) -> None:
    with token_file.change(path) as records:
        found = [n for n, record in enumerate(records) if record.id == token_id]
        if not found:
            raise BadSetting(f"There is no token {token_id}: brains-gateway token list shows those there are.")
        for n in found:
            records[n] = records[n].model_copy(update={"revoked": records[n].revoked or datetime.now(UTC)})
    audit.note("command", tool="token revoke", client=token_id, outcome="ok")
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
