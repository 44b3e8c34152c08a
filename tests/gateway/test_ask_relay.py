"""The relay of an answer from both ends: what a slow client does to it, and what flows while a platform thinks."""

import asyncio
import json
import re
import socket
import threading
import urllib.parse
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.server import _streamable_http_modern as modern
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from gateway.http import direct
from tests.gateway.test_processes import process
from tests.served import Era, listening, messages_of, raw_call, serving
from tests.upstreams import Scripted

ERAS: tuple[Era, ...] = ("modern", "legacy")
ASK = {"query": "x", "brain": "main"}
DONE = b'event: done\ndata: {"type":"done"}\n\n'
# Just below what one answer may hold: many small pieces, with fields that the gateway does not pass on.
PIECE = json.dumps({"type": "answer_delta", "delta": "twenty letters here ", "more": "x" * 400}).encode()
DELTA = b"event: answer_delta\ndata: " + PIECE + b"\n\n"
DELTAS = 90_000
# Measured: 5 to 9 MB when the platform stops, a third of it the pieces of the answer. Whole it is 45 MB on its way in.
GROWTH_BYTES = 16_000_000


@dataclass
class Firehose:
    """Sends an answer as fast as it is taken, and counts what was."""

    deltas: int = DELTAS
    taken: int = 0
    closed: threading.Event = field(default_factory=threading.Event)

    def __call__(self, _request: Request) -> Response:
        return StreamingResponse(self._frames(), media_type="text/event-stream")

    async def _frames(self) -> AsyncIterator[bytes]:
        try:
            for _ in range(self.deltas // 10):
                yield DELTA * 10
                self.taken += 10
                # To a client that has gone everything can be sent at once: let that be noticed.
                await asyncio.sleep(0)
            yield DONE
        finally:
            self.closed.set()

    async def blocked(self) -> bool:
        """Whether nothing was taken for a second; False at the end of the answer."""
        unchanged, before = 0, -1
        for _ in range(300):
            if self.closed.is_set():
                return False
            unchanged, before = (unchanged + 1 if self.taken == before else 0), self.taken
            if unchanged == 20:
                return True
            await asyncio.sleep(0.05)
        raise AssertionError("neither blocked nor done")


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found
    return int(found.group(1)) * 1024


def asking(url: str, era: Era) -> socket.socket:
    """A connection of a client that asked with a progress token, and has not read a byte."""
    call = raw_call(era, "memory_ask", ASK, "token")
    target = urllib.parse.urlsplit(url)
    body = json.dumps(call["json"]).encode()
    headers = {**call["headers"], "host": target.netloc, "content-type": "application/json"}
    lines = [f"{name}: {value}" for name, value in {**headers, "content-length": str(len(body))}.items()]
    asked = socket.socket()
    # Before it connects, or the system has promised more already.
    asked.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    asked.settimeout(10)
    asked.connect((str(target.hostname), int(target.port or 80)))
    asked.sendall("\r\n".join([f"POST {target.path} HTTP/1.1", *lines, "", ""]).encode() + body)
    return asked


def read_until(asked: socket.socket, condition: Callable[[], bool]) -> bool:
    """Read, up to so much that nothing between the two ends can hold it."""
    for _ in range(20_000):
        if condition():
            return True
        asked.recv(16_384)
    return False


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.slow
async def test_a_client_that_does_not_read_stops_the_platform_and_costs_no_memory(tmp_path: Path, era: Era) -> None:
    first, hose = Firehose(deltas=2000), Firehose()
    platform = Scripted({"POST /v1/brains/main/ask": first})
    with (
        listening(platform.app()) as upstream,
        process(tmp_path, BRAINS_UPSTREAM_URL=upstream, BRAINS_DIALECT="platform") as gateway,
    ):
        async with httpx.AsyncClient(timeout=30) as http:
            whole = messages_of(await http.post(gateway.url, **raw_call(era, "memory_ask", ASK, "token")))
        assert [m["params"]["progress"] for m in whole[:-1]] == list(range(2000))
        platform.answers["POST /v1/brains/main/ask"] = hose
        before = resident_bytes(gateway.process.pid)
        with asking(gateway.url, era) as asked:
            assert await hose.blocked(), "the whole answer was taken off the platform"
            assert 0 < hose.taken < DELTAS * 0.75
            assert resident_bytes(gateway.process.pid) - before < GROWTH_BYTES
            # Once the client reads, the platform is read again.
            stopped = hose.taken
            assert await asyncio.to_thread(read_until, asked, lambda: hose.taken > stopped)
        assert await asyncio.to_thread(hose.closed.wait, 60), "the client left, and the platform still sends"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.slow
async def test_a_client_that_never_reads_does_not_hold_the_platform_for_ever(
    tmp_path: Path, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.surfaces.memory.answer.TAKEN_SECONDS", 0.5)
    hose = Firehose()
    with (
        listening(Scripted({"POST /v1/brains/main/ask": hose}).app()) as upstream,
        serving(tmp_path, None, upstream_url=upstream, dialect="platform") as served,
        asking(served.url + "/mcp", era),
    ):
        assert await asyncio.to_thread(hose.closed.wait, 60), "the platform still waits for a client that takes nothing"
        assert hose.taken < DELTAS


@dataclass
class Thoughtful:
    """Says nothing until it is told to go on: before its first frame, and before its last."""

    go_on: list[threading.Event] = field(default_factory=lambda: [threading.Event(), threading.Event()])

    def __call__(self, _request: Request) -> Response:
        return StreamingResponse(self._frames(), media_type="text/event-stream")

    async def _frames(self) -> AsyncIterator[bytes]:
        await asyncio.to_thread(self.go_on[0].wait, 20)
        yield DELTA
        await asyncio.to_thread(self.go_on[1].wait, 20)
        yield DONE


@asynccontextmanager
async def streamed(
    tmp_path: Path, era: Era, platform: Thoughtful, token: str | None, path: str
) -> AsyncIterator[httpx.Response]:
    scripted = Scripted({"POST /v1/brains/main/ask": platform})
    with (
        listening(scripted.app()) as upstream,
        serving(tmp_path, None, upstream_url=upstream, dialect="platform", direct=path) as served,
    ):
        async with httpx.AsyncClient(timeout=30) as http:
            call = raw_call(era, "memory_ask", ASK, token)
            async with http.stream("POST", served.url + "/mcp", **call) as response:
                yield response


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("token", ["token", None])
@pytest.mark.parametrize("direct_path", ["on", "off"])
async def test_comments_flow_while_the_platform_thinks(
    tmp_path: Path, era: Era, token: str | None, direct_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that no proxy takes the silence for an end. In use they come every 15 seconds."""
    monkeypatch.setattr(modern, "_SSE_PING_INTERVAL", 0.2)
    monkeypatch.setattr(EventSourceResponse, "DEFAULT_PING_INTERVAL", 0.2)
    monkeypatch.setattr(direct, "KEEP_ALIVE_SECONDS", 0.2)
    platform = Thoughtful()
    async with streamed(tmp_path, era, platform, token, direct_path) as response:
        lines = response.aiter_lines()
        assert "no-transform" in response.headers["cache-control"]
        assert response.headers["x-accel-buffering"] == "no", "or nginx would gather the answer before it passes it on"
        await pinged(lines, times=2)
        platform.go_on[0].set()
        if token is not None:
            assert (await message(lines))["method"] == "notifications/progress"
        await pinged(lines, times=2)
        platform.go_on[1].set()
        answer = (await message(lines))["result"]
    assert answer["structuredContent"]["answer"] == "twenty letters here "


async def pinged(lines: AsyncIterator[str], times: int) -> None:
    async for line in lines:
        if line:
            assert line.startswith(": ping"), f"not a comment: {line}"
            times -= 1
        if times == 0:
            return
    raise AssertionError("the stream ended")


async def message(lines: AsyncIterator[str]) -> dict[str, Any]:
    async for line in lines:
        if line.startswith("data: {"):
            return dict(json.loads(line.removeprefix("data: ")))
    raise AssertionError("the stream ended")


def test_comments_come_often_enough_for_the_proxies_there_are() -> None:
    """The shortest idle time in common use is 60 seconds. Nobody but the libraries says how often."""
    assert 0 < modern._SSE_PING_INTERVAL <= 15
    assert 0 < EventSourceResponse.DEFAULT_PING_INTERVAL <= 15
