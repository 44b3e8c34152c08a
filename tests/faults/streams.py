"""Mutated answer streams through the whole relay: a complete answer or a typed error, never a wrong one, never a hang.

The relay is the real one, from the HTTP client to an MCP client, in one process; only the socket to the platform is not
there. What each stream should come to is read off its bytes by `reading`, which shares no code with it.
"""

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import httpx
from fastmcp import Client, FastMCP
from fastmcp.client.client import CallToolResult

from gateway.brain.brain import Brain
from gateway.mcp.run import tools_of
from gateway.operations.errors import CATALOGUE
from gateway.surfaces.memory.surface import Memory
from gateway.upstream import sse
from gateway.upstream.credentials import Endpoint
from gateway.upstream.deadlines import Deadlines
from gateway.upstream.dialects.daemon import DAEMON
from gateway.upstream.dialects.platform import PLATFORM
from gateway.upstream.pipeline import Upstream
from gateway.upstream.wire.transport import pooled_client
from tests.faults.mutations import EVENT_STREAM, MUTATIONS, UNENDED, Ending, Sent, drawn
from tests.faults.proof.part import Part
from tests.faults.reading import Reading, read, unpacked

SEED = 20_260_728
FULL, SMALL = 10_000, 400
AT_ONCE = 16
# Lower than in use, so that a stream can pass them.
CAPS = {"EVENT_BYTES": 100_000, "STREAM_BYTES": 300_000, "ANSWER_BYTES": 32_768, "EVENTS": 2_000}
PATIENT = Deadlines(first_event=30, idle=30, ask=60)
# For streams that never end, one clock at a time. Nothing else is timed: a busy machine would pass for a slow platform.
SILENT = Deadlines(first_event=0.3, idle=0.3, ask=60)
ENDLESS = Deadlines(first_event=30, idle=30, ask=1.0)
CLOCKS: dict[Ending, Deadlines] = {
    "silence": SILENT,
    "comments": SILENT,
    "unknown events": SILENT,
    "empty pieces": ENDLESS,
}
# The longest of these, with time to spare.
ENDED_SECONDS = 8.0
HUNG_SECONDS = 20.0
CRASHED = "The gateway failed; its log says why."
FAILURES: dict[Ending, type[httpx.TransportError]] = {
    "reset": httpx.ReadError,
    "garbage": httpx.RemoteProtocolError,
    "slow": httpx.ReadTimeout,
}
FILLERS: dict[Ending, bytes] = {
    "comments": b": keep-alive\n\n",
    "unknown events": b'event: ping\ndata: {"n": 1}\n\n',
    "empty pieces": b'event: answer_delta\ndata: {"delta": "", "text": ""}\n\n',
}


class Wire(httpx.AsyncByteStream):
    """The body of a response: these chunks, and that ending."""

    def __init__(self, sent: Sent) -> None:
        self._sent = sent

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._sent.chunks:
            yield chunk
        ending = self._sent.ending
        if ending in FAILURES:
            raise FAILURES[ending]("cut")
        if ending == "silence":
            await asyncio.Event().wait()
        # A new line first: what was begun is no part of what follows.
        for _ in range(10_000 if ending in FILLERS else 0):
            await asyncio.sleep(0.01)
            yield b"\n\n" + FILLERS[ending]


class Platform(httpx.AsyncBaseTransport):
    """Answers a question with the stream of that number, and has no other route."""

    def __init__(self) -> None:
        self.streams: dict[str, Sent] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/ask"):
            problem = {"status": 404, "title": "Not Found", "code": "not_found", "detail": "no route"}
            return httpx.Response(404, json=problem, headers={"content-type": "application/problem+json"})
        asked = json.loads(await request.aread())
        sent = self.streams[asked.get("query") or asked["question"]]
        return httpx.Response(200, headers=sent.headers, stream=Wire(sent))


@dataclass
class Outcome:
    """What a caller saw of one stream."""

    progress: list[tuple[float, str]] = field(default_factory=list)
    result: CallToolResult | None = None
    unexpected: str = ""
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        return self.result is not None and not self.result.is_error

    @property
    def text(self) -> str:
        return str(getattr(self.result.content[0], "text", "")) if self.result and self.result.content else ""

    @property
    def error(self) -> dict[str, Any]:
        """The error in the text: a sentence, and a line of JSON."""
        try:
            return dict(json.loads(self.text.split("\n")[1]))
        except (ValueError, IndexError):
            return {}


@asynccontextmanager
async def gateway(platform: Platform, *, daemon: bool, deadlines: Deadlines) -> AsyncIterator[Client[Any]]:
    async def endpoint() -> Endpoint:
        return Endpoint("http://platform.invalid")

    upstream = Upstream((DAEMON if daemon else PLATFORM,), endpoint, http=pooled_client(platform), deadlines=deadlines)
    try:
        async with Client(FastMCP("streams", tools=tools_of(Memory(Brain(upstream))))) as client:
            yield client
    finally:
        await upstream.close()


async def asked(client: Client[Any], number: str) -> Outcome:
    outcome, started = Outcome(), time.monotonic()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        outcome.progress.append((progress, str(message)))

    arguments = {"query": number, "brain": "main"}
    try:
        async with asyncio.timeout(HUNG_SECONDS):
            outcome.result = await client.call_tool(
                "memory_ask", arguments, raise_on_error=False, progress_handler=on_progress
            )
    except TimeoutError:
        outcome.unexpected = "hung"
    except Exception as error:  # noqa: BLE001  # whatever it is, it is none of the two things that may come
        outcome.unexpected = f"{type(error).__name__}: {error}"[:200]
    outcome.seconds = time.monotonic() - started
    return outcome


def expected(sent: Sent) -> Reading:
    """What a stream comes to, by the bytes of it that can be had."""
    media_type = sent.headers.get("content-type", EVENT_STREAM).lower()
    encoding = sent.headers.get("content-encoding", "")
    body, whole = unpacked(sent.body, encoding)
    if EVENT_STREAM not in media_type or not whole or encoding == "deflate":
        return Reading(why="no stream of events")
    reading = read(body, daemon=sent.daemon)
    if sent.ending == "empty pieces" and not reading.complete:
        reading.deltas += [""] * 10_000
    return reading


def objections(sent: Sent, outcome: Outcome) -> Iterator[str]:
    """What speaks against an outcome."""
    reading = expected(sent)
    if outcome.unexpected:
        yield outcome.unexpected
        return
    if [progress for progress, _ in outcome.progress] != list(range(len(outcome.progress))):
        yield "progress does not count 0, 1, 2 …"
    pieces = [message for _, message in outcome.progress]
    if pieces != reading.deltas[: len(pieces)]:
        yield "progress is not the pieces in their order"
    yield from _against_an_answer(sent, outcome, reading) if outcome.complete else _against_an_error(sent, outcome)
    if sent.ending in UNENDED and outcome.seconds > ENDED_SECONDS:
        yield f"took {outcome.seconds:.1f} s, against deadlines of {SILENT.idle} s and {ENDLESS.ask} s"


def _against_an_answer(sent: Sent, outcome: Outcome, reading: Reading) -> Iterator[str]:
    found = (outcome.result.structured_content if outcome.result else None) or {}
    if not reading.complete:
        yield f"an answer where there is none ({reading.why})"
    if found.get("answer") != reading.answer:
        yield "another answer"
    if max(len(reading.answer.encode()), len("".join(reading.deltas).encode())) > CAPS["ANSWER_BYTES"]:
        yield "an answer longer than the cap"
    if reading.events > CAPS["EVENTS"]:
        yield f"an answer of {reading.events:,} events"
    if len(outcome.progress) != len(reading.deltas):
        yield f"{len(outcome.progress)} pieces of {len(reading.deltas)}"
    citations, retrieved = found.get("citations", []), found.get("retrieved", [])
    if sent.daemon:
        # Their quotes are found by the gateway; how many there are is theirs.
        citations, retrieved = [{"type": "citation"} for _ in citations], [{"preview": ""} for _ in retrieved]
    if citations != reading.citations or retrieved != (reading.retrieved or []):
        yield "other citations or sources"


def _against_an_error(sent: Sent, outcome: Outcome) -> Iterator[str]:
    error, reading = outcome.error, expected(sent)
    if error.get("code") not in CATALOGUE or error.get("message") == CRASHED:
        yield f"no error of ours: {outcome.text[:200]}"
    if outcome.result is not None and outcome.result.structured_content is not None:
        yield "an error of a stream with structured content"
    if error.get("partial_answer", "") != "".join(message for _, message in outcome.progress):
        yield "the error does not say what came before it"
    if reading.complete and sent.due and not (sent.daemon and error.get("code") == "upstream_error"):
        yield f"no answer where there is one: {outcome.text[:120]}"


@contextmanager
def lower_caps() -> Iterator[None]:
    with ExitStack() as stack:
        for name, value in CAPS.items():
            stack.enter_context(patch.object(sse, name, value))
        yield


async def outcomes(streams: Iterable[tuple[str, Sent]]) -> list[tuple[str, Sent, Outcome]]:
    """Every stream through a gateway of its kind, some at once."""
    platform = Platform()
    found: list[tuple[str, Sent, Outcome]] = []
    numbered = zip(itertools.count(), streams, strict=False)
    async with AsyncExitStack() as stack:
        clients = {
            (daemon, deadlines): await stack.enter_async_context(gateway(platform, daemon=daemon, deadlines=deadlines))
            for daemon in (False, True)
            for deadlines in {PATIENT, *CLOCKS.values()}
        }

        async def work() -> None:
            for n, (name, sent) in numbered:
                platform.streams[str(n)] = sent
                outcome = await asked(clients[sent.daemon, CLOCKS.get(sent.ending, PATIENT)], str(n))
                del platform.streams[str(n)]
                found.append((f"{name} #{n}", sent, outcome))

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return found


def run(full: bool) -> Part:
    started, count = time.monotonic(), FULL if full else SMALL
    with lower_caps():
        found = asyncio.run(outcomes(drawn(SEED, count)))
    tally: dict[str, Counter[str]] = {}
    failures: list[str] = []
    for name, sent, outcome in found:
        against = list(objections(sent, outcome))
        failures += [f"{name} (seed {SEED}): {objection}" for objection in against]
        counts = tally.setdefault(name.rpartition(" #")[0], Counter())
        counts["streams"] += 1
        if outcome.unexpected == "hung":
            counts["hung"] += 1
        elif against:
            counts["wrong"] += 1
        else:
            counts["complete" if outcome.complete else str(outcome.error["code"])] += 1
    return Part(
        title="Mutated answer streams",
        claim=f"Of {count:,} mutated answer streams each is a complete answer, the one its bytes hold, or a typed "
        "error; none hangs, none is wrong, and progress counts every piece in its order.",
        headers=("What happened to the stream", "streams", "complete", *_codes(tally), "wrong", "hung"),
        rows=_rows(tally),
        failures=failures,
        seconds=time.monotonic() - started,
        notes=[
            f"Seed {SEED}. Both dialects. HTTP client, relay, MCP server and client are the real ones, in one process.",
            f"Caps are lowered so that streams pass them ({', '.join(f'{n} {v:,}' for n, v in CAPS.items())}); "
            f"streams that never end have {SILENT.idle} s for their next frame, or {ENDLESS.ask} s in all.",
        ],
    )


def _codes(tally: dict[str, Counter[str]]) -> list[str]:
    return sorted({name for counts in tally.values() for name in counts} & set(CATALOGUE))


def _rows(tally: dict[str, Counter[str]]) -> list[tuple[str, ...]]:
    columns = ["streams", "complete", *_codes(tally), "wrong", "hung"]
    lines = {name: tally[name] for name in MUTATIONS if name in tally} | {"all": sum(tally.values(), Counter())}
    return [(name, *(f"{counts[column]:,}" for column in columns)) for name, counts in lines.items()]
