"""Index files that some platforms write when they consolidate. They still name notes that are gone."""

from collections.abc import Awaitable, Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from functools import partial
from typing import Final

import structlog

from gateway.operations import names
from gateway.operations.context import StepContext
from gateway.operations.errors import Absent, GatewayError
from gateway.operations.steps.documents import read, write
from gateway.operations.table import Args, JsonObject, Op

log = structlog.get_logger()

# How often an index is looked at again, because somebody else may have written it meanwhile.
_ROUNDS: Final = 3
_MOST_INDEXES: Final = 20

# Which of the notes that an index describes are gone; by their names in its folder.
_FindGone = Callable[[AbstractSet[str]], Awaitable[AbstractSet[str]]]


async def consolidate(context: StepContext, args: Args) -> JsonObject:
    """By the platform. Its new index may name notes that were forgotten while it worked."""
    answer = await context.send(Op.CONSOLIDATE, args)
    if context.writes_index():
        with _failing_nobody(str(args["brain"])):
            await _drop_all_gone(context, str(args["brain"]))
    return answer


async def drop_note(context: StepContext, brain: str, path: str) -> None:
    """Take a note that is gone out of the index that may name it."""
    index = names.index_of(path)
    if index is None or not context.writes_index():
        return
    name = path.removeprefix(_folder_of(index))

    async def find_gone(described: AbstractSet[str]) -> AbstractSet[str]:
        return described & {name}

    await _drop_lines(context, brain, index, find_gone)


async def _drop_all_gone(context: StepContext, brain: str) -> None:
    listed = await _list_paths(context, brain)
    for index in sorted(filter(names.is_index, listed))[:_MOST_INDEXES]:
        await _drop_lines(context, brain, index, partial(_find_gone, context, brain, _folder_of(index), listed))


async def _find_gone(
    context: StepContext, brain: str, folder: str, listed: AbstractSet[str], described: AbstractSet[str]
) -> AbstractSet[str]:
    gone = _missing(folder, described, listed)
    # Since then the note may have been made again, and described in the index.
    return _missing(folder, gone, await _list_paths(context, brain)) if gone else gone


def _missing(folder: str, described: AbstractSet[str], listed: AbstractSet[str]) -> AbstractSet[str]:
    """Notes that the index names but no list has. A name with spaces in it may be a sentence that somebody wrote."""
    return {
        name
        for name in described
        if folder + name not in listed and " " not in name and not names.is_unlisted(folder + name)
    }


async def _list_paths(context: StepContext, brain: str) -> AbstractSet[str]:
    items = (await context.send(Op.LIST_DOCUMENTS, {"brain": brain, "dir": "memory"})).get("items") or []
    return {str(item.get("path")) for item in items if isinstance(item, dict)}


async def _drop_lines(context: StepContext, brain: str, index: str, find_gone: _FindGone) -> None:
    """Write an index without the lines of notes that are gone, and look again, until they are gone from it."""
    with _failing_nobody(brain):
        async with context.alone(index):
            for _ in range(_ROUNDS):
                before = await read(context, brain, index) or b""
                after = await _without_gone(before, find_gone)
                if after == before:
                    return
                # Text that the platform has written since then must stay.
                if await read(context, brain, index) == before:
                    await write(context, brain, index, after)


async def _without_gone(index: bytes, find_gone: _FindGone) -> bytes:
    try:
        lines = [(line, names.described_in_index(line)) for line in index.decode().split("\n")]
    except UnicodeDecodeError:
        return index
    gone = await find_gone({name for _, name in lines if name is not None})
    return "\n".join(line for line, name in lines if name not in gone).encode()


def _folder_of(index: str) -> str:
    return index[: index.rindex("/") + 1]


@contextmanager
def _failing_nobody(brain: str) -> Iterator[None]:
    """A failure here fails no call: the note itself is gone, and answers that use an index are checked anyway."""
    try:
        yield
    except (Absent, GatewayError) as error:
        log.warning("index.not_tidied", brain=brain, code=getattr(error, "code", "absent"))
