"""A client and a target that know bytes alone, for what a proxy between them does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from tests.faults.faults import Fault, Kind, Plan
from tests.faults.proxy import Proxy, proxying
from tests.faults.wire import joined, read_head, request_body

HEAD = b"POST /v1/x?q=1 HTTP/1.1\r\nHost: here\r\nX-Mark: yes\r\nContent-Length: 8\r\n\r\n"
REQUEST = HEAD + b"12345678"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\nabcdefghij"
ANSWER_HEAD, ANSWER_BODY = ANSWER[:-10], ANSWER[-10:]
WAIT = 5.0


@dataclass
class RawTarget:
    """What came, connection by connection. With `gate` unset it keeps its answers back."""

    answer: bytes = ANSWER
    connections: list[bytes] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    hangs_up: bool = False
    url: str = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = len(self.connections)
        self.connections.append(b"")
        kept = _Kept(reader)
        try:
            while True:
                await joined(request_body(kept, await read_head(kept)))
                self.connections[own] = kept.bytes
                self.arrived.set()
                await self.gate.wait()
                writer.write(self.answer)
                await writer.drain()
                if self.hangs_up:
                    break
        except (EOFError, OSError):
            self.connections[own] = kept.bytes
        finally:
            self.ended.append(own)
            self.left.set()
            writer.close()


class _Kept(asyncio.StreamReader):
    """A reader that remembers every byte it gave, also of what was cut off."""

    def __init__(self, inner: asyncio.StreamReader) -> None:
        super().__init__()
        self._inner, self.bytes = inner, b""

    async def readuntil(self, separator: bytes = b"\n") -> bytes:  # type: ignore[override]
        try:
            return self._keep(await self._inner.readuntil(separator))
        except asyncio.IncompleteReadError as cut:
            self._keep(cut.partial)
            raise

    async def readexactly(self, n: int) -> bytes:
        return self._keep(await self._inner.readexactly(n))

    async def read(self, n: int = -1) -> bytes:
        return self._keep(await self._inner.read(n))

    def _keep(self, data: bytes) -> bytes:
        self.bytes += data
        return data


@asynccontextmanager
async def raw_target(answer: bytes = ANSWER, gated: bool = False, hangs_up: bool = False) -> AsyncIterator[RawTarget]:
    target = RawTarget(answer, hangs_up=hangs_up)
    if not gated:
        target.gate.set()
    server = await asyncio.start_server(target._serve, "127.0.0.1", 0)
    target.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield target
    finally:
        target.gate.set()
        server.close()


def always(kind: Kind) -> Plan:
    return lambda _request: Fault(kind)


@asynccontextmanager
async def between(plan: Plan | None, target: RawTarget) -> AsyncIterator[Proxy]:
    """A proxy in front of the target; when the block ends every connection must be gone."""
    with proxying(target.url, plan) as proxy:
        yield proxy
        assert await asyncio.to_thread(proxy.settled, WAIT), f"{proxy.open_connections} connections are left"


class RawClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def rest(self) -> bytes:
        async with asyncio.timeout(WAIT):
            return await self.reader.read()

    async def exactly(self, count: int) -> bytes:
        async with asyncio.timeout(WAIT):
            return await self.reader.readexactly(count)


@asynccontextmanager
async def connected(proxy: Proxy, request: bytes = REQUEST) -> AsyncIterator[RawClient]:
    url = httpx.URL(proxy.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(request)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.close()


@asynccontextmanager
async def alone(
    plan: Plan | None, answer: bytes, request: bytes = REQUEST, ends: bool = False
) -> AsyncIterator[RawClient]:
    """One client in front of a target that answers with this."""
    async with (
        raw_target(answer, hangs_up=ends) as target,
        between(plan, target) as proxy,
        connected(proxy, request) as one,
    ):
        yield one


async def soon(event: asyncio.Event) -> None:
    async with asyncio.timeout(WAIT):
        await event.wait()


async def silent(client: RawClient) -> bool:
    """Whether nothing comes, not even an end, for a moment."""
    try:
        async with asyncio.timeout(0.1):
            await client.reader.read(1)
    except TimeoutError:
        return True
    return False
