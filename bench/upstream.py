"""The instant platform: canned bytes over asyncio, in a process of its own. It counts what it is asked."""

import argparse
import asyncio
import json
import time
from collections import Counter
from typing import cast

import uvloop

from bench import canned

_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
COUNTS_PATH = "/bench/counts"


def _answer(body: bytes, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


_SEARCHED = _answer(json.dumps(canned.search_result()).encode())
_LISTED = _answer(json.dumps(canned.brain_list()).encode())
_UNKNOWN = _answer(b'{"status":404,"detail":"no route for this","code":"not_found"}', "404 Not Found")
_RETRIEVED = canned.retrieved()
counts: Counter[str] = Counter(search=0, ask=0, list=0, other=0)


class InstantPlatform(asyncio.Protocol):
    """One connection. Requests come one after the other; nobody who measures pipelines them."""

    def __init__(self) -> None:
        self._buffer = b""
        self._writable = asyncio.Event()
        self._writable.set()
        self._stream: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's, though they do the same.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._stream is not None:
            self._stream.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end]
            length = _content_length(head)
            if len(self._buffer) < end + 4 + length:
                return
            body = self._buffer[end + 4 : end + 4 + length]
            self._buffer = self._buffer[end + 4 + length :]
            self._serve(head, body)

    def _serve(self, head: bytes, body: bytes) -> None:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method == b"GET" and path.endswith(b"/search"):
            counts["search"] += 1
            self._transport.write(_SEARCHED)
        elif method == b"POST" and path.endswith(b"/ask"):
            counts["ask"] += 1
            self._stream = asyncio.ensure_future(self._answer_in_frames(json.loads(body)["query"]))
        elif path == COUNTS_PATH.encode():
            self._transport.write(_answer(json.dumps(counts).encode()))
        elif method == b"GET" and path == b"/v1/brains":
            counts["list"] += 1
            self._transport.write(_LISTED)
        else:
            counts["other"] += 1
            self._transport.write(_UNKNOWN)

    async def _answer_in_frames(self, query: str) -> None:
        """Every delta is the moment it was sent, so that whoever reads it knows how old it is."""
        told = json.loads(query)
        pause = float(told["pause"])
        self._transport.write(_STREAM_HEAD + _RETRIEVED)
        for _ in range(int(told["deltas"])):
            if pause:
                await asyncio.sleep(pause)
            await self._writable.wait()
            self._transport.write(canned.event("answer_delta", delta=f"@{time.time_ns()} "))
        if told["hold"]:
            return
        self._transport.write(canned.event("done", answer="done", ok=True) + b"0\r\n\r\n")


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def _run(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(InstantPlatform, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    uvloop.run(_run(parser.parse_args().port))
