"""An internet made up of tables, for the fetch: names that resolve, servers that answer, and a record of it all."""

import asyncio
import json
import socket
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.ingest.fetch import Fetcher
from gateway.ingest.web_page import Page
from gateway.operations.errors import GatewayError

VECTORS = Path(__file__).parents[2] / "vectors"
SSRF_URLS: list[str] = json.loads((VECTORS / "ssrf-urls.json").read_text(encoding="utf-8"))
# Odd, but the address is public and the path is the server's business.
FINE_URLS = {"https://8.8.8.8/a;b", "https://8.8.8.8/%2e%2e/"}
PUBLIC, OTHER_PUBLIC, PUBLIC_V6 = "93.184.216.34", "151.101.1.69", "2606:2800:220:1::1"
NAMES = {
    "example.com": [PUBLIC],
    "other.example": [OTHER_PUBLIC],
    "v6.example": [PUBLIC_V6],
    "xn--mnchen-3ya.example": [PUBLIC],
    "inside.example": ["10.0.0.5"],
    "metadata.example": ["169.254.169.254"],
    "loopback.example": ["127.0.0.1", "::1"],
    "localhost": ["127.0.0.1", "::1"],
    "localhost.": ["127.0.0.1"],
}

PRIVATE_ANSWERS: dict[str, list[str]] = {
    "private": ["10.0.0.5"],
    "public, then private": [PUBLIC, "10.0.0.5"],
    "private, then public": ["10.0.0.5", PUBLIC],
    "public A, loopback AAAA": [PUBLIC, "::1"],
    "public A, mapped AAAA": [PUBLIC, "::ffff:169.254.169.254"],
    "public AAAA, private A": [PUBLIC_V6, "192.168.1.1"],
    "public AAAA, link-local AAAA": [PUBLIC_V6, "fe80::1%eth0"],
    "last of sixteen": [*[f"93.184.216.{n}" for n in range(15)], "127.0.0.1"],
    "the same twice": [PUBLIC, PUBLIC, "10.0.0.5", "10.0.0.5"],
    "nothing": [],
    "another name": ["other.example"],
    "an empty word": [""],
    "an address and a space": ["8.8.8.8 "],
    "a network": ["8.8.8.8/32"],
    "brackets": ["[2606:2800:220:1::1]"],
    "a number in hexadecimal": ["0x08080808"],
    "a port behind it": ["8.8.8.8:443"],
    "a path behind it": ["8.8.8.8/../127.0.0.1"],
    "a user before it": ["8.8.8.8@127.0.0.1"],
    "a line break": ["8.8.8.8\n"],
    "good, then nonsense": [PUBLIC, "nonsense"],
}

Answer = Callable[[httpx.Request], httpx.Response]


@dataclass
class Internet:
    """Names that resolve, servers that answer, and a record of every connection made."""

    answers: dict[str, Answer] = field(default_factory=dict)
    names: dict[str, Sequence[str]] = field(default_factory=lambda: dict(NAMES))
    # Names with another answer each time they are looked up.
    changing: dict[str, Iterator[Sequence[str]]] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    looked_up: list[str] = field(default_factory=list)
    requests: list[httpx.Request] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.looked_up.append(host)
        if host in self.changing:
            return next(self.changing[host])
        if host in self.names:
            return self.names[host]
        # Only numbers are left: read as the system reads them (0x7f.1 and the like), without a network.
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        return [str(entry[4][0]) for entry in entries]

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.url.host in self.down:
            raise httpx.ConnectError(f"no route to {request.url.host}", request=request)
        asked = f"{request.url.scheme}://{request.headers['host']}{request.url.raw_path.decode()}"
        found = self.answers.get(asked)
        return page("found")(request) if found is None else found(request)

    @property
    def connected(self) -> list[str]:
        return [request.url.host for request in self.requests]

    def fetcher(self, **options: object) -> Fetcher:
        return Fetcher(resolve=self.resolve, transport=lambda: httpx.MockTransport(self.answer), **options)  # type: ignore[arg-type]  # options of one test each

    async def fetch(self, url: str) -> Page:
        return await self.fetcher()(url)


def page(body: str | bytes, content_type: str | None = "text/plain", **headers: str) -> Answer:
    content = body.encode() if isinstance(body, str) else body
    types = {} if content_type is None else {"content-type": content_type}
    sent = {**types, "content-length": str(len(content)), **headers}
    return lambda _request: httpx.Response(200, headers=sent, content=pieces(content))


async def pieces(body: bytes, size: int = 65_536) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


def streamed(chunks: AsyncIterator[bytes], **headers: str) -> Answer:
    return lambda _request: httpx.Response(200, headers={"content-type": "text/plain", **headers}, content=chunks)


def redirect(location: str | None, status: int = 302) -> Answer:
    headers = [] if location is None else [(b"location", location.encode())]
    return lambda _request: httpx.Response(status, headers=headers)


async def refusal(fetching: object) -> GatewayError:
    assert asyncio.iscoroutine(fetching)
    with pytest.raises(GatewayError) as caught:
        await fetching
    return caught.value


def record_dialling(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """From here on no socket of the process connects to anything; where each one wanted to is in the list."""
    dialled: list[Any] = []

    def refuse(_socket: socket.socket, address: Any) -> None:
        dialled.append(address)
        raise ConnectionRefusedError

    async def refuse_on_loop(_loop: object, _socket: socket.socket, address: Any) -> None:
        refuse(_socket, address)

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(BaseSelectorEventLoop, "sock_connect", refuse_on_loop)
    return dialled
