"""What leaves for the client when pieces of an answer come: which writes, and with what in each."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from starlette.types import Message

from gateway.brain.brain import Brain
from gateway.surfaces.memory.surface import Memory
from tests.gateway.http.test_direct import MODERN, request, started
from tests.gateway.upstream.test_pipeline import DELTA, DONE, RETRIEVE, reaching

ERROR = b'event: error\ndata: {"code":"llm_failed","message":"It fell over."}\n\n'
REVISIONS = (MODERN, "2025-11-25")


@dataclass
class Platform(httpx.AsyncBaseTransport):
    """Answers every request with these parts, each of which is one read."""

    parts: tuple[bytes, ...]
    taken: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    thinks: asyncio.Event | None = None
    """What it waits for between two parts."""

    async def handle_async_request(self, _request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Stream(self))


class _Stream(httpx.AsyncByteStream):
    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._platform.parts:
            self._platform.taken += 1
            yield part
            del part
            await (self._platform.thinks.wait() if self._platform.thinks else asyncio.sleep(0))

    async def aclose(self) -> None:
        self._platform.closed.set()


class Client:
    """Asks once, and keeps what is written for it. It takes a write only while it has room."""

    def __init__(self, revision: str) -> None:
        self._revision = revision
        self.writes: list[bytes] = []
        self.room, self.left = asyncio.Event(), asyncio.Event()
        self.room.set()

    async def ask(self, platform: Platform) -> None:
        async with reaching("http://platform.example", http=httpx.AsyncClient(transport=platform)) as upstream:
            body, headers = request(self._revision, "memory_ask", arguments={"query": "x", "brain": "main"})
            body["params"]["_meta"]["progressToken"] = "token"
            said: list[Message] = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

            async def receive() -> Message:
                if said:
                    return said.pop()
                await self.left.wait()
                return {"type": "http.disconnect"}

            raw = [(name.encode(), value.encode()) for name, value in headers.items()]
            scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "headers": raw}
            async with started(is_direct=True, surface=Memory(Brain(upstream))) as app:
                await app({**scope, "server": ("127.0.0.1", 8000)}, receive, self._take)

    async def _take(self, message: Message) -> None:
        if body := message.get("body"):
            self.writes.append(body)
        await self.room.wait()

    def messages(self) -> list[list[Any]]:
        """What each write holds: the messages of its events."""
        return [
            [json.loads(event.partition(b"data: ")[2]) for event in write.split(b"\r\n\r\n")[:-1]]
            for write in self.writes
        ]


async def asked(revision: str, *parts: bytes) -> Client:
    client = Client(revision)
    await asyncio.wait_for(client.ask(Platform(parts)), 10)
    return client


async def turns(until: Callable[[], bool], most: int = 1000) -> None:
    """Let everybody go on until it is so."""
    for _ in range(most):
        if until():
            return
        await asyncio.sleep(0)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_pieces_that_come_in_one_read_leave_in_one_write_each_as_an_event(revision: str) -> None:
    client = await asked(revision, RETRIEVE + DELTA * 3, DELTA, DELTA[:20], DELTA[20:] + DELTA * 2, DONE)
    *pieces, (last,) = client.messages()
    assert [len(write) for write in pieces] == [3, 1, 3]
    params = [message["params"] for write in pieces for message in write]
    expected = [{"progressToken": "token", "progress": place, "message": "word "} for place in range(7)]
    assert params == expected
    assert last["result"]["structuredContent"]["answer"] == "word " * 7


async def test_no_write_has_more_pieces_than_a_slow_client_can_take_in_time() -> None:
    client = await asked(MODERN, DELTA * 100, DONE)
    assert [len(write) for write in client.messages()] == [64, 36, 1]


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    "failure", [ERROR, b"event: done\ndata: no JSON\n\n", b'event: citation\ndata: {"quote":[]}\n\n']
)
async def test_pieces_that_come_together_with_a_failure_leave_before_it(revision: str, failure: bytes) -> None:
    client = await asked(revision, RETRIEVE, DELTA * 3 + failure + DELTA)
    pieces, (last,) = client.messages()
    assert [message["params"]["progress"] for message in pieces] == [0, 1, 2]
    assert last["result"]["isError"]
    assert "word word word " in json.dumps(last)


async def test_pieces_before_a_cut_are_not_lost() -> None:
    client = await asked(MODERN, RETRIEVE + DELTA * 2, DELTA[:20])
    pieces, (last,) = client.messages()
    assert len(pieces) == 2
    assert last["result"]["isError"]


async def test_nothing_more_is_read_while_the_client_has_no_room() -> None:
    platform, client = Platform((DELTA * 2, DELTA, DELTA, DONE)), Client(MODERN)
    client.room.clear()
    asking = asyncio.ensure_future(client.ask(platform))
    await turns(lambda: platform.taken > 1)
    assert platform.taken == 1
    client.room.set()
    await asyncio.wait_for(asking, 10)
    assert [len(write) for write in client.messages()] == [2, 1, 1, 1]


async def test_a_client_that_takes_nothing_for_too_long_gets_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.surfaces.memory.answer.TAKEN_SECONDS", 0.01)
    platform, client = Platform((DELTA * 2, DELTA, DONE)), Client(MODERN)
    client.room.clear()
    asking = asyncio.ensure_future(client.ask(platform))
    await asyncio.wait_for(platform.closed.wait(), 10)
    assert platform.taken == 1
    client.room.set()
    await asyncio.wait_for(asking, 10)


async def test_a_client_that_leaves_while_it_has_no_room_ends_the_answer() -> None:
    platform, client = Platform((DELTA * 2, DELTA, DONE)), Client(MODERN)
    client.room.clear()
    asking = asyncio.ensure_future(client.ask(platform))
    await turns(lambda: platform.taken == 1)
    client.left.set()
    await asyncio.wait_for(asking, 10)
    assert platform.closed.is_set()
    assert platform.taken == 1


async def test_nothing_of_what_was_passed_on_is_held_while_the_platform_thinks() -> None:
    # With a list in it, or the collector does not know of it.
    chunk = {"chunk_id": "c", "document_id": "d", "not passed on": ["x"]}
    retrieve = b"event: retrieve\ndata: " + json.dumps({"chunks": [chunk]}).encode() + b"\n\n"
    platform, client = Platform((retrieve + DELTA, DONE), thinks=asyncio.Event()), Client(MODERN)
    assert platform.thinks is not None
    asking = asyncio.ensure_future(client.ask(platform))
    await turns(lambda: bool(client.writes))
    await turns(lambda: False, most=10)
    held = [one for one in gc.get_objects() if isinstance(one, dict) and "not passed on" in one and one is not chunk]
    assert (len(client.writes), held) == (1, [])
    platform.thinks.set()
    await asyncio.wait_for(asking, 10)
