"""The client of a platform: against respx, and against servers on loopback where what matters is the network."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import respx

from gateway.operations.caller import Call
from gateway.operations.errors import Absent, Doubt, GatewayError, StreamBroken, Unsure
from gateway.operations.table import Op, Upload
from gateway.upstream.credentials import Endpoint
from gateway.upstream.deadlines import Deadlines
from gateway.upstream.detect.verdict import ABSENT_SECONDS
from gateway.upstream.dialects.dialect import Dialect, Route
from gateway.upstream.dialects.platform import PLATFORM
from gateway.upstream.exchange import REFUSAL_BYTES
from gateway.upstream.pipeline import Upstream
from tests.gateway.upstream.platforms import PLATFORM_URL, client_of

WRITES = sorted(op for op in PLATFORM.routes if op.writes)
READING = sorted(op for op in PLATFORM.routes if op.reads)
ARGS: dict[str, Any] = {
    "brain": "b1",
    "session_id": "s1",
    "query": "größe & co",
    "top_k": 3,
    "path": "memory/global/a.md",
    "to": "memory/global/b.md",
    "title": "A",
    "content": "größe",
    "metadata": {},
    "role": "user",
    "name": "Notes",
    "url": "https://a.example/",
    "upload": Upload("a.md", "text/markdown", b"# A"),
    "body": b"gr\xc3\xb6\xc3\x9fe",
    "writes": {"memory/global/a.md": b"# A"},
}
RETRIEVE = b'event: retrieve\ndata: {"type":"retrieve","chunks":[]}\n\n'
DELTA = b'event: answer_delta\ndata: {"type":"answer_delta","delta":"word "}\n\n'
DONE = b'event: done\ndata: {"type":"done"}\n\n'
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def reply(body: bytes, status: str = "200 OK", content_type: str = "application/json", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def says(*parts: bytes) -> Answer:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()

    return answer


async def silence(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Takes the request, and waits until the other side gives up."""
    await reader.read()


@dataclass
class Peer:
    """A server: where it is, the requests it got, and its connections, each closed in the end by someone."""

    url: str = ""
    requests: list[bytes] = field(default_factory=list)
    connections: set[asyncio.Task[None]] = field(default_factory=set)


@asynccontextmanager
async def listening(*answers: Answer, host: str = "127.0.0.1") -> AsyncIterator[Peer]:
    """A server that answers the first request as the first says, and so on; the last says it for all the rest."""
    peer = Peer()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not writer.is_closing():
                peer.requests.append(await read_request(reader))
                await answers[min(len(peer.requests), len(answers)) - 1](reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer.connections.add(asyncio.ensure_future(serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    peer.url = f"http://{host}:{server.sockets[0].getsockname()[1]}"
    try:
        yield peer
    finally:
        server.close()
        for connection in peer.connections:
            connection.cancel()
        await asyncio.gather(*peer.connections, return_exceptions=True)


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    length = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")), 0)
    return head + await reader.readexactly(length)


async def drop(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def reset(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def stop_halfway(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"items"')
    await writer.drain()
    writer.close()


@asynccontextmanager
async def reaching(
    url: str,
    deadlines: Deadlines | None = None,
    *,
    token: str | None = None,
    http: httpx.AsyncClient | None = None,
    dialect: Dialect = PLATFORM,
) -> AsyncIterator[Upstream]:
    async def endpoint() -> Endpoint:
        return Endpoint(url, token)

    upstream = Upstream((dialect,), endpoint, http=http, deadlines=deadlines)
    try:
        yield upstream
    finally:
        await upstream.close()


def answered(platform: respx.MockRouter, **options: Any) -> AbstractAsyncContextManager[Upstream]:
    return reaching(PLATFORM_URL, http=client_of(platform), **options)


async def refusal(sending: Awaitable[object]) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        await sending
    return caught.value


async def asked(upstream: Upstream) -> list[dict[str, Any]]:
    async with await upstream.open(Call(), Op.ASK, ARGS) as coming:
        return [frame async for frames in coming for frame in frames]


SENT = {
    Op.LIST_BRAINS: ("GET", "/v1/brains", None),
    Op.CREATE_BRAIN: ("POST", "/v1/brains", {"name": "Notes"}),
    Op.SEARCH: ("GET", "/v1/brains/b1/search?q=gr%C3%B6%C3%9Fe+%26+co&top_k=3", None),
    Op.SESSION_RECALL: ("POST", "/v1/brains/b1/sessions/s1/recall", {"query": "größe & co", "top_k": 3}),
    Op.CREATE_DOCUMENT: (
        "POST",
        "/v1/brains/b1/documents",
        {"title": "A", "content": "größe", "path": "memory/global/a.md", "metadata": {}},
    ),
    Op.STAT_DOCUMENT: ("GET", "/v1/brains/b1/documents/stat?path=memory%2Fglobal%2Fa.md", None),
    Op.READ_DOCUMENT: ("GET", "/v1/brains/b1/documents/read?path=memory%2Fglobal%2Fa.md", None),
    Op.LIST_DOCUMENTS: ("GET", "/v1/brains/b1/documents?dir=&recursive=true", None),
    Op.BATCH_WRITE: (
        "POST",
        "/v1/brains/b1/documents/batch-ops",
        {"reason": "write", "ops": [{"type": "write", "path": "memory/global/a.md", "content_base64": "IyBB"}]},
    ),
    Op.RECALL: ("POST", "/v1/brains/b1/recall", {"query": "größe & co", "session_id": "s1", "top_k": 3}),
    Op.INGEST_URL: ("POST", "/v1/brains/b1/documents/ingest/url", {"url": "https://a.example/"}),
    Op.APPEND_MESSAGE: (
        "POST",
        "/v1/brains/b1/sessions/s1/messages",
        {"role": "user", "content": "größe", "metadata": {}},
    ),
    Op.CLOSE_SESSION: ("POST", "/v1/brains/b1/sessions/s1/close", {}),
    Op.CONSOLIDATE: ("POST", "/v1/brains/b1/consolidate", {}),
    Op.COMPILE: ("POST", "/v1/brains/b1/compile", {}),
}


@pytest.mark.parametrize("op", SENT)
async def test_every_operation_goes_to_its_route_with_its_arguments(op: Op, platform: respx.MockRouter) -> None:
    platform.route().respond(json={"ok": op})
    call = Call()
    async with answered(platform, token="secret") as upstream:
        found = (await upstream.send(call, op, ARGS)).answer

    (request,) = (sent.request for sent in platform.calls)
    body = json.loads(request.content) if request.content else None
    assert (request.method, request.url.raw_path.decode(), body) == SENT[op]
    assert request.headers["authorization"] == "Bearer secret"
    assert request.headers["x-request-id"] == call.request_id
    assert request.headers.get("content-type") == (None if body is None else "application/json")
    assert call.route == PLATFORM.routes[op].name
    assert found == ({"body": request_body(op)} if op is Op.READ_DOCUMENT else {"ok": op})


def request_body(op: Op) -> bytes:
    return httpx.Response(200, json={"ok": op}).content


async def test_a_file_is_uploaded_as_a_part_named_file(platform: respx.MockRouter) -> None:
    ingest = platform.post("/v1/brains/b1/documents/ingest/file").respond(json={"id": "d"})
    async with answered(platform) as upstream:
        assert (await upstream.send(Call(), Op.INGEST_FILE, ARGS)).answer == {"id": "d"}
    sent = ingest.calls.last.request
    assert sent.headers["content-type"].startswith("multipart/form-data; boundary=")
    assert b'name="file"; filename="a.md"\r\nContent-Type: text/markdown\r\n\r\n# A\r\n' in sent.content


@pytest.mark.parametrize(
    ("op", "aimed_at"),
    [
        (Op.WRITE_DOCUMENT, "PUT /v1/brains/b1/documents?path=memory%2Fglobal%2Fa.md"),
        (Op.APPEND_DOCUMENT, "POST /v1/brains/b1/documents/append?path=memory%2Fglobal%2Fa.md"),
    ],
)
async def test_bytes_are_sent_as_they_are_and_an_empty_answer_is_an_answer(
    op: Op, aimed_at: str, platform: respx.MockRouter
) -> None:
    platform.route().respond(204)
    async with answered(platform) as upstream:
        assert (await upstream.send(Call(), op, ARGS)).answer == {}
    sent = platform.calls.last.request
    assert f"{sent.method} {sent.url.raw_path.decode()}" == aimed_at
    assert (sent.headers["content-type"], sent.content) == ("application/octet-stream", ARGS["body"])


async def test_an_answer_is_decoded_with_what_was_asked(platform: respx.MockRouter) -> None:
    platform.get("/x").respond(json=["a"])
    route = Route("GET", "/x", decode=lambda said, args: {"said": said, "query": args["query"]})
    dialect = Dialect("odd", {Op.SEARCH: route})
    async with answered(platform, dialect=dialect) as upstream:
        assert (await upstream.send(Call(), Op.SEARCH, ARGS)).answer == {"said": ["a"], "query": "größe & co"}


async def test_without_a_token_no_authorization_is_sent(platform: respx.MockRouter) -> None:
    brains = platform.get("/v1/brains").respond(json={"items": []})
    async with answered(platform) as upstream:
        await upstream.send(Call(), Op.LIST_BRAINS, {})
    sent = sorted(brains.calls.last.request.headers)
    assert sent == ["accept", "accept-encoding", "connection", "host", "user-agent", "x-request-id"]


@pytest.mark.parametrize("root", [f"{PLATFORM_URL}/api", f"{PLATFORM_URL}/api/"])
async def test_a_platform_may_live_below_a_path(root: str, platform: respx.MockRouter) -> None:
    platform.get("/api/v1/brains").respond(json={"items": []})
    async with reaching(root, http=client_of(platform)) as upstream:
        assert (await upstream.send(Call(), Op.LIST_BRAINS, {})).answer == {"items": []}
    assert str(platform.calls.last.request.url) == f"{PLATFORM_URL}/api/v1/brains"


async def test_an_operation_the_dialect_does_not_have_is_absent() -> None:
    async def endpoint() -> Endpoint:
        raise AssertionError("nothing was to be sent")

    upstream = Upstream((Dialect("empty", {}),), endpoint)
    with pytest.raises(Absent):
        await upstream.send(Call(), Op.SEARCH, ARGS)
    with pytest.raises(Absent):
        await asked(upstream)
    await upstream.close()


async def test_a_real_answer_is_read_over_one_kept_connection() -> None:
    async with listening(says(reply(b'{"items": []}'))) as peer, reaching(peer.url) as upstream:
        for _ in range(3):
            assert (await upstream.send(Call(), Op.LIST_BRAINS, {})).answer == {"items": []}
        assert (len(peer.requests), len(peer.connections)) == (3, 1)


async def test_no_cookie_is_kept_between_calls() -> None:
    """By the name `localhost`: a jar that keeps cookies keeps those of names, and not those of numbers."""
    sets_cookie = says(reply(b'{"items": []}', more="set-cookie: session=of-somebody; Path=/\r\n"))
    async with listening(sets_cookie, host="localhost") as peer:
        async with reaching(peer.url) as upstream:
            await upstream.send(Call(), Op.LIST_BRAINS, {})
            await upstream.send(Call(), Op.LIST_BRAINS, {})
        async with httpx.AsyncClient() as careless:
            await careless.get(peer.url)
            await careless.get(peer.url)
    assert [b"of-somebody" in request for request in peer.requests] == [False, False, False, True]


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with listening(says(reply(b"{}"))) as peer, reaching(peer.url) as upstream:
        assert (await upstream.send(Call(), Op.LIST_BRAINS, {})).answer == {}


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_a_redirect_is_an_error_and_takes_no_credential_elsewhere(status: str) -> None:
    async with listening(says(reply(b"{}"))) as elsewhere:
        leads_away = says(reply(b"", status, more=f"location: {elsewhere.url}/v1/brains\r\n"))
        async with listening(leads_away) as peer, reaching(peer.url, token="secret") as upstream:
            for op in (Op.LIST_BRAINS, Op.CREATE_DOCUMENT):
                assert (await refusal(upstream.send(Call(), op, ARGS))).code == "upstream_error"
            assert (await refusal(asked(upstream))).code == "upstream_error"
        assert len(peer.requests) == 3
    assert elsewhere.requests == []


@pytest.mark.parametrize("op", [Op.SEARCH, Op.CREATE_DOCUMENT])
async def test_a_refused_connection_means_that_nothing_was_sent(op: Op) -> None:
    async with listening() as gone:
        pass
    async with reaching(gone.url) as upstream:
        error = await refusal(upstream.send(Call(), op, ARGS))
        assert (error.code, error.retryable) == ("upstream_unavailable", True)


async def test_a_refused_connection_is_told_of_a_question_too() -> None:
    async with listening() as gone:
        pass
    async with reaching(gone.url) as upstream:
        error = await refusal(asked(upstream))
        assert (error.code, isinstance(error, StreamBroken)) == ("upstream_unavailable", False)


@pytest.mark.parametrize("fault", [drop, reset, stop_halfway])
async def test_a_read_that_was_dropped_is_asked_again_up_to_three_times(fault: Answer) -> None:
    async with listening(fault) as peer, reaching(peer.url) as upstream:
        error = await refusal(upstream.send(Call(), Op.SEARCH, ARGS))
        assert (error.code, error.retryable, len(peer.requests)) == ("upstream_unavailable", True, 3)


@pytest.mark.parametrize("fault", [drop, reset, stop_halfway])
async def test_a_read_that_was_dropped_once_is_answered_all_the_same(fault: Answer) -> None:
    async with listening(fault, says(reply(b'{"hits": []}'))) as peer, reaching(peer.url) as upstream:
        assert (await upstream.send(Call(), Op.SEARCH, ARGS)).answer == {"hits": []}
        assert len(peer.requests) == 2


# Under a name that is derived from what is written.
SAME = {Op.CREATE_BRAIN, Op.CREATE_DOCUMENT, Op.WRITE_DOCUMENT, Op.BATCH_WRITE}


@pytest.mark.parametrize("op", WRITES)
@pytest.mark.parametrize("fault", [drop, reset, stop_halfway])
async def test_a_write_that_was_dropped_after_it_arrived_is_repeated_if_that_is_the_same_and_not_known(
    fault: Answer, op: Op
) -> None:
    async with listening(fault) as peer, reaching(peer.url) as upstream:
        error = await refusal(upstream.send(Call(), op, ARGS))
        assert isinstance(error, Unsure)
        assert (error.code, error.retryable, error.doubt) == ("outcome_unknown", False, Doubt.LOST)
        assert (error.failure.code, error.failure.retryable) == ("upstream_unavailable", True)
        assert list(map(aim, peer.requests)) == [expected_aim(op)] * (3 if op in SAME else 1)
        assert len({request.partition(b"\r\n\r\n")[2] for request in peer.requests}) == 1, "the very same"


def aim(request: bytes) -> str:
    method, target, _ = request.split(b" ", 2)
    return f"{method.decode()} {target.partition(b'?')[0].decode()}"


def expected_aim(op: Op) -> str:
    return f"{PLATFORM.routes[op].method} {PLATFORM.routes[op].fill(ARGS)}"


async def stall_halfway(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
    await silence(reader, writer)


async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A header that never ends, a byte at a time: no single wait for bytes is ever long."""
    writer.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
    while not writer.is_closing():
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("fault", [silence, stall_halfway, drip])
async def test_a_read_without_an_answer_ends_with_its_deadline(fault: Answer) -> None:
    async with listening(fault) as peer, reaching(peer.url, Deadlines(read=0.3, stage=0.3)) as upstream:
        errors = await asyncio.gather(*(refusal(upstream.send(Call(), op, ARGS)) for op in READING))
        assert [(error.code, error.retryable) for error in errors] == [("timeout", True)] * len(READING)
        assert len(peer.requests) <= len(READING)


@pytest.mark.parametrize("fault", [silence, stall_halfway, drip])
async def test_a_write_without_an_answer_is_not_known(fault: Answer) -> None:
    soon = Deadlines(read=0.3, ingest=0.3, stage=0.3)
    async with listening(fault) as peer, reaching(peer.url, soon) as upstream:
        errors = await asyncio.gather(*(refusal(upstream.send(Call(), op, ARGS)) for op in WRITES))
        assert [(error.code, error.retryable) for error in errors] == [("outcome_unknown", False)] * len(WRITES)
        assert {error.doubt for error in errors if isinstance(error, Unsure)} == {Doubt.LATE}
        assert len(peer.requests) == len(set(map(aim, peer.requests)))


def test_every_kind_of_operation_has_its_own_deadline() -> None:
    deadlines = Deadlines(read=1, ingest=2, stage=3, first_event=4)
    assert {op: deadlines.of(op) for op in set(Op) - {Op.FETCH_PAGE} if deadlines.of(op) != 1} == {
        Op.ASK: 4,
        Op.INGEST_FILE: 2,
        Op.INGEST_TEXT: 2,
        Op.INGEST_URL: 2,
        Op.CLOSE_SESSION: 3,
        Op.EXTRACT: 3,
        Op.REFLECT: 3,
        Op.CONSOLIDATE: 3,
        Op.COMPILE: 3,
        Op.DERIVE: 3,
    }


async def test_leaving_a_read_closes_its_connection_at_once() -> None:
    arrived, closed = asyncio.Event(), asyncio.Event()

    async def wait_for_the_end(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        arrived.set()
        assert await reader.read() == b""
        closed.set()

    async with listening(wait_for_the_end) as peer, reaching(peer.url) as upstream:
        reading = asyncio.ensure_future(upstream.send(Call(), Op.SEARCH, ARGS))
        await arrived.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.wait_for(closed.wait(), 30)


async def test_leaving_a_write_closes_its_connection_too() -> None:
    """Whoever wants it seen through does not leave: that is not decided here."""
    arrived, closed = asyncio.Event(), asyncio.Event()

    async def wait_for_the_end(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        arrived.set()
        assert await reader.read() == b""
        closed.set()

    async with listening(wait_for_the_end) as peer, reaching(peer.url) as upstream:
        writing = asyncio.ensure_future(upstream.send(Call(), Op.CREATE_DOCUMENT, ARGS))
        await arrived.wait()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        await asyncio.wait_for(closed.wait(), 30)


def transport_failures() -> list[type[httpx.TransportError]]:
    found, queue = [], [httpx.TransportError]
    while queue:
        found.append(kind := queue.pop())
        queue += kind.__subclasses__()
    return sorted(found, key=lambda kind: kind.__name__)


NOT_SENT = {"ConnectError", "ConnectTimeout", "PoolTimeout"}


def expected_of_a_read(failure: type[httpx.TransportError]) -> str:
    timed_out = issubclass(failure, httpx.TimeoutException) and failure.__name__ not in NOT_SENT
    return "timeout" if timed_out else "upstream_unavailable"


async def test_every_failure_of_the_transport_becomes_one_of_ours() -> None:
    """All at once, because each waits a moment before it is tried again."""

    async def outcome(failure: type[httpx.TransportError], op: Op) -> tuple[str, str]:
        platform = respx.MockRouter()
        platform.route().mock(side_effect=failure("at http://inside"))
        async with answered(platform) as upstream:
            error = await refusal(asked(upstream) if op is Op.ASK else upstream.send(Call(), op, ARGS))
        assert "inside" not in error.message
        return failure.__name__, error.code

    failures = transport_failures()
    assert len(failures) >= 14
    expected = {failure.__name__: expected_of_a_read(failure) for failure in failures}
    for op in (Op.SEARCH, Op.ASK):
        assert dict(await asyncio.gather(*(outcome(failure, op) for failure in failures))) == expected
    unknown = {name: code if name in NOT_SENT else "outcome_unknown" for name, code in expected.items()}
    assert dict(await asyncio.gather(*(outcome(failure, Op.CLOSE_SESSION) for failure in failures))) == unknown


UNREADABLE = {
    "html": (b"<html><h1>Sign in</h1></html>", "text/html"),
    "html that says it is json": (b"<html>", "application/json"),
    "nothing": (b"", "application/json"),
    "a list": (b"[]", "application/json"),
    "null": (b"null", "application/json"),
    "a word": (b'"ok"', "application/json"),
    "cut off": (b'{"items": [', "application/json"),
    "no UTF-8": (b'{"a": "\xff"}', "application/json"),
    "nested without end": (b'{"a":' * 100_000, "application/json"),
}


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("op", [Op.SEARCH, Op.CREATE_DOCUMENT])
async def test_an_answer_that_is_no_json_object_is_an_error_of_the_platform(
    op: Op, name: str, platform: respx.MockRouter
) -> None:
    body, content_type = UNREADABLE[name]
    platform.route().respond(content=body, content_type=content_type)
    async with answered(platform) as upstream:
        error = await refusal(upstream.send(Call(), op, ARGS))
        if op is Op.CREATE_DOCUMENT:
            # What cannot be read may be the news that it was stored.
            assert isinstance(error, Unsure)
            assert error.doubt is Doubt.ANSWERED
            error = error.failure
        assert (error.code, error.retryable, platform.calls.call_count) == ("upstream_error", False, 1)
        assert error.message in {"The platform's answer is not JSON.", "The platform's answer is not a JSON object."}


async def test_unknown_fields_pass_through_and_half_a_character_does_not(platform: respx.MockRouter) -> None:
    body = b'{"hits": [{"preview": "cut \\ud83d"}], "new": {"field": [1.5, null]}}'
    platform.get("/v1/brains/b1/search").respond(content=body)
    async with answered(platform) as upstream:
        found = (await upstream.send(Call(), Op.SEARCH, ARGS)).answer
        assert found == {"hits": [{"preview": "cut \ufffd"}], "new": {"field": [1.5, None]}}


async def test_a_document_is_read_as_bytes(platform: respx.MockRouter) -> None:
    platform.get("/v1/brains/b1/documents/read").respond(content=b"\xff\x00", content_type="text/markdown")
    async with answered(platform) as upstream:
        assert (await upstream.send(Call(), Op.READ_DOCUMENT, ARGS)).answer == {"body": b"\xff\x00"}


@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_without_end_is_given_up_at_the_cap(status: int, platform: respx.MockRouter) -> None:
    delivered = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal delivered
        while True:
            delivered += 1024 * 1024
            yield b" " * (1024 * 1024)

    platform.route().mock(side_effect=lambda _request: httpx.Response(status, content=endless()))
    async with answered(platform) as upstream:
        error = await refusal(upstream.send(Call(), Op.SEARCH, ARGS))
    assert (error.code, error.message) == ("upstream_error", "The platform's answer is too large.")
    assert delivered == (Op.SEARCH.answer_bytes if status == 200 else REFUSAL_BYTES) + 1024 * 1024


async def test_an_answer_that_comes_squeezed_is_read() -> None:
    body = reply(gzip.compress(b'{"hits": []}'), more="content-encoding: gzip\r\n")
    async with listening(says(body)) as peer, reaching(peer.url) as upstream:
        assert (await upstream.send(Call(), Op.SEARCH, ARGS)).answer == {"hits": []}


PROBLEM = {"content-type": "application/problem+json"}
NO_BRAIN = {"status": 404, "code": "not_found", "detail": "brain not found: b1"}
NO_ROUTE = {"status": 404, "code": "not_found", "detail": "no route for POST /x"}


@pytest.mark.parametrize(
    "absence",
    [
        httpx.Response(404, text="404 page not found"),
        httpx.Response(404, html="<html>404</html>"),
        httpx.Response(404, json=NO_ROUTE, headers=PROBLEM),
        httpx.Response(404, content=b"{broken", headers={"content-type": "application/json"}),
        httpx.Response(405),
        httpx.Response(501, json={}),
    ],
)
async def test_a_route_that_is_not_there_is_absent(absence: httpx.Response, platform: respx.MockRouter) -> None:
    platform.route().mock(return_value=absence)
    async with answered(platform) as upstream:
        for op in (Op.SEARCH, Op.CONSOLIDATE):
            with pytest.raises(Absent):
                await upstream.send(Call(), op, ARGS)
        with pytest.raises(Absent):
            await asked(upstream)
    assert platform.calls.call_count == 3


async def test_a_route_that_was_absent_is_tried_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch, platform: respx.MockRouter
) -> None:
    """A platform may be upgraded under us; until then nobody has to hear again that it lacks something."""
    search = platform.get("/v1/brains/b1/search")
    search.mock(side_effect=[httpx.Response(405), httpx.Response(200, json={"hits": []})])
    async with answered(platform) as upstream:
        verdict = await upstream.verdict(Call())
        now = verdict.clock()
        for seconds in (0, ABSENT_SECONDS - 1):
            monkeypatch.setattr(verdict, "clock", lambda seconds=seconds: now + seconds)
            with pytest.raises(Absent):
                await upstream.send(Call(), Op.SEARCH, ARGS)
        assert search.call_count == 1
        monkeypatch.setattr(verdict, "clock", lambda: now + ABSENT_SECONDS + 1)
        assert (await upstream.send(Call(), Op.SEARCH, ARGS)).answer == {"hits": []}
        assert search.call_count == 2


@pytest.mark.parametrize(
    ("answer", "code", "reads"),
    [
        (httpx.Response(404, json=NO_BRAIN, headers=PROBLEM), "no_brain", 1),
        (httpx.Response(403, html="<html>hunter2</html>"), "forbidden", 1),
        (httpx.Response(401, json={"code": "hunter2"}), "unauthorized", 1),
        (httpx.Response(502, html="<html>Bad Gateway hunter2</html>"), "upstream_unavailable", 3),
        (httpx.Response(500, json=[1]), "upstream_error", 3),
    ],
)
async def test_a_refusal_is_told_in_our_words_and_only_a_failure_is_asked_again(
    answer: httpx.Response, code: str, reads: int, platform: respx.MockRouter
) -> None:
    platform.route().mock(return_value=answer)
    async with answered(platform) as upstream:
        for sending in (upstream.send(Call(), Op.SEARCH, ARGS), asked(upstream)):
            error = await refusal(sending)
            assert error.code == code
            assert "hunter2" not in str(error)
    assert [sent.request.method for sent in platform.calls] == ["GET"] * reads + ["POST"]


async def test_how_long_to_wait_is_told_where_nobody_waits_that_long(platform: respx.MockRouter) -> None:
    search = platform.get("/v1/brains/b1/search").respond(429, json={}, headers={"retry-after": "31"})
    async with answered(platform) as upstream:
        error = await refusal(upstream.send(Call(), Op.SEARCH, ARGS))
    assert (error.code, error.retry_after_seconds, search.call_count) == ("rate_limited", 31, 1)


async def test_an_endpoint_that_cannot_be_had_is_told_as_it_is() -> None:
    async def endpoint() -> Endpoint:
        raise GatewayError("upstream_unavailable", "The embedded brain cannot start; the log says why.")

    upstream = Upstream((PLATFORM,), endpoint)
    for sending in (
        upstream.send(Call(), Op.SEARCH, ARGS),
        upstream.send(Call(), Op.CREATE_BRAIN, ARGS),
        asked(upstream),
    ):
        assert (await refusal(sending)).message == "The embedded brain cannot start; the log says why."
    await upstream.close()


async def test_an_answer_comes_in_frames() -> None:
    async with listening(says(STREAM_HEAD, RETRIEVE, DELTA[:10], DELTA[10:] + DONE)) as peer:
        async with reaching(peer.url, token="secret") as upstream:
            call = Call()
            async with await upstream.open(call, Op.ASK, ARGS) as coming:
                kinds = [frame["type"] async for frames in coming for frame in frames]
        assert kinds == ["retrieve", "answer_delta", "done"]
    (request,) = peer.requests
    assert request.startswith(b"POST /v1/brains/b1/ask HTTP/1.1\r\n")
    assert b"accept: text/event-stream\r\n" in request.lower()
    assert b"authorization: bearer secret\r\n" in request.lower()
    assert json.loads(request.partition(b"\r\n\r\n")[2]) == {"query": "größe & co", "top_k": 3}
    assert call.route == "POST /v1/brains/{brain}/ask"


def cut_after(*parts: bytes) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await says(*parts)(reader, writer)
        writer.close()

    return answer


@pytest.mark.parametrize("parts", [(STREAM_HEAD,), (STREAM_HEAD, RETRIEVE), (STREAM_HEAD, RETRIEVE, DELTA, DONE[:-1])])
async def test_an_answer_that_is_cut_off_is_truncated_and_not_asked_again(parts: tuple[bytes, ...]) -> None:
    async with listening(cut_after(*parts)) as peer, reaching(peer.url) as upstream:
        error = await refusal(asked(upstream))
        assert (error.code, isinstance(error, StreamBroken)) == ("stream_truncated", True)
        assert len(peer.requests) == 1


async def test_a_page_instead_of_an_answer_is_an_error_of_the_platform(platform: respx.MockRouter) -> None:
    platform.post("/v1/brains/b1/ask").respond(html="<html>Sign in</html>")
    async with answered(platform) as upstream:
        assert (await refusal(asked(upstream))).code == "upstream_error"


@pytest.mark.parametrize("fault", [drop, reset, cut_after(b"HTTP/1.1 503 Busy\r\ncontent-length: 9\r\n\r\n{")])
async def test_a_question_that_is_dropped_or_refused_halfway_is_told_like_any_failure(fault: Answer) -> None:
    async with listening(fault) as peer, reaching(peer.url) as upstream:
        error = await refusal(asked(upstream))
        assert (error.code, isinstance(error, StreamBroken)) == ("upstream_unavailable", False)
        assert len(peer.requests) == 1


async def say_and_wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await says(STREAM_HEAD, RETRIEVE)(reader, writer)
    await silence(reader, writer)


async def only_comments(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(STREAM_HEAD)
    while not writer.is_closing():
        writer.write(b": ping\n\n")
        await writer.drain()
        await asyncio.sleep(0.01)


async def words_without_end(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(STREAM_HEAD)
    while not writer.is_closing():
        writer.write(DELTA)
        await writer.drain()
        await asyncio.sleep(0.01)


async def refuse_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 9\r\n\r\n{")
    await silence(reader, writer)


@pytest.mark.parametrize(
    ("behaviour", "deadlines"),
    [
        (silence, Deadlines(first_event=0.3)),
        (drip, Deadlines(first_event=0.3)),
        (refuse_slowly, Deadlines(first_event=0.3)),
        (only_comments, Deadlines(first_event=0.3)),
        (say_and_wait, Deadlines(idle=0.3)),
        (words_without_end, Deadlines(ask=0.3)),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_an_answer_has_a_clock_for_its_first_word_for_each_pause_and_for_all(
    behaviour: Answer, deadlines: Deadlines
) -> None:
    async with listening(behaviour) as peer, reaching(peer.url, deadlines) as upstream:
        error = await refusal(asked(upstream))
        assert (error.code, error.retryable) == ("timeout", True)
        assert len(peer.requests) <= 1


@pytest.mark.not_quick
async def test_a_pause_may_be_longer_than_the_wait_for_the_first_word() -> None:
    async def pause(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await says(STREAM_HEAD, RETRIEVE)(reader, writer)
        await asyncio.sleep(1.7)
        await says(DONE)(reader, writer)

    async with listening(pause) as peer, reaching(peer.url, Deadlines(first_event=1.5, idle=30)) as upstream:
        assert [frame["type"] for frame in await asked(upstream)] == ["retrieve", "done"]


@pytest.mark.parametrize("leave", ["unread", "early", "cancelled", "failed"])
async def test_however_a_caller_leaves_an_answer_its_connection_is_closed(leave: str) -> None:
    closed, begun = asyncio.Event(), asyncio.Event()

    async def wait_for_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await says(STREAM_HEAD, RETRIEVE)(reader, writer)
        assert await reader.read() == b""
        closed.set()

    async with listening(wait_for_the_end) as peer, reaching(peer.url) as upstream:

        async def ask() -> None:
            async with await upstream.open(Call(), Op.ASK, ARGS) as coming:
                if leave == "unread":
                    return
                async for (frame,) in coming:
                    assert frame["type"] == "retrieve"
                    begun.set()
                    if leave == "early":
                        return
                    if leave == "failed":
                        raise LookupError

        asking = asyncio.ensure_future(ask())
        if leave == "cancelled":
            await begun.wait()
            asking.cancel()
        (ended,) = await asyncio.gather(asking, return_exceptions=True)
        expected = {
            "unread": type(None),
            "early": type(None),
            "cancelled": asyncio.CancelledError,
            "failed": LookupError,
        }
        assert type(ended) is expected[leave]
        await asyncio.wait_for(closed.wait(), 30)
