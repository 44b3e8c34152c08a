"""`list`, `show`, `edit`, `rm`, `mv`, `history` and `undo`: the documents of a brain, one by one."""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gateway.app.desk import Desk
from gateway.app.startup import CannotStart, say
from gateway.cli.output import confirm, moment, print_json, print_rows, print_text, printable
from gateway.operations.errors import GatewayError

_BACKUPS_MAY = "Backups, exports and copies that were put elsewhere may have it."
_PLATFORM_MAY = "What the platform keeps of it, in an index, a log or a backup of its own, cannot be known from here."


async def list_notes(desk: Desk, arguments: argparse.Namespace) -> None:
    entries = (await desk.shelf.entries(desk.call(), arguments.folder))[: arguments.limit]
    if arguments.json:
        print_json([{"path": e.path, "bytes": e.size, "changed": moment(e.changed)} for e in entries])
    elif not entries:
        say(f"There are no notes in {printable(arguments.folder)}." if arguments.folder else "There are no notes yet.")
    else:
        print_rows(("NOTE", "CHANGED", "BYTES"), [(e.path, moment(e.changed), f"{e.size:,}") for e in entries])


async def show(desk: Desk, arguments: argparse.Namespace) -> None:
    document = await desk.shelf.read(desk.call(), arguments.note)
    if arguments.raw:
        sys.stdout.flush()
        sys.stdout.buffer.write(document.body)
        sys.stdout.buffer.flush()
    elif arguments.json:
        content = document.note.content
        print_json(
            {
                "path": document.path,
                "title": document.title,
                "tags": document.tags,
                "changed": moment(document.changed),
                "checksum_sha256": document.checksum,
                "front_matter": document.note.front,
                "record": document.record,
                "content": content,
            }
        )
    else:
        told = [document.title, *([f"tags: {', '.join(document.tags)}"] if document.tags else [])]
        print_text("\n".join([*told, f"{document.path}  {moment(document.changed)}"]), "bold")
        print_text(f"\n{document.note.content}")


async def edit(desk: Desk, arguments: argparse.Namespace) -> None:
    """Open a note in the editor, and store the edited text, unless the note changed meanwhile."""
    document = await desk.shelf.read(desk.call(), arguments.note)
    written = _edited(document.source, Path(document.path).name)
    if written == document.source:
        say("Nothing was changed.")
        return
    try:
        await desk.shelf.replace(desk.call(), document.path, written, document.checksum)
    except GatewayError as error:
        kept = _keep_draft(written, document.path)
        raise GatewayError(error.code, f"{error.message} Your text is kept in {kept}.") from None
    say(f"{printable(document.path)} is changed. Bring back what it was with: brains-gateway undo {document.path}")


def _edited(text: str, name: str) -> str:
    """The text after the person has edited it.

    Raises: CannotStart: there is no editor, or it failed.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise CannotStart("Set EDITOR to the editor that you want to use, for example: export EDITOR=nano.")
    with tempfile.TemporaryDirectory(prefix="brains-gateway-") as directory:
        file = Path(directory) / name
        file.write_bytes(text.encode())
        try:
            done = subprocess.run([*shlex.split(editor), str(file)], check=False)
        except OSError as error:
            raise CannotStart(f"The editor {editor} cannot be started: {error.strerror}.") from None
        if done.returncode:
            raise CannotStart(f"The editor {editor} ended with {done.returncode}; nothing was changed.")
        try:
            return file.read_bytes().decode()
        except (OSError, UnicodeDecodeError):
            raise CannotStart("The editor left no text in UTF-8; nothing was changed.") from None


def _keep_draft(text: str, path: str) -> str:
    """Keep a text that could not be stored in a file, so that it is not lost."""
    handle, name = tempfile.mkstemp(prefix="brains-gateway-", suffix=f"-{Path(path).name}")
    with os.fdopen(handle, "wb") as file:
        file.write(text.encode())
    return name


async def remove(desk: Desk, arguments: argparse.Namespace) -> None:
    if arguments.purge:
        await _purge(desk, arguments)
        return
    for path in arguments.notes:
        document = await desk.shelf.read(desk.call(), path)
        if not arguments.yes and not confirm(f"Put away {printable(path)} ({printable(document.title)})?"):
            raise CannotStart("Nothing was put away. To put it away without being asked, add --yes.")
        await desk.shelf.remove(desk.call(), path)
        say(f"{printable(path)} is put away. Bring it back with: brains-gateway undo {path}")


async def _purge(desk: Desk, arguments: argparse.Namespace) -> None:
    """Erase notes for good, and say where else they may be."""
    for path in arguments.notes:
        if not arguments.yes and not confirm(f"Erase {printable(path)} for good, with all its versions?"):
            raise CannotStart("Nothing was erased. To erase it without being asked, add --yes.")
    copies: dict[str, int] = {}
    try:
        for path in arguments.notes:
            copies[path] = await desk.erase(path)
    finally:
        # Also if one of them fails: the words of those before it must not stay in the file.
        is_embedded = desk.rewrite()
        await _tell_erased(desk, copies, is_embedded=is_embedded)
    if missing := [path for path, count in copies.items() if not count]:
        raise GatewayError("not_found", f"There is no note {', '.join(missing)}, and no version of one.")


async def _tell_erased(desk: Desk, copies: Mapping[str, int], *, is_embedded: bool) -> None:
    """Say how many copies of each note are erased, and where else it may be."""
    for path, count in copies.items():
        if count:
            say(f"{printable(path)} is erased: {count} in all.")
        if is_embedded:
            derived, backups = await desk.left_of(path)
            say(
                *[f"Made of it, and still there: {printable(note)}" for note in derived if note not in copies],
                *[f"This backup still has it: {file}" for file in backups],
            )
    if any(copies.values()):
        say(_BACKUPS_MAY if is_embedded else _PLATFORM_MAY)


async def move(desk: Desk, arguments: argparse.Namespace) -> None:
    await desk.shelf.move(desk.call(), arguments.note, arguments.to)
    say(f"{printable(arguments.note)} is {printable(arguments.to)} now.")


async def history(desk: Desk, arguments: argparse.Namespace) -> None:
    versions = await desk.shelf.versions(desk.call(), arguments.note)
    if arguments.json:
        print_json(
            [
                {"version": v.name, "changed": moment(v.changed), "bytes": v.size, "removed": v.was_removed}
                for v in versions
            ]
        )
        return
    if not versions:
        say(f"There is no earlier version of {printable(arguments.note)}.")
        return
    rows = [(v.name, moment(v.changed), f"{v.size:,}", "removed" if v.was_removed else "replaced") for v in versions]
    print_rows(("VERSION", "SINCE", "BYTES", "BECAUSE IT WAS"), rows)


async def undo(desk: Desk, arguments: argparse.Namespace) -> None:
    version = await desk.shelf.bring_back(desk.call(), arguments.note, arguments.version)
    say(f"{printable(arguments.note)} is what it was in version {version.name}.")
