"""The commands for tokens and signing keys. What is secret is printed once, to stdout, and kept nowhere."""

import argparse
import secrets
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gateway.app.startup import CannotStart, say
from gateway.config import signing_keys, token_file
from gateway.config.reread_file import replace_file
from gateway.config.settings import BadSetting, Settings
from gateway.operations.errors import GatewayError
from gateway.operations.names import checked_id


def run(settings: Settings, arguments: argparse.Namespace) -> None:
    try:
        match arguments.command, arguments.verb:
            case "token", "create":
                create_token(settings.tokens_path, arguments)
            case "token", "revoke":
                revoke_token(settings.tokens_path, arguments.id)
            case "token", _:
                list_tokens(settings.tokens_path)
            case _, "create":
                create_keys(_keys_path(settings), arguments.algorithm)
            case _, "rotate":
                rotate_keys(_keys_path(settings), arguments.algorithm)
            case _:
                list_keys(_keys_path(settings))
    except OSError as error:
        raise CannotStart(f"{error.filename} cannot be read or written: {error.strerror}.") from None
    except ValueError:
        raise CannotStart("The file does not hold what it should: move it away and make a new one.") from None


def create_token(path: Path, arguments: argparse.Namespace) -> None:
    now, token = datetime.now(UTC), token_file.make_token()
    try:
        brain = None if arguments.brain is None else checked_id(arguments.brain, "--brain")
    except GatewayError as error:
        raise BadSetting(error.message) from None
    record = token_file.Record(
        id=secrets.token_hex(4),
        sha256=token_file.digest(token),
        name=arguments.name,
        subject=arguments.subject or arguments.name,
        scope=f"brains:{arguments.scope}",
        brain=brain,
        org=arguments.org,
        projects=tuple(arguments.project),
        created=now,
        expires=None if arguments.days is None else now + timedelta(days=arguments.days),
    )
    with token_file.change(path) as records:
        records.append(record)
    endpoints = "/mcp or /<surface>/mcp" if brain else "/mcp/<brain> or /<surface>/mcp/<brain>"
    say(f"Token {record.id} for {record.name}, to be used at {endpoints}. It is shown this once:")
    sys.stdout.write(f"{token}\n")


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
    rows = [("ID", "NAME", "SCOPE", "BRAIN", "ORG", "EXPIRES", "STATE")]
    rows += [
        (
            record.id,
            record.name,
            record.scope.removeprefix("brains:"),
            record.brain or "(in the URL)",
            record.org or "",
            record.expires.date().isoformat() if record.expires else "never",
            record.state(now),
        )
        for record in records
    ]
    _print_table(rows)


def create_keys(path: Path, algorithm: signing_keys.Algorithm) -> None:
    if path.exists():
        raise BadSetting(f"{path} is there already: brains-gateway key rotate makes the next key the one in use.")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(path, signing_keys.written(signing_keys.begun(algorithm)))
    say(f"{path} has a key to sign with and the next one. The platform reads both at /.well-known/jwks.json.")


def rotate_keys(path: Path, algorithm: signing_keys.Algorithm) -> None:
    keys = signing_keys.rotated(signing_keys.parsed(path.read_bytes()), algorithm)
    replace_file(path, signing_keys.written(keys))
    say("The next key is in use now. Wait ten minutes before you rotate again: platforms keep the list for five.")


def list_keys(path: Path) -> None:
    keys = signing_keys.parsed(path.read_bytes())
    _print_table([("KEY", "ALGORITHM", "STATUS", "SINCE"), *((k.kid, k.algorithm, k.status, k.since) for k in keys)])


def _keys_path(settings: Settings) -> Path:
    if settings.signing_keys_file is None:
        raise BadSetting("Set BRAINS_SIGNING_KEYS_FILE to where the keys are to be.")
    return settings.signing_keys_file


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        cells = (_printable(cell).ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
