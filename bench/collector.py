"""`python -m bench.collector --port N`: takes spans over HTTP as a collector on another machine would.

It runs on the cores that are measured, so it must take little of them: a request is kept as it came, and its spans are
counted when somebody asks for their number, which is after a measurement.
"""

import argparse
import asyncio
import json
import time
from typing import Final, cast

import uvloop
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.client import checked
from bench.processes import Contestant
from bench.wire import get

_OK: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_HEAD_END: Final = b"\r\n\r\n"
_COUNT_PATH: Final = "/count"
_LOOKS, _LOOK_SECONDS = 10, 1.2


class _Sink(asyncio.Protocol):
    """Takes spans as fast as they come, says so, and tells how many came so far."""

    kept: Final[list[bytes]] = []
    came = 0

    def __init__(self) -> None:
        self._unread = bytearray()
        self._whole = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # That of uvloop is no asyncio.Transport.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while len(self._unread) >= self._whole and (end := self._unread.find(_HEAD_END)) >= 0:
            head = bytes(self._unread[:end]).lower()
            named = (line.partition(b":") for line in head.split(b"\r\n"))
            length = next((int(value) for name, _, value in named if name == b"content-length"), 0)
            start = end + len(_HEAD_END)
            # Until all of it is there, nothing is looked at.
            self._whole = start + length
            if len(self._unread) < self._whole:
                return
            is_question = head.startswith(f"get {_COUNT_PATH} ".encode())
            if not is_question:
                _Sink.kept.append(bytes(self._unread[start : self._whole]))
            del self._unread[: self._whole]
            self._whole = 0
            self._transport.write(_count() if is_question else _OK)


def _count() -> bytes:
    for body in _Sink.kept:
        resources = ExportTraceServiceRequest.FromString(body).resource_spans
        _Sink.came += sum(len(of_scope.spans) for of_resource in resources for of_scope in of_resource.scope_spans)
    _Sink.kept.clear()
    body = json.dumps(_Sink.came).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


def spans_at(collector: Contestant) -> int:
    """How many came, once no more come."""
    last = -1
    for _ in range(_LOOKS):
        came = int(json.loads(asyncio.run(checked(collector.port, get(_COUNT_PATH)))))
        if came == last:
            break
        last = came
        time.sleep(_LOOK_SECONDS)
    return last


async def _collect(port: int) -> None:
    await (await asyncio.get_running_loop().create_server(_Sink, "127.0.0.1", port)).serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    uvloop.run(_collect(parser.parse_args().port))
