"""A caller who leaves: reads and answers end with them, a write that was sent is seen through."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.served import Era, listening, raw_call, serving, stdio_client
from tests.upstreams import Scripted, SlowStream, SlowWrite

ERAS: tuple[Era, ...] = ("modern", "legacy")


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
        assert await until(stream.closed.wait, 1), "the platform's stream was still open a second later"


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
async def test_a_cancel_over_stdio_closes_the_answer_stream(tmp_path: Path, era: Era) -> None:
    stream = SlowStream()
    platform = Scripted({"POST /v1/brains/main/ask": stream})
    with listening(platform.app()) as upstream:
        async with stdio_client(era, tmp_path, BRAINS_UPSTREAM_URL=upstream, BRAINS_DIALECT="platform") as client:
            asking = asyncio.ensure_future(client.call_tool("memory_ask", {"query": "x", "brain": "main"}))
            assert await until(stream.started.wait)
            asking.cancel()
            assert await until(stream.closed.wait, 1), "the platform's stream was still open a second later"


@pytest.mark.parametrize("era", ERAS)
async def test_the_end_of_stdin_ends_the_process_and_sees_a_write_through(tmp_path: Path, era: Era) -> None:
    write = SlowWrite()
    platform = Scripted({"POST /v1/brains/main/documents": write})
    with listening(platform.app()) as upstream:
        async with stdio_client(era, tmp_path, BRAINS_UPSTREAM_URL=upstream, BRAINS_DIALECT="platform") as client:
            sending = asyncio.ensure_future(client.call_tool("memory_remember", {"content": "x", "brain": "main"}))
            assert await until(write.arrived.wait)
            sending.cancel()
        assert await until(write.committed.wait)
