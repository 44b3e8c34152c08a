"""What the scripted model says to every framework, turn by turn, and the memories that it meets."""

from typing import Any, Final

from tests.peers.frameworks.catalog import Framework
from tests.peers.frameworks.shapes import Json, Turn, Use

END: Final = "That is all."


def memory(number: int) -> str:
    """750 characters on one line: however a client quotes them, they stay as they are."""
    beginning, end = f"Otter {number} was seen at the weir. ", f" So much of otter {number}."
    watched = f"It dived for crayfish and came up with number {number} of the day. "
    return beginning + (watched * 20)[: 750 - len(beginning) - len(end)] + end


# Nine are there before, and the model adds the last.
MEMORIES: Final = [memory(number) for number in range(10)]
_OTTERS: Final = {"query": "otter"}
SEARCHES: Final[dict[str, Json]] = {
    "plain": _OTTERS,
    # Hosts that make every argument required: what the model does not want to say, it says as null or as nothing.
    "nulls": {**_OTTERS, "brain": None, "scope": None, "sort": None, "top_k": None},
    "empty": {**_OTTERS, "brain": ""},
    # The same for a choice from a list, and a whole number as some languages write it.
    "loose": {**_OTTERS, "scope": "", "sort": "", "top_k": 10.0},
}
# What a model says that must name every argument.
_ALL: Final[dict[str, dict[str, Any]]] = {
    "memory_remember": {"title": "", "brain": "", "tags": [], "path": ""},
    "memory_search": {"brain": "", "scope": "", "sort": "", "top_k": 10},
}


def conversation(framework: Framework) -> dict[str, Turn]:
    """Every turn, by name."""
    searches = dict(SEARCHES)
    if framework.adds:
        searches["added"] = {**_OTTERS, framework.adds: True}
    uses = {"remember": Use("memory_remember", {"content": MEMORIES[9]})}
    uses |= {name: Use("memory_search", arguments) for name, arguments in searches.items()}
    if framework.requires_all:
        uses = {name: Use(use.tool, {**_ALL[use.tool], **use.arguments}) for name, use in uses.items()}
    return {**uses, "end": Use(framework.ends_with, {"answer": END}) if framework.ends_with else END}
