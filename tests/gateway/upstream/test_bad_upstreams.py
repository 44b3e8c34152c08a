"""Platforms gone wrong: whatever they answer, a caller gets an error in our words, and nothing is tried elsewhere."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from fastmcp import Client
from fastmcp.client.client import CallToolResult
from mcp import ClientSession
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gateway.app.gateway import Gateway
from gateway.config.settings import load
from gateway.operations.errors import CATALOGUE
from gateway.operations.steps import certainty
from gateway.operations.table import Op
from gateway.surfaces.memory.surface import Memory
from gateway.upstream import sse
from gateway.upstream.dialects.daemon import DAEMON
from gateway.upstream.dialects.dialect import Dialect
from gateway.upstream.dialects.platform import PLATFORM
from tests.gateway.conftest import text_of
from tests.gateway.upstream.platforms import ALL, Say, Wild, problem, says_foreign, says_home_page
from tests.served import listening

pytestmark = pytest.mark.not_quick

CRASHED = "The gateway failed; its log says why."
SECRET = "hunter2"
PROBLEM = "application/problem+json"
DIALECTS = {"platform": PLATFORM, "daemon": DAEMON}
TOOLS: dict[str, dict[str, Any]] = {
    "memory_search": {"query": "x", "brain": "notes"},
    "memory_remember": {"content": "x", "brain": "notes"},
    "memory_ingest_file": {"path": "a.md", "brain": "notes"},
    "memory_ask": {"query": "x", "brain": "notes"},
    "memory_list_brains": {},
}
OPS = {
    "platform": [Op.SEARCH, Op.CREATE_DOCUMENT, Op.INGEST_FILE, Op.ASK, Op.LIST_BRAINS],
    "daemon": [Op.SEARCH, Op.WRITE_DOCUMENT, Op.INGEST_TEXT, Op.ASK, Op.LIST_BRAINS],
}
# Before a write where nothing is stored by record, the gateway looks; after a lost answer it looks too.
LOOKS = {PLATFORM.routes[op].name for op in (Op.READ_DOCUMENT, Op.STAT_DOCUMENT)}
EVERY_TOOL = pytest.mark.parametrize("tool", TOOLS)
EVERY_DIALECT = pytest.mark.parametrize("dialect", DIALECTS)


def reply(body: bytes, status: str = "200 OK", media_type: str = "application/json", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


NO_DOCUMENT = reply(b'{"status": 404, "code": "not_found", "detail": "not found: it"}', "404 Not Found", PROBLEM)


@dataclass
class Bad:
    """A platform that answers the same to everything but looks for a document."""

    answer: bytes
    looks: bytes = NO_DOCUMENT
    url: str = ""
    requests: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            method, target = head.split(b" ")[:2]
            lines = head.lower().split(b"\r\n")
            length = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")), 0)
            await reader.readexactly(length)
            name = f"{method.decode()} {target.decode().partition('?')[0].replace('/notes', '/{brain}')}"
            self.requests.append(name)
            writer.write(self.looks if name in LOOKS else self.answer)
            await writer.drain()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def gateway_to(url: str, root: Path, **settings: Any) -> AsyncIterator[Client[Any]]:
    (root / "a.md").write_text("# A")
    gateway = Gateway(load(upstream_url=url, data_dir=root / "data", **settings), roots=(root,))
    async with gateway.running(), Client(gateway.server(Memory(gateway.brain))) as client:
        yield client


async def called(bad: Bad, tool: str, dialect: str, root: Path, **arguments: Any) -> CallToolResult:
    server = await asyncio.start_server(bad.serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with gateway_to(url, root, dialect=dialect) as client:
            result: CallToolResult = await client.call_tool(tool, {**TOOLS[tool], **arguments}, raise_on_error=False)
    return result


def says_detail_of_nothing(_request: Request) -> Response:
    return problem(404, "There is nothing of the kind: hunter2")


def says_failure(_request: Request) -> Response:
    return HTMLResponse("<h1>hunter2</h1>", 500)


def route_of(tool: str, dialect: str) -> str:
    spoken: Dialect = DIALECTS[dialect]
    return spoken.routes[OPS[dialect][list(TOOLS).index(tool)]].name


def check_error(result: CallToolResult, *codes: str) -> None:
    text = text_of(result)
    assert result.is_error, text
    assert text.partition(":")[0] in (codes or CATALOGUE), text
    assert CRASHED not in text
    assert SECRET not in text


# How often a tool is sent for each kind of trouble; once if it is not here. For a file that the platform names it is
# asked four times; what is repeated by the client is repeated three times in all until the budget is used up.
MOST: dict[str, dict[str, int]] = {
    "failed": {"memory_ingest_file, platform": 4},
    "answered 500": {"memory_search": 3, "memory_list_brains": 3, "memory_ingest_file, platform": 4},
    "busy": {
        "memory_search": 3,
        "memory_list_brains": 3,
        "memory_remember": 3,
        "memory_ingest_file, platform": 4,
        "memory_ingest_file, daemon": 2,
    },
    "broken": {
        "memory_search": 3,
        "memory_list_brains": 3,
        "memory_remember": 5,
        "memory_ingest_file, platform": 4,
        "memory_ingest_file, daemon": 4,
    },
}


def most_requests(kind: str, tool: str, dialect: str) -> int:
    most = MOST.get(kind, {})
    return most.get(f"{tool}, {dialect}", most.get(tool, 1))


def check_requests(bad: Bad, tool: str, dialect: str, *, most: int = 1) -> None:
    """The route of the tool, and no other: nothing was tried elsewhere."""
    sent = [name for name in bad.requests if name not in LOOKS]
    assert set(sent) == {route_of(tool, dialect)}
    assert len(sent) <= most
    # Once before, once after the first that got no telling answer, and for a while after the second.
    assert len(bad.requests) <= len(sent) + 2 + len(certainty.PAUSES)


def nested(depth: int, opening: bytes = b"[", inner: bytes = b"", closing: bytes = b"]") -> bytes:
    return reply(opening * depth + inner + closing * depth)


NO_JSON: dict[str, bytes] = {
    "html": reply(b"<html>hunter2</html>", media_type="text/html; charset=utf-8"),
    "empty": reply(b""),
    "spaces": reply(b" \n"),
    "text": reply(b"hunter2", media_type="text/plain"),
    "picture": reply(b"\x89PNG\r\n\x1a\n", media_type="image/png"),
    "no-type": b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nhunter2",
    "utf-8": reply(b'{"items": [], "hits": [], "chunks": [], "answer": "\xff\xfe"}'),
    "utf-16": reply(json.dumps({"items": [], "hits": [], "chunks": []}).encode("utf-16")),
    "half": reply(b'{"items": [], "hits": [], "chunks": ['),
    "two": reply(b'{"items": []}{"items": []}'),
    "deep-lists": nested(100_000),
    "deep-objects": nested(100_000, b'{"a":', b"1", b"}"),
    "deeper-than-we-write": reply(
        b'{"hits": [], "items": [], "chunks": [], "answer": "", "x": ' + b"[" * 300 + b"]" * 300 + b"}"
    ),
    "deep-and-cut": nested(600, b'{"a":', b'"\\ud83d"', b"}"),
    "long-number": reply(b'{"items": ' + b"9" * 5000 + b"}"),
    "no-gzip": reply(b'{"items": []}', more="content-encoding: gzip\r\n"),
}
NO_OBJECT: dict[str, bytes] = {
    "list": reply(b'[{"id": "hunter2"}]'),
    "string": reply(b'"hunter2"'),
    "null": reply(b"null"),
    "number": reply(b"7"),
    "true": reply(b"true"),
    "list-of-null": reply(b"[null]"),
}


@EVERY_DIALECT
@EVERY_TOOL
@pytest.mark.parametrize("answer", [*NO_JSON.values(), *NO_OBJECT.values()], ids=[*NO_JSON, *NO_OBJECT])
@pytest.mark.sampled(5)
@pytest.mark.not_quick
async def test_what_is_no_json_object_is_an_error(tool: str, dialect: str, answer: bytes, tmp_path: Path) -> None:
    bad = Bad(answer)
    codes = ("upstream_error", "upstream_unavailable", "outcome_unknown", "stream_truncated")
    check_error(await called(bad, tool, dialect, tmp_path), *codes)
    check_requests(bad, tool, dialect, most=most_requests("failed", tool, dialect))


MISSHAPEN: dict[str, dict[str, Any]] = {
    "nothing": {},
    "other": {"error": SECRET},
    "null": {"hits": None, "items": None, "answer": None},
    "text": {"hits": SECRET, "chunks": SECRET, "items": SECRET, "answer": {}},
    "number": {"hits": 3, "chunks": 3, "items": 3, "answer": 3},
    "object": {"hits": {}, "chunks": {}, "items": {}, "answer": []},
    "nulls": {"hits": [None], "chunks": [None], "items": [None]},
    "texts": {"hits": [SECRET], "chunks": [SECRET], "items": [SECRET]},
    "lists": {"hits": [[]], "chunks": [[]], "items": [[]]},
}


@EVERY_DIALECT
@pytest.mark.parametrize("tool", ["memory_search", "memory_ask", "memory_list_brains"])
@pytest.mark.parametrize("answer", MISSHAPEN.values(), ids=MISSHAPEN)
async def test_an_answer_without_what_was_asked_for_is_an_error(
    tool: str, dialect: str, answer: dict[str, Any], tmp_path: Path
) -> None:
    bad = Bad(reply(json.dumps(answer).encode()))
    result = await called(bad, tool, dialect, tmp_path)
    if answer == MISSHAPEN["null"] and dialect == "daemon" and tool == "memory_list_brains":
        # That is how one make says that there are none.
        assert result.structured_content is not None
        assert result.structured_content["items"] == []
    else:
        check_error(result, "upstream_error")
    check_requests(bad, tool, dialect)


WRONG_INSIDE: dict[str, dict[str, Any]] = {
    "numbers": {"path": 1, "documentId": 2, "document_id": 2, "id": 3, "brainId": 4, "text": 5, "score": "x"},
    "lists": {"path": [], "documentId": [], "document_id": [], "id": [], "brainId": [], "text": [], "score": []},
    "objects": {"path": {}, "documentId": {}, "document_id": {}, "id": {}, "brainId": {}, "text": {}, "score": {}},
}


@EVERY_DIALECT
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("inside", WRONG_INSIDE.values(), ids=WRONG_INSIDE)
async def test_wrong_types_inside_an_answer_crash_nothing(
    tool: str, dialect: str, inside: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is translated must be what it says. The canonical dialect may be passed on, to clients that take it."""
    monkeypatch.setattr(ClientSession, "validate_tool_result", AsyncMock())
    if dialect == "platform":
        # Which brain it is of is looked at first.
        inside = {key: value for key, value in inside.items() if key != "brainId"}
    parts = {"hits": [inside], "chunks": [inside], "items": [inside], "retrieved": [inside], "citations": [inside]}
    bad = Bad(reply(json.dumps({**inside, **parts, "answer": "said"}).encode()))
    result = await called(bad, tool, dialect, tmp_path)
    # A PUT is answered with nothing that is of use, so nothing is read in its answer.
    if result.is_error or (dialect == "daemon" and tool != "memory_remember"):
        check_error(result, "upstream_error")
    check_requests(bad, tool, dialect)


@pytest.mark.parametrize("answer", [{}, {"chunkCount": 3}, {"path": None, "documentId": None}, {"path": ""}])
async def test_a_file_that_a_daemon_does_not_say_it_stored_is_an_error(answer: dict[str, Any], tmp_path: Path) -> None:
    bad = Bad(reply(json.dumps(answer).encode()))
    check_error(await called(bad, "memory_ingest_file", "daemon", tmp_path), "upstream_error")
    check_requests(bad, "memory_ingest_file", "daemon")


EVENT = b'event: retrieve\ndata: {"chunks": ['
STREAMS: dict[str, bytes] = {
    "chunks-text": b'event: retrieve\ndata: {"chunks": "hunter2"}\n\n',
    "chunks-null-inside": b'event: retrieve\ndata: {"chunks": [null]}\n\n',
    "chunks-number": b'event: retrieve\ndata: {"chunks": 3}\n\n',
    "delta-number": b'event: answer_delta\ndata: {"delta": 3, "text": 3}\n\n',
    "delta-object": b'event: answer_delta\ndata: {"delta": {}, "text": {}}\n\n',
    "deep": b"event: answer_delta\ndata: " + b"[" * 100_000 + b"\n\n",
    "deep-and-cut": b"event: citation\ndata: " + b'{"a":' * 600 + b'"\\ud83d"' + b"}" * 600 + b"\n\n",
    "deep-citation": b'event: citation\ndata: {"path": "a", "quote": ' + b"[" * 300 + b"]" * 300 + b"}\n\n",
    "utf-8": b'event: answer_delta\ndata: {"delta": \xff}\n\n',
    "no-object": b"event: citation\ndata: [1]\n\n",
    "cut": b'event: answer_delta\ndata: {"delta": "half", "text": "half"}\n\n',
    "error": b'event: error\ndata: {"message": "hunter2", "code": 3, "retryable": "no"}\n\n',
    "nothing": b"",
}


@EVERY_DIALECT
@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
async def test_a_stream_gone_wrong_is_an_error_in_text_alone(dialect: str, stream: bytes, tmp_path: Path) -> None:
    done = b"" if stream in (STREAMS["cut"], b"") else b'event: done\ndata: {"ok": true}\n\n'
    bad = Bad(reply(stream + done, media_type="text/event-stream"))
    result = await called(bad, "memory_ask", dialect, tmp_path)
    check_error(result, "upstream_error", "stream_truncated")
    assert result.structured_content is None
    check_requests(bad, "memory_ask", dialect)


@EVERY_DIALECT
async def test_null_in_a_stream_is_nothing(dialect: str, tmp_path: Path) -> None:
    stream = b'event: retrieve\ndata: {"chunks": null}\n\nevent: answer_delta\ndata: {"delta": null, "text": null}\n\n'
    done = b'event: answer_delta\ndata: {"delta": "a", "text": "a"}\n\nevent: done\ndata: {"ok": true}\n\n'
    result = await called(Bad(reply(stream + done, media_type="text/event-stream")), "memory_ask", dialect, tmp_path)
    assert result.structured_content == {"answer": "a", "citations": [], "retrieved": []}


def endless(body: bytes) -> bytes:
    return reply(b'{"items": [], "hits": [], "chunks": [], "answer": "' + body + b'"}')


@EVERY_DIALECT
@EVERY_TOOL
async def test_an_answer_past_the_cap_is_not_read_to_its_end(
    tool: str, dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for op in Op:
        monkeypatch.setattr(op, "answer_bytes", 1000)
    monkeypatch.setattr(sse, "WHOLE_BYTES", 1000)
    bad = Bad(endless(b"x" * 2000))
    most = most_requests("failed", tool, dialect)
    check_error(
        result := await called(bad, tool, dialect, tmp_path), "outcome_unknown" if most > 1 else "upstream_error"
    )
    assert most > 1 or "too large" in text_of(result)
    check_requests(bad, tool, dialect, most=most)


@EVERY_DIALECT
async def test_an_event_past_the_cap_is_not_read_to_its_end(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "EVENT_BYTES", 1000)
    bad = Bad(reply(EVENT + b" " * 2000 + b"]}\n\n", media_type="text/event-stream"))
    check_error(result := await called(bad, "memory_ask", dialect, tmp_path), "upstream_error")
    assert "too large" in text_of(result)


WIRE: dict[str, tuple[bytes, str]] = {
    "302": (reply(b"", "302 Found", more="location: http://127.0.0.1:9/hunter2\r\n"), "refused"),
    "307": (reply(b"", "307 Temporary Redirect", more="location: /elsewhere\r\n"), "refused"),
    "308-nowhere": (reply(b"", "308 Permanent Redirect"), "refused"),
    "bad-location": (reply(b"", "301 Moved", more="location: http://[hunter2\r\n"), "broken"),
    "304": (b"HTTP/1.1 304 Not Modified\r\n\r\n", "refused"),
    "huge-headers": (reply(b"{}", more=f"x-much: {'x' * 200_000}\r\n"), "broken"),
    "many-headers": (reply(b"{}", more="x-many: hunter2\r\n" * 20_000), "broken"),
    "truncated": (reply(b'{"items": [], "hits": [], "chunks": []}')[:-9], "broken"),
    "no-http": (b"SSH-2.0-OpenSSH_9.6 hunter2\r\n", "broken"),
    "binary": (bytes(range(256)), "broken"),
    "nothing": (b"", "broken"),
    "bad-chunks": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", "broken"),
    "bad-status": (b"HTTP/1.1 2x0 OK\r\n\r\n{}", "broken"),
    "999": (reply(b'{"detail": "hunter2"}', "999 Odd"), "failed"),
    "500-html": (reply(b"<h1>hunter2</h1>", "500 Oh", "text/html"), "answered 500"),
    "400-html": (reply(b"<h1>hunter2</h1>", "400 Oh", "text/html"), "refused"),
    "400-list": (reply(b'["hunter2"]', "400 Oh", PROBLEM), "refused"),
    "400-odd": (reply(b'{"code": {}, "detail": [3]}', "400 Oh", PROBLEM), "refused"),
    "503-odd": (reply(b'{"code": 3}', "503 Oh", PROBLEM, more="retry-after: \xb2 hunter2\r\n"), "busy"),
    "400-deep": (reply(b"[" * 100_000, "400 Oh", PROBLEM), "refused"),
    "400-deep-and-cut": (reply(b"[" * 600 + b'"\\ud83d"' + b"]" * 600, "400 Oh", PROBLEM), "refused"),
}


@EVERY_DIALECT
@EVERY_TOOL
@pytest.mark.parametrize(("answer", "kind"), WIRE.values(), ids=WIRE)
@pytest.mark.sampled(5)
@pytest.mark.not_quick
async def test_whatever_comes_over_the_wire_is_an_error_in_our_words(
    tool: str, dialect: str, answer: bytes, kind: str, tmp_path: Path
) -> None:
    bad = Bad(answer)
    check_error(await called(bad, tool, dialect, tmp_path))
    check_requests(bad, tool, dialect, most=most_requests(kind, tool, dialect))


LOOKED: dict[str, Callable[[bytes], bytes]] = {
    "500": lambda body: reply(body, "500 Oh", PROBLEM),
    "403": lambda body: reply(body, "403 No", PROBLEM),
    "nothing": lambda _body: b"",
}


@pytest.mark.parametrize("tool", ["memory_remember", "memory_ingest_file"])
@pytest.mark.parametrize("look", LOOKED.values(), ids=LOOKED)
async def test_where_looking_before_a_write_fails_nothing_is_written(
    tool: str, look: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    bad = Bad(reply(b"{}"), looks=look(b'{"detail": "hunter2"}'))
    check_error(await called(bad, tool, "daemon", tmp_path))
    assert set(bad.requests) <= LOOKS


async def test_a_document_that_is_answered_with_no_content_is_there_and_empty(tmp_path: Path) -> None:
    bad = Bad(reply(b"{}"), looks=b"HTTP/1.1 204 No Content\r\n\r\n")
    check_error(await called(bad, "memory_remember", "daemon", tmp_path), "conflict")
    assert set(bad.requests) <= LOOKS


OTHERS: dict[str, dict[str, Any]] = {
    "top": {"brain_id": "theirs", "brainId": "theirs", "hits": [], "chunks": []},
    "hit": {"hits": [{"path": "a", "brain_id": "theirs"}], "chunks": [{"path": "a", "brainId": "theirs"}]},
}


@EVERY_DIALECT
@pytest.mark.parametrize("answer", OTHERS.values(), ids=OTHERS)
async def test_nothing_of_another_brain_passes(dialect: str, answer: dict[str, Any], tmp_path: Path) -> None:
    listed = {"items": [{"id": "notes", "brainId": "notes"}, {"id": "theirs", "brainId": "theirs"}]}
    bad = Bad(reply(json.dumps({**answer, **listed}).encode()))
    check_error(await called(bad, "memory_search", dialect, tmp_path), "upstream_error")
    assert set(bad.requests) <= {route_of("memory_search", dialect), "GET /v1/brains"}


@EVERY_TOOL
@pytest.mark.parametrize("say", [says_home_page, says_detail_of_nothing, says_failure, says_foreign])
@pytest.mark.sampled(3)
async def test_on_a_platform_that_was_found_out_nothing_is_tried_elsewhere(tool: str, say: Say, tmp_path: Path) -> None:
    platform = Wild()
    with listening(platform.app()) as url:
        async with gateway_to(url, tmp_path) as client:
            await client.call_tool("memory_list_brains", raise_on_error=False)
            before = len(platform.requests)
            route = route_of(tool, "platform")
            platform.says[route] = say
            check_error(await client.call_tool(tool, TOOLS[tool], raise_on_error=False))
    # A brain that is not known by this name may be known by another: that is looked up.
    kinds: dict[Say, str] = {says_home_page: "failed", says_failure: "answered 500"}
    most = most_requests(kinds.get(say, "refused"), tool, "platform")
    assert [name for name in platform.requests[before:] if name in {route, *ALL} - LOOKS] == [route] * most
