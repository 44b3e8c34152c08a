"""Index files that some platforms write when they consolidate: those go on telling of notes that are gone."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

import structlog

from gateway.operations import names
from gateway.operations.context import StepContext
from gateway.operations.errors import Absent, GatewayError
from gateway.operations.steps.documents import read, write
from gateway.operations.table import Args, JsonObject, Op

log = structlog.get_logger()

# So often an index is looked at again that somebody else may have written meanwhile.
_ROUNDS: Final = 3
_MOST_INDEXES: Final = 20


async def consolidate(context: StepContext, args: Args) -> JsonObject:
    """By the platform. What was forgotten while it worked may stand in the index that it wrote in the end."""
    answer = await context.send(Op.CONSOLIDATE, args)
    if context.writes_index():
        try:
            await _drop_all_gone(context, str(args["brain"]))
        except (Absent, GatewayError) as error:
            log.warning("index.not_tidied", brain=args["brain"], code=getattr(error, "code", "absent"))
    return answer


async def drop_note(context: StepContext, brain: str, path: str) -> None:
    """Take a note that is gone out of the index that may tell of it."""
    index = names.index_of(path)
    if index is None or not context.writes_index():
        return
    name = path.removeprefix(_folder_of(index))
    await _drop_lines(context, brain, index, lambda line: names.described_in_index(line) == name)


async def _drop_all_gone(context: StepContext, brain: str) -> None:
    items = (await context.send(Op.LIST_DOCUMENTS, {"brain": brain, "dir": "memory"})).get("items") or []
    there = {str(item.get("path")) for item in items if isinstance(item, dict)}
    for index in sorted(filter(names.is_index, there))[:_MOST_INDEXES]:
        await _drop_lines(context, brain, index, partial(_is_of_none, _folder_of(index), there))


def _is_of_none(folder: str, there: AbstractSet[str], line: str) -> bool:
    """Whether a line of an index describes a note that is not there. A name with spaces in it may be a sentence."""
    name = names.described_in_index(line)
    return not (name is None or " " in name or folder + name in there or names.is_unlisted(folder + name))


def _folder_of(index: str) -> str:
    return index[: index.rindex("/") + 1]


async def _drop_lines(context: StepContext, brain: str, index: str, is_over: Callable[[str], bool]) -> None:
    """Write an index without some of its lines, until it is seen to be without them.

    The note itself is gone, and an answer that draws on an index is checked: a failure here fails nobody's call.
    """
    try:
        async with context.alone(index):
            for _ in range(_ROUNDS):
                try:
                    lines = (await read(context, brain, index) or b"").decode().split("\n")
                except UnicodeDecodeError:
                    return
                kept = [line for line in lines if not is_over(line)]
                if len(kept) == len(lines):
                    return
                await write(context, brain, index, "\n".join(kept).encode())
    except (Absent, GatewayError) as error:
        log.warning("index.not_tidied", brain=brain, code=getattr(error, "code", "absent"))
