"""Platforms that mean harm: whatever they answer, it is an error in our words or an answer of a sane size, soon.

Everything is small on the wire but two answers that go on until they are given up.
"""

import asyncio
import gzip
import itertools
import json
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.operations.caller import Call
from gateway.operations.errors import CATALOGUE, Absent, GatewayError, Unsure
from gateway.operations.table import Effect, JsonObject, Op, Upload
from gateway.upstream import sse
from gateway.upstream.deadlines import Deadlines
from gateway.upstream.pipeline import Upstream
from tests.gateway.upstream.platforms import reaching
from tests.gateway.upstream.test_bad_upstreams import DIALECTS, EVERY_DIALECT, SECRET, called, reply
from tests.gateway.upstream.test_bad_upstreams import Bad as Same

pytestmark = pytest.mark.not_quick

Answer = Callable[[], Iterator[bytes]]
MEGABYTE = 1024 * 1024
# What the loop may be held for. Before there were bounds it was a minute.
HELD_SECONDS = 5.0
TOP_K = 10
ARGS: JsonObject = {
    "brain": "notes",
    "session_id": "s",
    "query": "x",
    "top_k": TOP_K,
    "path": "a.md",
    "to": "b.md",
    "body": b"x",
    "writes": {"a.md": b"x"},
    "title": "A",
    "content": "x",
    "name": "A",
    "slug": "a",
    "visibility": "private",
    "role": "user",
    "messages": [{"role": "user", "content": "x"}],
    "url": "https://example.com",
    "upload": Upload("a.md", "text/markdown", b"x"),
}
JSON_OPS = [op for op in Op if op not in {Op.ASK, Op.READ_DOCUMENT, Op.FETCH_PAGE}]
TRIED = (
    Op.SEARCH,
    Op.SESSION_RECALL,
    Op.RECALL,
    Op.ASK,
    Op.LIST_BRAINS,
    Op.LIST_DOCUMENTS,
    Op.READ_DOCUMENT,
    Op.STAT_DOCUMENT,
    Op.CREATE_DOCUMENT,
    Op.WRITE_DOCUMENT,
    Op.INGEST_FILE,
    Op.INGEST_TEXT,
    Op.APPEND_MESSAGE,
    Op.EXTRACT,
    Op.CREATE_BARE_BRAIN,
)
NAMES = ("hits", "chunks", "items", "memories", "retrieved", "citations", "document")


class Heart:
    """Beats while the loop is free, and knows how much was computed between two beats."""

    def __init__(self) -> None:
        self.longest = 0.0

    @asynccontextmanager
    async def beating(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._beat())
        try:
            await asyncio.sleep(0)
            yield
            await asyncio.sleep(0.006)
        finally:
            task.cancel()

    async def _beat(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.005)
            self.longest = max(self.longest, time.thread_time() - before)


class Hostile:
    """A platform that answers the same to everything, for as long as anybody reads."""

    def __init__(self, answer: bytes | Answer) -> None:
        self._answer = answer
        self.sent = self.requests = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            for part in [self._answer] if isinstance(self._answer, bytes) else self._answer():
                writer.write(part)
                await writer.drain()
                self.sent += len(part)
        writer.close()

    async def ask(self, dialect: str, op: Op, deadlines: Deadlines | None = None) -> JsonObject | GatewayError:
        """What comes of one operation."""
        async with self.reached(dialect, deadlines) as upstream:
            return await outcome(upstream, op)

    @asynccontextmanager
    async def reached(self, dialect: str, deadlines: Deadlines | None = None) -> AsyncIterator[Upstream]:
        """The way to it, during which the loop is never held for long."""
        server, heart = await asyncio.start_server(self.serve, "127.0.0.1", 0), Heart()
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, reaching(url, DIALECTS[dialect], deadlines=deadlines) as upstream, heart.beating():
            yield upstream
        assert heart.longest < HELD_SECONDS


async def outcome(upstream: Upstream, op: Op) -> JsonObject | GatewayError:
    try:
        if op is not Op.ASK:
            return (await upstream.send(Call(), op, ARGS)).answer
        async with await upstream.open(Call(), op, ARGS) as coming:
            return {"frames": [frame async for frames in coming for frame in frames]}
    except GatewayError as error:
        return error


def check(found: JsonObject | GatewayError) -> None:
    """An error in our words; or an answer with no more in it than was sent, and no more results than were wanted."""
    if isinstance(found, GatewayError):
        failures = [found, found.failure] if isinstance(found, Unsure) else [found]
        assert all(failure.code in CATALOGUE for failure in failures)
        assert all(SECRET not in str(failure) + str(failure.as_json("r")) for failure in failures)
        return
    written = json.dumps(found, ensure_ascii=False, default=str).encode()
    assert len(written) < 4 * MEGABYTE


def whole(value: bytes) -> bytes:
    """That value where each operation looks for something."""
    named = b",".join(b'"%s": %s' % (name.encode(), value) for name in NAMES)
    return b'{"answer": "hunter2", "path": "a", "id": "a", ' + named + b"}"


def many(item: bytes, count: int) -> bytes:
    return b"[" + b",".join([item] * count) + b"]"


def once(value: bytes) -> bytes:
    """That value where nothing is looked for."""
    return b'{"hits": [], "chunks": [], "items": [], "memories": [], "answer": "hunter2", "x": ' + value + b"}"


NUMBERED = b",".join(b'"%s%d": 0' % (SECRET.encode(), n) for n in range(30_000))
BODIES: dict[str, bytes] = {
    "empty objects": whole(many(b"{}", 16_000)),
    "empty objects, fewer": whole(many(b"{}", 4_000)),
    "hits": whole(many(b'{"path": "hunter2", "id": "a", "brainId": "notes"}', 2_000)),
    "empty lists": whole(many(b"[]", 16_000)),
    "lists in one hit": whole(b'[{"path": "a", "x": ' + many(b"[]", 16_000) + b"}]"),
    "zeros": whole(many(b"0", 16_000)),
    "texts": whole(many(b'""', 16_000)),
    "names": once(b"{" + NUMBERED + b"}"),
    "one name": once(b"{" + b",".join([b'"hunter2": 0'] * 30_000) + b"}"),
    "deep lists": once(b"[" * 100_000 + b"]" * 100_000),
    "deep objects": once(b'{"a":' * 50_000 + b"0" + b"}" * 50_000),
    "deep both": whole(b'[{"a":' * 5_000 + b"0" + b"}]" * 5_000),
    "deep, never closed": once(b'[{"hunter2":' * 20_000),
    "digits": whole(b"9" * 20_000),
    "4300 digits": whole(many(b"9" * 4_300, 20)),
    "a score of 400 digits": whole(many(b'{"path": "a", "id": "a", "score": %s}' % (b"9" * 400), 3)),
    "digits after a point": whole(b'[{"path": "a", "score": 0.%s}]' % (b"1" * 100_000)),
    "a large exponent": whole(b'[{"path": "a", "score": 1e999999}]'),
    "a small exponent": whole(b'[{"path": "a", "score": 1e-999999}]'),
    "a long exponent": whole(b'[{"path": "a", "score": 1e%s1}]' % (b"0" * 100_000)),
    "nan": whole(b'[{"path": "a", "score": NaN}]'),
    "infinity": whole(b"[-Infinity]"),
    "halves of pairs": whole(b'["' + rb"\ud83d" * 15_000 + b'"]'),
    "halves in names": once(b"{" + b",".join(rb'"\udc00%d": 0' % n for n in range(40_000)) + b"}"),
    "backslashes": once(b'"' + rb"\\" * 200_000 + b'"'),
    "commas in a text": once(b'"' + b"hunter2,[{" * 40_000 + b'"'),
    "quotes in a text": once(b'"' + rb"\"," * 120_000 + b'"'),
    "null for lists": whole(b"null"),
    "objects for lists": whole(b'{"hunter2": {}}'),
    "lists for objects": whole(b'[["hunter2"], []]'),
    "spaces": b" " * 300_000 + b"{}",
    "bom": b"\xef\xbb\xbf" + whole(b"[]"),
    "two boms": b"\xef\xbb\xbf\xef\xbb\xbf" + whole(b"[]"),
    "utf-16": whole(b'["hunter2"]').decode().encode("utf-16"),
    "utf-32": whole(b'["hunter2"]').decode().encode("utf-32"),
    "zero bytes": b"\0" * 100_000,
}


@pytest.mark.sampled(3)
@EVERY_DIALECT
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.few(36)
async def test_a_hostile_body_harms_nobody_whatever_was_asked(dialect: str, body: bytes) -> None:
    assert len(body) <= MEGABYTE
    platform, ops = Hostile(reply(body)), [op for op in TRIED if op in DIALECTS[dialect].routes]
    async with platform.reached(dialect) as upstream:
        for op in ops:
            check(await outcome(upstream, op))
    # What cannot be read is not asked for again.
    assert platform.requests == len(ops)
    check(await Hostile(reply(body, "400 Oh", "application/problem+json")).ask(dialect, Op.SEARCH))


@EVERY_DIALECT
@pytest.mark.parametrize("op", [Op.SEARCH, Op.LIST_BRAINS, Op.LIST_DOCUMENTS, Op.STAT_DOCUMENT])
async def test_what_can_be_read_is_answered(dialect: str, op: Op) -> None:
    for name in ("bom", "backslashes", "commas in a text", "quotes in a text"):
        assert isinstance(await Hostile(reply(BODIES[name])).ask(dialect, op), dict), name


@EVERY_DIALECT
@pytest.mark.parametrize("op", [op for op in Op if op.effect is Effect.FIND])
async def test_more_results_than_were_wanted_are_dropped_before_they_are_looked_at(dialect: str, op: Op) -> None:
    if op not in DIALECTS[dialect].routes:
        op = Op.SEARCH
    key = next(iter({"hits", "chunks", "memories"} & {"hits" if dialect == "platform" else "chunks"}))
    key = "memories" if op is Op.EXTRACT else key
    # What is wrong with the last ones is never found out: nobody looks.
    items = [{"path": f"{n}.md"} for n in range(5_000)] + [None]
    found = await Hostile(reply(json.dumps({key: items}).encode())).ask(dialect, op)
    assert isinstance(found, dict)
    results = found["memories"] if op is Op.EXTRACT else found["hits" if dialect == "daemon" else key]
    assert [item["path"] for item in results] == [f"{n}.md" for n in range(TOP_K + 100)]


@EVERY_DIALECT
async def test_a_tool_answers_with_no_more_than_it_was_asked_for(dialect: str, tmp_path: Path) -> None:
    hits = many(b'{"path": "a.md", "text": "x"}', 9_000)
    result = await called(Same(reply(b'{"hits": %s, "chunks": %s}' % (hits, hits))), "memory_search", dialect, tmp_path)
    assert result.structured_content is not None
    assert len(result.structured_content["hits"]) == TOP_K + 100
    stream = b'event: retrieve\ndata: {"chunks": %s}\n\nevent: done\ndata: {"answer": "a"}\n\n' % hits
    result = await called(Same(reply(stream, media_type="text/event-stream")), "memory_ask", dialect, tmp_path)
    assert result.structured_content is not None
    assert len(result.structured_content["retrieved"]) == 200


def too_many_events() -> bytes:
    return b"data: {}\n\n" * (sse.EVENTS + 1)


def delta(text: str) -> bytes:
    return b"event: answer_delta\ndata: " + json.dumps({"delta": text, "text": text}).encode() + b"\n\n"


DONE = b'event: done\ndata: {"answer": "a"}\n\n'
CITED = b'event: citation\ndata: {"path": "a", "chunkId": "a", "chunk_id": "a"}\n\n'
WORDS = " ".join(f"w{n % 100}" for n in range(6_000))
CHUNK = json.dumps({"chunks": [{"path": "a", "text": WORDS}]}).encode()
STREAMS: dict[str, tuple[bytes, str | None]] = {
    "tiny events": (too_many_events(), "more events"),
    "tiny pieces": (delta("a") * 15_000 + DONE, None),
    "events of other kinds": (b"event: hunter2\ndata: 0\n\n" * 40_000 + DONE, None),
    "a comment": (b": " + b"hunter2" * 100_000 + b"\n\n" + DONE, None),
    "comments": (b":\n" * (sse.LINES + 1), "more lines"),
    "blank lines": (b"\n" * (sse.LINES + 1), "more lines"),
    "carriage returns": (b"\r" * (sse.LINES + 1), "more lines"),
    "blank lines after an id": (b"id: 1\n" + b"\n" * (sse.LINES + 1), "more lines"),
    "both ends": (b"\r\n" * (MEGABYTE // 2 - 100) + DONE, "more lines"),
    "no end": (b"event: answer_delta\ndata: " + b"hunter2" * 140_000, "stopped"),
    "lines of one event": (b"data:\n" * 170_000 + b"\n" + DONE, "not a JSON object"),
    "a long name": (b"event: " + b"hunter2" * 140_000 + b"\ndata: 0\n\n" + DONE, None),
    "a long time to wait": (b"retry: " + b"9" * 900_000 + b"\n\n" + DONE, None),
    "a long id": (b"id: " + b"9" * 900_000 + b"\n\n" + DONE, None),
    "chunks": (b'event: retrieve\ndata: {"chunks": %s}\n\n' % many(b"{}", 120_000) + DONE, "too large"),
    "lists in a chunk": (
        b'event: retrieve\ndata: {"chunks": [{"path": "a", "x": %s}]}\n\n' % many(b"[]", 120_000),
        "too large",
    ),
    "citations": (CITED * 13_000 + DONE, None),
    "citations that are looked for": (
        b"event: retrieve\ndata: " + CHUNK + b"\n\n" + delta(WORDS[::-1]) + CITED * 20 + DONE,
        None,
    ),
    "an error": (b'event: error\ndata: {"code": "%s", "message": "hunter2"}\n\n' % (b"hunter2" * 100_000), "error"),
    "halves of pairs": (b'event: done\ndata: {"answer": "' + rb"\ud83d" * 150_000 + b'"}\n\n', None),
}


@EVERY_DIALECT
@pytest.mark.parametrize(("stream", "words"), STREAMS.values(), ids=STREAMS)
async def test_a_hostile_stream_harms_nobody(dialect: str, stream: bytes, words: str | None) -> None:
    assert len(stream) <= MEGABYTE
    found = await Hostile(reply(stream, media_type="text/event-stream")).ask(dialect, Op.ASK)
    check(found)
    if words is None:
        assert isinstance(found, dict)
        assert found["frames"][-1]["type"] == "done"
    else:
        assert isinstance(found, GatewayError)
        assert words in found.message


async def test_no_more_citations_are_passed_on_than_anybody_reads() -> None:
    found = await Hostile(reply(CITED * 2_000 + DONE, media_type="text/event-stream")).ask("platform", Op.ASK)
    assert isinstance(found, dict)
    assert len(found["frames"]) == 1_001


def packed(body: bytes, how: str) -> bytes:
    return reply(body, more=f"content-encoding: {how}\r\n")


# Forty bytes of each thousand.
BOMB = gzip.compress(b'{"hits": [' + b" " * 40 * MEGABYTE + b"]}", 9)
DEFLATED = zlib.compress(b" " * 40 * MEGABYTE, 9)
PACKED: dict[str, tuple[bytes, str]] = {
    "a bomb": (packed(BOMB, "gzip"), "The platform's answer is too large."),
    "a bomb, deflated": (
        packed(zlib.compress(b" " * 40 * MEGABYTE, 9), "deflate"),
        "The platform's answer is too large.",
    ),
    "a bomb in a bomb": (packed(gzip.compress(BOMB), "gzip, gzip"), "The platform's answer cannot be decoded."),
    "packed otherwise": (packed(b"hunter2" * 1000, "br"), "The platform's answer cannot be decoded."),
    "not packed": (packed(b'{"hits": []}', "gzip"), "The platform's answer cannot be decoded."),
    "cut": (packed(gzip.compress(b'{"hits": []}')[:-4], "gzip"), "The platform's answer cannot be decoded."),
}


@pytest.mark.sampled(3)
@EVERY_DIALECT
@pytest.mark.parametrize("op", [Op.SEARCH, Op.READ_DOCUMENT, Op.LIST_BRAINS])
@pytest.mark.parametrize(("answer", "message"), PACKED.values(), ids=PACKED)
async def test_what_is_packed_is_unpacked_no_further_than_the_cap(
    dialect: str, op: Op, answer: bytes, message: str
) -> None:
    assert len(answer) <= MEGABYTE
    platform = Hostile(answer)
    found = await platform.ask(dialect, op)
    assert isinstance(found, GatewayError)
    assert (found.code, found.message) == ("upstream_error", message)
    assert platform.requests == 1


@EVERY_DIALECT
async def test_a_packed_stream_is_unpacked_no_further_than_the_cap(dialect: str) -> None:
    more = "content-encoding: gzip\r\n"
    for body in (b"data: " + b"x" * 40 * MEGABYTE, b": x\n\n" * 8 * MEGABYTE):
        answer = reply(gzip.compress(body, 9), media_type="text/event-stream", more=more)
        found = await Hostile(answer).ask(dialect, Op.ASK)
        assert isinstance(found, GatewayError)
        assert found.code == "upstream_error"


CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"


def endless_body() -> Iterator[bytes]:
    yield CHUNKED + b"1\r\n{\r\n"
    while True:
        yield b"10000\r\n" + b" " * 65_536 + b"\r\n"


def endless_chunk() -> Iterator[bytes]:
    """Chunks are announced by lines, which may say more than a length."""
    yield CHUNKED + b"1;hunter2="
    while True:
        yield b"x" * 65_536


def endless_trailers() -> Iterator[bytes]:
    yield CHUNKED + b"0\r\n"
    while True:
        yield b"x-hunter2: 0\r\n" * 5_000


def endless_headers() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n"
    for n in itertools.count():
        yield b"".join(b"x-%d-%d: hunter2\r\n" % (n, k) for k in range(1000))


def endless_header() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nx-hunter2: "
    while True:
        yield b"x" * 65_536


def endless_status() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 "
    while True:
        yield b"x" * 65_536


ENDLESS: dict[str, tuple[Answer, int]] = {
    "body": (endless_body, Op.SEARCH.answer_bytes),
    "headers": (endless_headers, MEGABYTE),
    "header": (endless_header, MEGABYTE),
    "status": (endless_status, MEGABYTE),
}


@EVERY_DIALECT
@pytest.mark.parametrize("op", [Op.SEARCH, Op.WRITE_DOCUMENT, Op.ASK])
@pytest.mark.parametrize(("answer", "most"), ENDLESS.values(), ids=ENDLESS)
async def test_what_never_ends_is_given_up(dialect: str, op: Op, answer: Answer, most: int) -> None:
    platform = Hostile(answer)
    found = await platform.ask(dialect, op)
    assert isinstance(found, GatewayError)
    check(found)
    # For each attempt, and with what the sockets of both sides take in.
    assert platform.sent <= (most + 16 * MEGABYTE) * platform.requests


@pytest.mark.parametrize("answer", [endless_chunk, endless_trailers])
async def test_what_never_ends_and_says_nothing_is_given_up_in_time(answer: Answer) -> None:
    """Nothing is kept of it, and others are served meanwhile."""
    found = await Hostile(answer).ask("platform", Op.SEARCH, Deadlines(read=0.3))
    assert isinstance(found, GatewayError)
    check(found)


@EVERY_DIALECT
@pytest.mark.parametrize("op", [op for op in JSON_OPS if op.reads and op.answer_bytes < 20 * MEGABYTE])
async def test_twenty_megabytes_are_too_much_for_anything_but_a_document(dialect: str, op: Op) -> None:
    if op not in DIALECTS[dialect].routes:
        with pytest.raises(Absent):
            await Hostile(b"").ask(dialect, op)
        return
    platform = Hostile(reply(b'{"hits": [], "items": [], "x": "' + b"x" * 20 * MEGABYTE + b'"}'))
    found = await platform.ask(dialect, op)
    assert isinstance(found, GatewayError)
    assert (found.code, found.message) == ("upstream_error", "The platform's answer is too large.")
    assert not found.retryable
    assert platform.requests == 1


@EVERY_DIALECT
async def test_a_document_of_that_size_is_read(dialect: str) -> None:
    found = await Hostile(reply(b"x" * 25 * MEGABYTE)).ask(dialect, Op.READ_DOCUMENT)
    assert isinstance(found, dict)
    assert len(found["body"]) == 25 * MEGABYTE


@EVERY_DIALECT
@pytest.mark.parametrize("more", [{}, {"brain_id": "theirs"}, {"brainId": "theirs"}], ids=str)
async def test_an_answer_made_from_another_brain_is_broken_off(
    dialect: str, more: dict[str, Any], tmp_path: Path
) -> None:
    chunks = json.dumps({"chunks": [{"path": "a.md", "text": "x", "metadata": {"brain": "theirs"}, **more}]}).encode()
    stream = b"event: retrieve\ndata: " + chunks + b"\n\n" + DONE
    result = await called(Same(reply(stream, media_type="text/event-stream")), "memory_ask", dialect, tmp_path)
    assert result.is_error == bool(more)
    assert (result.structured_content is None) == bool(more)
