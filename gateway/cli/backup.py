"""`brains-gateway backup` and `restore`: copies of the embedded brain, made while it is in use."""

import argparse

from gateway.app import database_file
from gateway.app.startup import say
from gateway.config.settings import Settings
from gateway.operations import audit

_WITHOUT = "Tokens and keys are not in it. Copy their files too, or use --with-secrets."


def run(settings: Settings, arguments: argparse.Namespace) -> None:
    if arguments.command == "backup":
        back_up(settings, arguments)
    else:
        restore(settings, arguments)


def back_up(settings: Settings, arguments: argparse.Namespace) -> None:
    made = database_file.back_up(settings, arguments.file, with_secrets=arguments.with_secrets)
    secrets = True if arguments.with_secrets else None
    audit.note("export", tool="backup", to=str(made.file), notes=made.documents, secrets=secrets, outcome="ok")
    counts = f"{_count(made.brains, 'brain')}, {_count(made.documents, 'document')}, {made.size:,} bytes"
    say(f"{made.file} is made and looked through: {counts}.")
    say("Tokens and keys are in it: keep it where only you can read it." if arguments.with_secrets else _WITHOUT)


def restore(settings: Settings, arguments: argparse.Namespace) -> None:
    restored, written = database_file.restore(settings, arguments.file, with_secrets=arguments.with_secrets)
    secrets = True if written else None
    facts = {"path": str(arguments.file), "notes": restored.documents, "secrets": secrets}
    audit.note("command", tool="restore", **facts, outcome="ok")
    counts = f"{_count(restored.brains, 'brain')}, {_count(restored.documents, 'document')}"
    say(f"{restored.file} is the backup now: {counts}.")
    if restored.kept:
        say(f"What was there is kept as {', '.join(path.name for path in restored.kept)}. Delete it if you like.")
    if written:
        say(f"Tokens and keys are put back too: {', '.join(map(str, written))}. What was there is kept beside each.")
    elif restored.secrets:
        say("Tokens and keys are in this backup, and were left alone. To put them back, add --with-secrets.")
    elif arguments.with_secrets:
        say("There are no tokens and keys in this backup.")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
