"""A connection that said more than one answer is not used again: the rest would be somebody else's answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.upstream.wire.transport import pooled_client


@asynccontextmanager
async def answering(times: int, *, chunked: bool = False) -> AsyncIterator[tuple[str, list[int]]]:
    """A server that gives every answer so many times, and the requests it saw on each of its connections."""
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = len(connections)
        connections.append(0)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                connections[mine] += 1
                said = head.split(b" ")[1]
                length = b"transfer-encoding: chunked" if chunked else b"content-length: %d" % len(said)
                body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(said), said) if chunked else said
                writer.write((b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n" + body) * times)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", connections


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
async def test_an_answer_that_comes_twice_answers_one_request(chunked: bool) -> None:
    async with answering(2, chunked=chunked) as (url, connections), pooled_client() as http:
        said = [(await http.get(f"{url}/{n}")).text for n in range(4)]
    assert said == ["/0", "/1", "/2", "/3"]
    assert connections == [1, 1, 1, 1]


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
async def test_a_connection_that_says_one_answer_is_kept(chunked: bool) -> None:
    async with answering(1, chunked=chunked) as (url, connections), pooled_client() as http:
        said = [(await http.get(f"{url}/{n}")).text for n in range(4)]
    assert said == ["/0", "/1", "/2", "/3"]
    assert connections == [4]
