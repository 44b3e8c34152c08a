"""`export`, `import` and `migrate`: take all notes out of a brain, and put them into another."""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress

from gateway.app.desk import Desk
from gateway.app.startup import CannotStart, say
from gateway.cli.exported import documents_at, target_at
from gateway.cli.migrating import READERS, Foreign
from gateway.cli.output import printable
from gateway.operations import audit
from gateway.operations.errors import GatewayError
from gateway.operations.names import is_plain_path
from gateway.operations.parallel import AT_ONCE, in_parallel

# Errors that concern one note alone. Any other error ends the command, because the next note would get it too.
_OF_ONE = frozenset({"validation_error", "payload_too_large", "not_found", "forbidden", "conflict"})
_NAMED_AT_MOST = 50
T = TypeVar("T")


async def export(desk: Desk, arguments: argparse.Namespace) -> None:
    call = desk.call()
    total = len(await desk.shelf.entries(call, arguments.folder))
    taken, left = 0, list[tuple[str, str]]()
    with target_at(arguments.to) as target, _progress("Exporting", total) as advance:
        async for document in desk.shelf.read_many(desk.call(), arguments.folder):
            if target.write(document.path, document.exported):
                taken += 1
            else:
                left.append((document.path, "its path cannot be that of a file here"))
            advance()
    folder = arguments.folder or None
    audit.note("export", **audit.of_call(call), path=folder, to=str(arguments.to), notes=taken, outcome="ok")
    say(f"{taken:,} notes are exported to {arguments.to}.")
    _tell_left(left)


async def import_(desk: Desk, arguments: argparse.Namespace) -> None:
    found, left = Counter[str](), list[tuple[str, str]]()

    async def take(path: str, body: bytes | None) -> None:
        if body is None or not is_plain_path(path):
            left.append((path, "it is no line of an export" if body is None else "a note cannot have that path"))
            return
        try:
            was = await desk.shelf.restore(desk.call(), path, body, replaces=arguments.replace)
        except GatewayError as error:
            if error.code not in _OF_ONE:
                raise
            left.append((path, error.message))
            return
        if was == "other" and not arguments.replace:
            left.append((path, "another note is there; --replace takes its place"))
        else:
            found[was] += 1

    await _all(documents_at(arguments.source), lambda item: partial(take, *item), "Importing")
    say(f"{found['new']:,} notes are new, {found['same']:,} were there already, {found['other']:,} replaced another.")
    _tell_left(left)


async def migrate(desk: Desk, arguments: argparse.Namespace) -> None:
    found, left = Counter[bool](), list[tuple[str, str]]()

    async def take(item: Foreign) -> None:
        if item.problem:
            left.append((item.origin, item.problem))
            return
        if arguments.dry_run:
            sys.stdout.write(f"{printable(item.path, one_line=True)}\n")
            found[False] += 1
            return
        try:
            stored = await desk.brain.serve(desk.call(), None, "remember", item.document())
        except GatewayError as error:
            if error.code not in _OF_ONE:
                raise
            left.append((item.origin, error.message))
            return
        found[bool(stored.get("reused"))] += 1

    await _all(READERS[arguments.kind](arguments.source), lambda item: partial(take, item), "Migrating")
    told = "would be stored" if arguments.dry_run else "are new"
    say(f"{found[False]:,} notes {told}, {found[True]:,} were there already.")
    _tell_left(left)


async def _all(items: Iterator[T], job: Callable[[T], Callable[[], Awaitable[None]]], told: str) -> None:
    """Do it for all, a few at once, so that only these few are in memory."""
    with _progress(told, None) as advance:
        while some := list(islice(items, AT_ONCE)):
            await in_parallel([job(item) for item in some])
            advance(len(some))


@contextmanager
def _progress(told: str, total: int | None) -> Iterator[Callable[..., None]]:
    """A progress bar, on a terminal."""
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task(told, total=total)
        yield lambda count=1: bar.advance(task, count)


def _by_number(one: tuple[str, str]) -> list[tuple[int, str]]:
    """Compares numbers as numbers, so that line 9 comes before line 10."""
    return [
        (int(part) if part.isascii() and part.isdigit() else -1, part) for part in re.split(r"([0-9]{1,18})", one[0])
    ]


def _tell_left(left: Iterable[tuple[str, str]]) -> None:
    """Name the notes that were not taken, and fail if there are any."""
    left = sorted(left, key=_by_number)
    if not left:
        return
    for origin, why in left[:_NAMED_AT_MOST]:
        say(f"Not taken: {printable(origin, one_line=True)}: {why}")
    if len(left) > _NAMED_AT_MOST:
        say(f"and {len(left) - _NAMED_AT_MOST:,} more.")
    raise CannotStart(f"{len(left):,} could not be taken.")
