"""The fetch over real sockets, to a server on loopback that stands for public addresses."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Sequence

import httpx
import pytest

from gateway.ingest.fetch import Fetcher
from gateway.ingest.web_page import Page
from tests.gateway.ingest.internet import PUBLIC, PUBLIC_V6, refusal

ANSWERS = {
    "/": b"HTTP/1.1 302 Found\r\nlocation: /page#part\r\nset-cookie: a=b\r\ncontent-length: 0\r\n\r\n",
    "/page": b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-encoding: gzip\r\n\r\n"
    + gzip.compress(b"words"),
    "/cut": b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100\r\n\r\nwords",
    "/nonsense": b"\x00\x01\x02\r\n\r\n",
    "/headers": b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 1_000_000 + b"\r\n\r\n",
    "/nothing": b"",
}


class Server:
    """Answers one request a connection, from the table, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(request)
        writer.write(ANSWERS[request.split()[1].decode()])
        writer.close()


class Rerouted(httpx.AsyncHTTPTransport):
    """The transport of the fetch, but public addresses lead to loopback and to the server's port."""

    def __init__(self, port: int) -> None:
        super().__init__(trust_env=False, retries=0)
        self._port = port

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = {PUBLIC: "127.0.0.1", PUBLIC_V6: "::1"}[request.url.host]
        request.url = request.url.copy_with(host=host, port=self._port)
        return await super().handle_async_request(request)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    serving = Server()
    listening = await asyncio.start_server(serving.answer, "127.0.0.1", 0)
    serving.port = listening.sockets[0].getsockname()[1]
    yield serving
    listening.close()
    await listening.wait_closed()


async def fetch(server: Server, path: str) -> Page:
    async def both(host: str, port: int) -> Sequence[str]:
        """The first one is not listened on."""
        return [PUBLIC_V6, PUBLIC]

    return await Fetcher(resolve=both, transport=lambda: Rerouted(server.port))(f"http://pages.example{path}")


async def test_a_page_is_fetched_from_the_address_that_answers(server: Server) -> None:
    assert await fetch(server, "/") == Page("http://pages.example/page", "text/plain", b"words", "utf-8")
    assert [request.split(b"\r\n")[0] for request in server.asked] == [b"GET / HTTP/1.1", b"GET /page HTTP/1.1"]
    assert not any(b"cookie" in request.lower() for request in server.asked)
    assert all(b"\r\nhost: pages.example" in request.lower() for request in server.asked)


@pytest.mark.parametrize("path", ["/cut", "/nonsense", "/headers", "/nothing"])
async def test_an_answer_that_is_none_is_a_failed_fetch(server: Server, path: str) -> None:
    error = await refusal(fetch(server, path))
    assert (error.code, error.message) == ("fetch_failed", "The page could not be fetched.")
    assert len(server.asked) == 1
