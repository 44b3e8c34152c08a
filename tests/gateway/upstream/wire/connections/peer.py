"""A server that does to a connection what it is told, and counts every request that reaches it."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


def answer(body: bytes = b"ok", status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(part: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(part), part)


@dataclass
class Exchange:
    """One request, and the connection it came on."""

    connection: int
    """The how manieth of the peer."""
    on_connection: int
    """The how manieth request of that connection."""
    head: bytes
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def header_names(self) -> list[str]:
        return sorted(line.split(b":")[0].decode().lower() for line in self.head.split(b"\r\n")[1:-2])

    async def say(self, *parts: bytes) -> None:
        self.writer.writelines(parts)
        await self.writer.drain()

    def reset(self) -> None:
        """As a process does that is killed, or a firewall."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Serve = Callable[[Exchange], Awaitable[None]]


async def says_ok(exchange: Exchange) -> None:
    await exchange.say(answer())


@dataclass
class Peer:
    """Serves every request as told. A connection that it has said enough on is closed."""

    serve: Serve = says_ok
    at_once: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] | None = None
    """Instead of reading a request."""
    requests: list[Exchange] = field(default_factory=list)
    connections: int = 0
    ended: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    port: int = 0

    @property
    def url(self) -> str:
        """By name: cookies, and several addresses, are for names alone."""
        return f"http://localhost:{self.port}"

    async def until(self, holds: Callable[["Peer"], bool]) -> None:
        async with asyncio.timeout(30), self.changed:
            await self.changed.wait_for(lambda: holds(self))

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = self.connections
        self.connections += 1
        await self._tell()
        try:
            if self.at_once is not None:
                await self.at_once(reader, writer)
                return
            for number in range(1000):
                exchange = await _next(mine, number, reader, writer)
                self.requests.append(exchange)
                await self._tell()
                await self.serve(exchange)
                if writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self.ended += 1
            await self._tell()

    async def _tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()


async def _next(mine: int, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange:
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    body = await reader.readexactly(int(lengths[0]) if lengths else 0)
    return Exchange(mine, number, head, body, reader, writer)


@asynccontextmanager
async def peering(peer: Peer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Peer]:
    server = await asyncio.start_server(peer._handle, "127.0.0.1", 0, ssl=tls, limit=1 << 20)
    peer.port = server.sockets[0].getsockname()[1]
    try:
        yield peer
    finally:
        server.close()
