"""Just enough HTTP/1.1 to know where a message, its head and its body end. Bytes are kept as they came."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

PIECE = 1 << 16


@dataclass(frozen=True)
class Head:
    """The first line and the fields of a message, with the very bytes they were read from."""

    raw: bytes
    first: tuple[str, str, str]
    fields: dict[str, str]

    @property
    def stays_open(self) -> bool:
        return "close" not in self.fields.get("connection", "").lower()


async def read_head(reader: asyncio.StreamReader) -> Head:
    raw = await reader.readuntil(b"\r\n\r\n")
    first, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
    one, two, three = [*first.split(" ", 2), "", ""][:3]
    pairs = (line.partition(":") for line in lines)
    return Head(raw, (one, two, three), {name.strip().lower(): value.strip() for name, _, value in pairs})


def request_body(reader: asyncio.StreamReader, head: Head) -> AsyncIterator[bytes]:
    """The raw bytes of a request's body, as they come."""
    if "chunked" in head.fields.get("transfer-encoding", ""):
        return _chunked(reader)
    return _counted(reader, int(head.fields.get("content-length", 0)))


def answer_body(reader: asyncio.StreamReader, head: Head, method: str) -> AsyncIterator[bytes]:
    """The raw bytes of an answer's body, as they come."""
    if method == "HEAD" or head.first[1] in {"204", "304"}:
        return _counted(reader, 0)
    if "chunked" in head.fields.get("transfer-encoding", ""):
        return _chunked(reader)
    if (length := head.fields.get("content-length")) is not None:
        return _counted(reader, int(length))
    return _to_the_end(reader)


def ends_with_the_connection(head: Head, method: str) -> bool:
    """Whether nobody can send another answer after this one."""
    bare = method == "HEAD" or head.first[1] in {"204", "304"}
    framed = bare or "content-length" in head.fields or "chunked" in head.fields.get("transfer-encoding", "")
    return not framed or not head.stays_open


async def joined(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


async def _counted(reader: asyncio.StreamReader, length: int) -> AsyncIterator[bytes]:
    while length > 0:
        if not (piece := await reader.read(min(length, PIECE))):
            raise asyncio.IncompleteReadError(b"", length)
        length -= len(piece)
        yield piece


async def _chunked(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        line = await reader.readuntil(b"\r\n")
        if not (size := int(line.split(b";")[0], 16)):
            break
        yield line + await reader.readexactly(size + 2)
    while (trailer := await reader.readuntil(b"\r\n")) != b"\r\n":
        line += trailer
    yield line + trailer


async def _to_the_end(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while piece := await reader.read(PIECE):
        yield piece
