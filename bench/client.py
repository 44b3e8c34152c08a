"""A minimal HTTP/1.1 client over asyncio streams: so little of its own that it can sit on the same two cores."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from bench.result import Unmeasured

_PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes


class Connection:
    """One kept-alive connection to a contestant on loopback."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> "Connection":
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        return cls(reader, writer)

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return

    async def exchange(self, request: bytes) -> Answer:
        """Send a request and read the whole answer."""
        async with asyncio.timeout(_PATIENCE):
            status, chunks = await self.stream(request)
            return Answer(status, b"".join([chunk async for chunk in chunks]))

    async def stream(self, request: bytes) -> tuple[int, AsyncIterator[bytes]]:
        """Send a request; the body comes as it arrives."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        status = int(lines[0].split(" ", 2)[1])
        if headers.get("transfer-encoding") == "chunked":
            return status, self._chunked()
        return status, self._sized(int(headers.get("content-length", "0")))

    async def _sized(self, length: int) -> AsyncIterator[bytes]:
        if length:
            yield await self._reader.readexactly(length)

    async def _chunked(self) -> AsyncIterator[bytes]:
        while True:
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            chunk = (await self._reader.readexactly(size + 2))[:-2]
            if not size:
                return
            yield chunk


async def checked(port: int, request: bytes) -> bytes:
    """One exchange on a fresh connection that must succeed.

    Raises:
        Unmeasured: it did not.
    """
    connection = await Connection.open(port)
    try:
        answer = await connection.exchange(request)
    finally:
        await connection.close()
    if answer.status != 200:
        raise Unmeasured(f"It answered {answer.status}: {answer.body[:200].decode(errors='replace')}")
    return answer.body
