"""Limits the size of a result: entries beyond it are left out whole, and the result says so."""

from collections.abc import Sequence
from typing import Any, Final

import orjson

from gateway.operations.table import JsonObject

RESULT_LENGTH: Final = 1_000_000


def bounded(entries: Sequence[JsonObject], text: str, length: int = RESULT_LENGTH) -> tuple[list[JsonObject], int]:
    """The first entries, as many as a result of so many characters holds, and how many are left out.

    If the `text` of one entry would fill a result by itself, it is cut, and says so.
    """
    if _is_short(entries, length):
        return list(entries), 0
    kept: list[JsonObject] = []
    room = length
    for entry in entries:
        fitting = _cut(entry, text, length * 9 // 10)
        room -= json_length(fitting, room)
        if room < 0:
            break
        kept.append(fitting)
    return kept, len(entries) - len(kept)


def more(left_out: int) -> JsonObject:
    """The field that counts the entries that were left out; nothing if there are none."""
    return {"left_out": left_out} if left_out else {}


def left_out_note(left_out: int) -> str:
    return f"\n({left_out:,} more are left out: one result holds {RESULT_LENGTH:,} characters)" if left_out else ""


def cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]} … (cut: {len(text):,} characters in all)"


def _is_short(entries: Sequence[JsonObject], length: int) -> bool:
    """Whether all of them fit, as nearly always. To serialise all is faster than to measure each."""
    try:
        return len(orjson.dumps(entries)) <= length * 9 // 10
    except TypeError:
        # It holds integers that are too long, or is nested too deeply.
        return False


def _cut(entry: JsonObject, text: str, length: int) -> JsonObject:
    said = entry.get(text)
    return {**entry, text: cut(said, length)} if isinstance(said, str) and len(said) > length else entry


def json_length(value: JsonObject | Sequence[JsonObject], enough: int, *, indent: int = 0) -> int:
    """About how long it is as JSON. Stops as soon as it is too long."""
    size = 0
    containers: list[tuple[Any, int]] = [(value, indent)]
    while containers and size <= enough:
        container, margin = containers.pop()
        size += margin * len(container)
        if isinstance(container, dict):
            size += sum(map(len, container)) + 4 * len(container)
            container = container.values()
        for part in container:
            if isinstance(part, str):
                size += len(part) + 3
            elif isinstance(part, (dict, list)):
                containers.append((part, margin + indent))
                size += 3
            else:
                size += 8
    return size
