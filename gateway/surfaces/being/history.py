"""The messages, kept by the day: one line of JSON for each."""

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from gateway.brain.notebook import Entry, Notebook
from gateway.operations import names
from gateway.operations.caller import Call
from gateway.operations.parallel import AT_ONCE, in_parallel
from gateway.operations.table import JsonObject
from gateway.surfaces.being import names as paths
from gateway.surfaces.being.schema import Message, SearchHistoryInput

# How many days are read for one search, the newest ones.
DAYS: Final = 366
_APPENDED_BYTES: Final = 500_000
_ID_LENGTH: Final = 24


@dataclass(frozen=True, slots=True)
class Said:
    """One message of the history."""

    id: str
    at: str
    role: str
    content: str
    day: str | None = None
    """The day on which it was said, where the client told that; else that is the one on which it was kept."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """Messages that no patrol has kept yet, and the marker for the next call."""

    said: tuple[Said, ...]
    marker: str
    day: str
    gap: bytes
    """Lines that are missing at the end of the day's file."""


class History:
    """The messages of a brain, by the day that they were kept on."""

    def __init__(self, notes: Notebook) -> None:
        self._notes = notes

    async def fresh(self, call: Call, messages: Sequence[Message], marker: str | None) -> Fresh:
        """Those messages that are not kept yet, neither by an earlier copy of this call nor by the call before it."""
        chain, start = continued(messages, marker)
        ids = rolled(chain, messages)
        now = datetime.now(UTC)
        days = [f"{moment:%Y-%m-%d}" for moment in (now, now - timedelta(days=1))]
        # A call that is sent again may come after midnight.
        today, before = await in_parallel([self._reading(call, day) for day in days]) if messages else ("", "")
        known = {line.id for text in (today, before) for line in lines_of(text, "")}
        at = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        new = [
            Said(said_id(hashed), at, message.role, message.content, message.day)
            for hashed, message in list(zip(ids, messages, strict=True))[start:]
            if said_id(hashed) not in known and message.content
        ]
        end = marker_of(ids[-1]) if ids else went_on(marker)
        return Fresh(tuple(new), end, days[0], b"\n" if today and not today.endswith("\n") else b"")

    async def keep(self, call: Call, fresh: Fresh) -> None:
        gap = fresh.gap
        for part in parts_of(fresh.said):
            await self._notes.append(call, day_path(fresh.day), gap + part)
            gap = b""

    async def search(self, call: Call, args: SearchHistoryInput) -> tuple[list[Said], int]:
        """Messages that match, newest first; and how many days that might hold more were not looked at."""
        listed = await self._notes.entries(call, paths.HISTORY, ending=".jsonl")
        days = sorted((entry for entry in listed if _is_within(entry, args)), key=_day, reverse=True)
        wanted, found, place = (args.query or "").casefold(), list[Said](), 0
        while len(found) < args.limit and place < min(len(days), DAYS):
            batch = [_day(entry) for entry in days[place : place + AT_ONCE]]
            place += len(batch)
            read = await in_parallel([self._reading(call, day) for day in batch])
            for day, text in zip(batch, read, strict=True):
                matching = [said for said in lines_of(text, day) if wanted in said.content.casefold()]
                # Messages of one moment are in their original order, and sorting keeps it.
                found += sorted(matching, key=lambda said: said.at)[::-1]
        left_out = len(days) - DAYS if len(found) < args.limit and len(days) > DAYS else 0
        return found[: args.limit], left_out

    def _reading(self, call: Call, day: str) -> Callable[[], Awaitable[str]]:
        async def read() -> str:
            return await self._notes.text(call, day_path(day)) or ""

        return read


def day_path(day: str) -> str:
    return f"{paths.HISTORY}/{day}.jsonl"


def rolled(chain: str | None, messages: Iterable[Message]) -> list[str]:
    """A hash for each message: of it and of all messages before it."""
    hashes, last = list[str](), names.digest(["being", chain])
    for message in messages:
        last = names.digest([last, message.role, message.content])
        hashes.append(last)
    return hashes


def said_id(hashed: str) -> str:
    return hashed[:_ID_LENGTH]


def marker_of(hashed: str) -> str:
    return paths.derived_id("marker", hashed)


def beginning() -> str:
    """The marker of a being that has no messages yet."""
    return marker_of(names.digest(["being", None]))


def went_on(marker: str | None) -> str:
    """The marker of a patrol without messages: the given one. If that cannot be ours, the first one."""
    return marker if marker is not None and names.is_derived_uuid(marker) else beginning()


def continued(messages: Sequence[Message], marker: str | None) -> tuple[str | None, int]:
    """The marker after which these messages continue, and how many of them come before it.

    Some clients send only the messages since the marker, others send all.
    """
    if marker in (None, beginning()):
        return None, 0
    for place, hashed in enumerate(rolled(None, messages), start=1):
        if marker_of(hashed) == marker:
            return None, place
    return marker, 0


def parts_of(said: Iterable[Said]) -> list[bytes]:
    """Lines, as many together as one request takes."""
    parts: list[bytes] = []
    for one in said:
        line = {"id": one.id, "at": one.at, "role": one.role, "content": one.content}
        body = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        if parts and len(parts[-1]) + len(body) <= _APPENDED_BYTES:
            parts[-1] += body
        else:
            parts.append(body)
    return parts


def lines_of(text: str, day: str) -> list[Said]:
    """The messages of a day, each once. A line that a person wrote is one too."""
    found: dict[str, Said] = {}
    for number, line in enumerate(text.split("\n")):
        if line.strip():
            said = _said(line, day, number)
            found.setdefault(said.id, said)
    return list(found.values())


def _said(line: str, day: str, number: int) -> Said:
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        read = None
    fields: JsonObject = read if isinstance(read, dict) else {"content": line.strip()}
    content = fields.get("content")
    return Said(
        str(fields.get("id") or f"line {number}"),
        str(fields.get("at") or f"{day}T00:00:00.000Z"),
        str(fields.get("role") or "note"),
        content if isinstance(content, str) else line,
    )


def _day(entry: Entry) -> str:
    return paths.stem_of(entry.path)


def _is_within(entry: Entry, args: SearchHistoryInput) -> bool:
    return (args.date_from or "") <= _day(entry) <= (args.date_to or "9999-99-99")
