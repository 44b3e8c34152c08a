"""What the `kv` surface says to people. Pure functions."""

from collections.abc import Sequence
from datetime import UTC, datetime

from gateway.mcp.shown import head
from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject

_SHOWN = 320
MORE_FOUND = "(There may be more matches: only the first 100 were ranked.)"


def put(memory: JsonObject, *, changed: bool) -> str:
    return f"{'Saved' if changed else 'Already saved'} {memory['namespace']}/{memory['key']} ({memory['memory_id']})."


def got(memory: JsonObject) -> str:
    if not memory["found"]:
        return "Not found: no live memory has that key."
    return f"Found {memory['namespace']}/{memory['key']}{_aside(memory)}:\n{memory['value']}"


def searched(results: Sequence[JsonObject], left_out: str = "") -> str:
    lines = [f"#{n} score={r['score']:.3f} {_line(r)}" for n, r in enumerate(results, start=1)]
    return "\n".join([*(lines or ["Nothing was found."]), *([left_out] if left_out else [])])


def listed(memories: Sequence[JsonObject], left_out: int = 0) -> str:
    lines = [_line(memory) for memory in memories] or ["There are no memories."]
    return "\n".join([*lines, *([not_read(left_out)] if left_out else [])])


def not_read(left_out: int) -> str:
    return f"({left_out} older notes were not read)" if left_out else ""


def whole(memories: Sequence[JsonObject]) -> list[tuple[str, str]]:
    """The memories with all of their values, where their lines leave some of them out."""
    if not any(len(str(memory["value"])) > _SHOWN for memory in memories):
        return []
    return [
        (head(f"{memory['namespace']}/{memory['key']}{_aside(memory)}", _date(memory)), str(memory["value"]))
        for memory in memories
    ]


def _date(memory: JsonObject) -> str:
    try:
        written = datetime.fromtimestamp((memory.get("updated_at") or memory["created_at"]) / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        # A person may have written any number.
        return ""
    return written.isoformat(timespec="seconds")


def deleted(done: bool) -> str:
    return "Deleted." if done else "No memory has that key."


def failed(error: GatewayError) -> str:
    if error.code == "payload_too_large":
        said = f"memory quota exceeded: {error.message}"
    elif error.code in {"no_brain", "unauthorized"}:
        said = "memory channel is not configured."
    else:
        said = error.message
    return f"Jettson Memory failed: {said}"


def _line(memory: JsonObject) -> str:
    return f"{memory['namespace']}/{memory['key']}{_aside(memory)}: {str(memory['value'])[:_SHOWN]}"


def _aside(memory: JsonObject) -> str:
    tags = f", tags {', '.join(memory['tags'])}" if memory["tags"] else ""
    return f" (importance {memory['importance']:g}{tags})"
