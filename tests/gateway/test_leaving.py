"""A caller who leaves: reads and answers end with them, what was begun in writing is seen through to its last request.

By both ways of leaving, on both protocol eras: over HTTP the connection is closed, over stdio the call is cancelled.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contract.platform.app import create_app
from contract.platform.store import Store
from tests.daemons.fake import FakeDaemon
from tests.gateway.conftest import eventually, structured
from tests.served import Era, listening, messages_of, raw_call, serving, stdio_client
from tests.upstreams import Scripted, SlowStream, SlowWrite

ERAS: tuple[Era, ...] = ("modern", "legacy")
WAYS_OUT = [
    ("http", "modern"),
    ("http", "legacy"),
    pytest.param("stdio", "modern", marks=pytest.mark.slow),
    pytest.param("stdio", "legacy", marks=pytest.mark.slow),
]
by_every_way_out = pytest.mark.parametrize(("transport", "era"), WAYS_OUT)
SAID = [{"role": "user", "content": f"message {n}"} for n in range(3)]

Begin = Callable[..., "asyncio.Future[dict[str, Any]]"]


async def until(event: Callable[[float], bool], seconds: float = 10) -> bool:
    return await asyncio.to_thread(event, seconds)


@pytest.mark.parametrize("era", ERAS)
async def test_a_disconnect_closes_the_answer_stream(tmp_path: Path, era: Era) -> None:
    stream = SlowStream()
    platform = Scripted({"POST /v1/brains/main/ask": stream})
    with (
        listening(platform.app()) as upstream,
        serving(tmp_path, None, upstream_url=upstream, dialect="platform") as served,
    ):
        async with httpx.AsyncClient() as http:
            call = raw_call(era, "memory_ask", {"query": "x", "brain": "main"}, "token")
            async with http.stream("POST", served.url + "/mcp", **call) as response:
                assert response.status_code == 200
                assert await until(stream.started.wait)
        assert await until(stream.closed.wait), "the platform's stream was still open"


@pytest.mark.parametrize("era", ERAS)
async def test_a_disconnect_does_not_cut_a_write_short(tmp_path: Path, era: Era) -> None:
    write = SlowWrite()
    platform = Scripted({"POST /v1/brains/main/documents": write})
    with (
        listening(platform.app()) as upstream,
        serving(tmp_path, None, upstream_url=upstream, dialect="platform") as served,
    ):
        async with httpx.AsyncClient() as http:
            call = raw_call(era, "memory_remember", {"content": "x", "brain": "main"})
            sending = asyncio.ensure_future(http.post(served.url + "/mcp", **call))
            assert await until(write.arrived.wait)
            sending.cancel()
        assert await until(write.committed.wait)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.slow
async def test_a_cancel_over_stdio_closes_the_answer_stream(tmp_path: Path, era: Era) -> None:
    stream = SlowStream()
    platform = Scripted({"POST /v1/brains/main/ask": stream})
    with listening(platform.app()) as upstream:
        async with stdio_client(era, tmp_path, BRAINS_UPSTREAM_URL=upstream, BRAINS_DIALECT="platform") as client:
            asking = asyncio.ensure_future(client.call_tool("memory_ask", {"query": "x", "brain": "main"}))
            assert await until(stream.started.wait)
            asking.cancel()
            assert await until(stream.closed.wait), "the platform's stream was still open"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.slow
async def test_the_end_of_stdin_ends_the_process_and_sees_a_write_through(tmp_path: Path, era: Era) -> None:
    write = SlowWrite()
    platform = Scripted({"POST /v1/brains/main/documents": write})
    with listening(platform.app()) as upstream:
        async with stdio_client(era, tmp_path, BRAINS_UPSTREAM_URL=upstream, BRAINS_DIALECT="platform") as client:
            sending = asyncio.ensure_future(client.call_tool("memory_remember", {"content": "x", "brain": "main"}))
            assert await until(write.arrived.wait)
            sending.cancel()
        assert await until(write.committed.wait)


@dataclass
class Held:
    """A platform that takes its time over one kind of request, and tells whether its caller waited that long.

    A request that was given up while it was held leaves no trace, as on a platform that had not begun on it.
    """

    app: ASGIApp
    name: str
    """Method and path of what is held."""
    seconds: float
    armed: bool = False
    arrived: threading.Event = field(default_factory=threading.Event)
    given_up: threading.Event = field(default_factory=threading.Event)
    requests: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            name = f"{scope['method']} {scope['path']}"
            self.requests.append(name)
            if self.armed and name == self.name:
                body = await _whole(receive)
                self.arrived.set()
                if await _has_left(receive, self.seconds):
                    self.given_up.set()
                    return
                receive = _again(body)
        await self.app(scope, receive, send)


async def _whole(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), bool(message.get("more_body"))
    return body


async def _has_left(receive: Receive, seconds: float) -> bool:
    """Whether the caller closes the connection within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            return bool((await receive())["type"] == "http.disconnect")
    except TimeoutError:
        return False


def _again(body: bytes) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


@asynccontextmanager
async def caller(transport: str, era: Era, folder: Path, upstream: str, dialect: str) -> AsyncIterator[Begin]:
    """What begins a call by one way in; cancelling the future is leaving by that way."""
    if transport == "stdio":
        settings = {"BRAINS_UPSTREAM_URL": upstream, "BRAINS_DIALECT": dialect}
        async with stdio_client(era, folder, **settings) as client:

            async def called(tool: str, arguments: Any) -> dict[str, Any]:
                return structured(await client.call_tool(tool, arguments, raise_on_error=False))

            yield lambda tool, **arguments: asyncio.ensure_future(called(tool, arguments))
        return
    with serving(folder, None, upstream_url=upstream, dialect=dialect) as served:
        async with httpx.AsyncClient(timeout=30) as http:

            async def posted(tool: str, arguments: Any) -> dict[str, Any]:
                response = await http.post(served.url + "/mcp", **raw_call(era, tool, arguments))
                return dict(messages_of(response)[-1]["result"]["structuredContent"])

            yield lambda tool, **arguments: asyncio.ensure_future(posted(tool, arguments))


async def leave_during(held: Held, begin: Begin, tool: str, **arguments: Any) -> None:
    """Call, and be gone while the platform holds the request."""
    await begin("memory_list_brains")  # the gateway knows the platform from here on
    held.armed = True
    call = begin(tool, **arguments)
    assert await until(held.arrived.wait)
    call.cancel()
    await asyncio.wait([call])


@pytest.fixture
def daemon() -> FakeDaemon:
    made = FakeDaemon()
    made.brains["main"] = {}
    return made


@by_every_way_out
async def test_who_leaves_before_the_first_write_was_sent_leaves_nothing_behind(
    tmp_path: Path, daemon: FakeDaemon, transport: str, era: Era
) -> None:
    held = Held(daemon.app(), "GET /v1/brains/main/documents/read", 60)
    with listening(held) as upstream:
        async with caller(transport, era, tmp_path, upstream, "daemon") as begin:
            await leave_during(held, begin, "memory_remember", content="x", brain="main")
            assert await until(held.given_up.wait), "the platform's read was still open"
            # Whatever the gateway was still about to do comes before the answer to another call.
            await begin("memory_search", query="x", brain="main")
    assert [name for name in held.requests if name.startswith("PUT")] == []
    assert daemon.brains["main"] == {}


@by_every_way_out
async def test_a_read_is_closed_when_its_caller_leaves(
    tmp_path: Path, daemon: FakeDaemon, transport: str, era: Era
) -> None:
    held = Held(daemon.app(), "POST /v1/brains/main/search", 60)
    with listening(held) as upstream:
        async with caller(transport, era, tmp_path, upstream, "daemon") as begin:
            await leave_during(held, begin, "memory_search", query="x", brain="main")
            assert await until(held.given_up.wait), "the platform's search was still open"


@by_every_way_out
async def test_a_note_that_was_sent_is_stored_after_its_caller_left(
    tmp_path: Path, daemon: FakeDaemon, transport: str, era: Era
) -> None:
    held = Held(daemon.app(), "PUT /v1/brains/main/documents", 0.6)
    with listening(held) as upstream:
        async with caller(transport, era, tmp_path, upstream, "daemon") as begin:
            await leave_during(held, begin, "memory_remember", content="x", brain="main")
            await eventually(_async(lambda: len(daemon.brains["main"]) == 1))
    assert not held.given_up.is_set()


@by_every_way_out
async def test_a_brain_whose_creation_was_sent_also_gets_its_name(
    tmp_path: Path, daemon: FakeDaemon, transport: str, era: Era
) -> None:
    held = Held(daemon.app(), "POST /v1/brains", 0.6)
    with listening(held) as upstream:
        async with caller(transport, era, tmp_path, upstream, "daemon") as begin:
            await leave_during(held, begin, "memory_create_brain", name="River Otters")

            async def is_named() -> bool:
                return "River Otters" in {brain["name"] for brain in (await begin("memory_list_brains"))["items"]}

            await eventually(is_named)


@by_every_way_out
async def test_a_session_is_appended_to_the_end_after_its_caller_left(tmp_path: Path, transport: str, era: Era) -> None:
    store = Store.open(tmp_path / "store")
    path = "/v1/brains/main/sessions/s/messages"
    held = Held(create_app(store, token=None), f"POST {path}", 0.4)
    try:
        with listening(held) as upstream:
            async with caller(transport, era, tmp_path, upstream, "platform") as begin, httpx.AsyncClient() as http:
                await leave_during(held, begin, "memory_extract", messages=SAID, session_id="s", brain="main")

                async def is_whole() -> bool:
                    answer = await http.get(upstream + path)
                    return [m["content"] for m in answer.json().get("items", [])] == [m["content"] for m in SAID]

                await eventually(is_whole)
    finally:
        store.close()
    assert held.requests.count(f"POST {path}") == len(SAID)


@pytest.mark.slow
async def test_a_write_nobody_waits_for_is_given_so_long_and_no_longer(tmp_path: Path, daemon: FakeDaemon) -> None:
    held = Held(daemon.app(), "PUT /v1/brains/main/documents", 60)
    with listening(held) as upstream:
        async with caller("http", "modern", tmp_path, upstream, "daemon") as begin:
            await leave_during(held, begin, "memory_remember", content="x", brain="main")
            assert not await until(held.given_up.wait, 2), "the write was not given its ten seconds"
            assert await until(held.given_up.wait, 40), "a write that nobody waits for goes on"


def _async(check: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def checked() -> bool:
        return check()

    return checked
