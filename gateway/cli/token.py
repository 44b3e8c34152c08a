"""`brains-gateway token`: make, list and revoke tokens. What is secret is printed once, to stdout, and kept nowhere."""

import argparse
import secrets
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gateway.app.startup import say
from gateway.cli.print_table import print_table
from gateway.config import token_file
from gateway.config.settings import BadSetting, Settings
from gateway.operations.errors import GatewayError
from gateway.operations.names import check_id


def run(settings: Settings, arguments: argparse.Namespace) -> None:
    path = settings.tokens_path
    match arguments.verb:
        case "create":
            create_token(path, arguments)
        case "revoke":
            revoke_token(path, arguments.id)
        case _:
            list_tokens(path)


def create_token(path: Path, arguments: argparse.Namespace) -> None:
    now, token = datetime.now(UTC), token_file.make_token()
    try:
        brain = None if arguments.brain is None else check_id(arguments.brain, "--brain")
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
    print_table(rows)
