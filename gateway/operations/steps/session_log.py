"""Sessions on a platform that has none: a log of lines, kept as a document of the brain.

A line is a message, a note of how far memories were extracted, or the end of the session with its reflection.
Lines are only ever added, so that any number of gateways may write one log. A message says to which call it belongs
(`call`, a digest) and its place there (`n`): lines that were added twice are read once.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from io import BytesIO
from typing import Final

from gateway.operations import names
from gateway.operations.context import StepContext
from gateway.operations.json_text import parse_json
from gateway.operations.ranking import moment
from gateway.operations.steps import documents
from gateway.operations.steps.certainty import make_certain_once
from gateway.operations.table import JsonObject, Op

ONE_CALL: Final = timedelta(minutes=10)
# This many lines are read before other tasks get their turn.
_TURN: Final = 500


@dataclass(slots=True)
class Log:
    """The messages of a session, how far they were extracted, and its reflection."""

    messages: list[JsonObject] = field(default_factory=list)
    extracted: int = 0
    """From how many messages memories were extracted."""
    closed: JsonObject | None = None
    """The end of the session, unless messages came after it."""


class _Once:
    """Tells lines that were added twice, by two gateways or by a request that arrived late.

    With a key, a repeated call is always the same call; without, only if it comes next and within ten minutes.
    """

    def __init__(self) -> None:
        self._keyed: set[tuple[str, int]] = set()
        self._call: str | None = None
        self._places: dict[int, object] = {}

    def is_new(self, entry: JsonObject) -> bool:
        call, n = entry.get("call"), entry.get("n")
        if not isinstance(call, str) or not isinstance(n, int):
            self._call = None
            return True
        if entry.get("keyed"):
            is_new = (call, n) not in self._keyed
            self._keyed.add((call, n))
            if is_new:
                # After another message, an equal one is a new message and not a repetition.
                self._call = None
            return is_new
        if call != self._call:
            self._call, self._places = call, {}
        if n in self._places and are_one_call(self._places[n], entry.get("created_at")):
            return False
        self._places[n] = entry.get("created_at")
        return True


def are_one_call(one: object, other: object) -> bool:
    """Whether two times are so close that equal messages count as one call that came twice."""
    return abs(moment(other) - moment(one)) < ONE_CALL


async def read_log(context: StepContext, brain: str, session_id: str) -> Log:
    """The log of a session; an empty one if it has no messages yet."""
    log, once = Log(), _Once()
    said_at_close: object = 0
    body = await documents.read(context, brain, names.session_log_path(context.caller, session_id))
    async for entry in _entries(body or b""):
        match entry.get("kind"):
            case "message" if "role" in entry and "content" in entry:
                if once.is_new(entry):
                    log.messages.append(entry)
            case "extracted" if isinstance(entry.get("through"), int):
                log.extracted = max(log.extracted, entry["through"])
            case "closed" if isinstance(entry.get("answer"), dict):
                log.closed, said_at_close = entry.get("answer"), entry.get("messages")
    if said_at_close != len(log.messages):
        log.closed = None
    return log


async def append(context: StepContext, brain: str, path: str, lines: Sequence[bytes]) -> None:
    """Add lines to a log.

    Raises:
        Absent: nothing was added.
        GatewayError: nothing was added; or `outcome_unknown`, when that is so.
    """
    # If the last line there is incomplete, it ends here, so that it does not damage the first of these.
    body = b"\n" + b"".join(lines)

    async def send() -> bool:
        await context.send(Op.APPEND_DOCUMENT, {"brain": brain, "path": path, "body": body})
        return True

    async def look() -> bool | None:
        return body in (await documents.read(context, brain, path) or b"") or None

    # If it arrives late, besides its repeat: lines that are there twice are read once.
    await make_certain_once(send, look, late_is_harmless=True)


def line(entry: JsonObject) -> bytes:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


async def _entries(body: bytes) -> AsyncIterator[JsonObject]:
    """The lines that can be read. An incomplete line does not affect the others."""
    for n, text in enumerate(BytesIO(body), start=1):
        if n % _TURN == 0:
            await asyncio.sleep(0)
        try:
            entry = parse_json(text)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def parts(lines: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Lines in as few requests as the platform takes."""
    part: list[bytes] = []
    size = 0
    for line in lines:
        if part and size + len(line) > documents.PUT_BYTES:
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    yield part
