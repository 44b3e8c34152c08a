"""One request and its answer on their way through the proxy, and the harm done to them."""

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from time import time

from tests.faults.faults import Fault, Kind, Point, Request
from tests.faults.wire import Head, answer_body, ends_with_the_connection, joined, read_head, request_body

NO_LINGER = struct.pack("ii", 1, 0)


class Reader(asyncio.StreamReader):
    """A stream that tells when the other side has gone, without being read."""

    def __init__(self) -> None:
        super().__init__(limit=1 << 20)
        self.ended = asyncio.Event()
        self.on_end: Callable[[], object] | None = None

    def feed_eof(self) -> None:
        super().feed_eof()
        self._end()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self._end()

    def _end(self) -> None:
        self.ended.set()
        if self.on_end is not None:
            self.on_end()


class Side:
    """A connection to the client or to the target."""

    def __init__(self, reader: Reader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._socket: socket.socket = writer.get_extra_info("socket")
        # asyncio leaves this out for accepted connections, and each answer would then take 40 ms.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def gone(self) -> bool:
        return self.reader.ended.is_set() or self.writer.is_closing()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def close(self) -> None:
        """What was written still goes out, and then the end."""
        self.reader.on_end = None
        self.writer.close()

    def reset(self) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.writer.transport.abort()


Dial = Callable[[], Awaitable[Side]]


class Exchange:
    """A request whose head has been read, the client it came from and the target it goes to.

    Every kind of fault is a method; it says whether the connections may be used for another request.
    """

    def __init__(self, client: Side, target: Side | None, dial: Dial, head: Head, request: Request) -> None:
        self.client, self.target, self._dial = client, target, dial
        self._head, self._request = head, request

    async def run(self, fault: Fault | None) -> bool:
        if fault is None:
            return await self._pass()
        kinds: dict[Kind, Callable[[Fault], Awaitable[bool]]] = {
            Kind.cut_before: self._cut_before,
            Kind.cut_in_headers: self._cut_in_headers,
            Kind.cut_in_body: self._cut_in_body,
            Kind.cut_after_request: self._cut_after_request,
            Kind.drop_answer: self._drop_answer,
            Kind.cut_in_answer_headers: self._cut_in_answer_headers,
            Kind.cut_after_answer_headers: self._cut_after_answer_headers,
            Kind.cut_in_answer_body: self._cut_in_answer_body,
            Kind.reset: self._reset,
            Kind.half_close: self._half_close,
            Kind.stall_before: self._stall_before,
            Kind.late: self._late,
            Kind.stall_after: self._stall_after,
            Kind.drip: self._drip,
            Kind.slow_accept: self._slow,
            Kind.duplicate: self._duplicate,
            Kind.double_answer: self._double_answer,
            Kind.commit_then_500: partial(self._commit_then, 500),
            Kind.commit_then_502: partial(self._commit_then, 502),
            Kind.commit_then_503: partial(self._commit_then, 503),
            Kind.commit_then_504: partial(self._commit_then, 504),
            Kind.refuse_429: partial(self._refuse, 429),
            Kind.refuse_503: partial(self._refuse, 503),
            Kind.hold: self._hold,
        }
        return await kinds[fault.kind](fault)

    # The steps of an exchange.

    async def _connected(self) -> Side:
        if self.target is None or self.target.gone:
            self.target = await self._dial()
        return self.target

    async def _body(self) -> bytes:
        return await joined(request_body(self.client.reader, self._head))

    async def _forward(self, data: bytes) -> Side:
        target = await self._connected()
        await target.send(data)
        return target

    async def _deliver(self) -> Side:
        return await self._forward(self._head.raw + await self._body())

    async def _answer_of(self, target: Side) -> tuple[Head, bytes]:
        head = await read_head(target.reader)
        return head, await joined(answer_body(target.reader, head, self._request.method))

    async def _answer(self) -> tuple[Head, bytes]:
        return await self._answer_of(await self._deliver())

    def _may_go_on(self, answer: Head) -> bool:
        return self._head.stays_open and not ends_with_the_connection(answer, self._request.method)

    async def _pass_answer(self, target: Side, send: Callable[[bytes], Awaitable[None]]) -> bool:
        """As it comes; a client that leaves meanwhile is a target that is left."""
        self.client.reader.on_end = target.writer.transport.abort
        head = await read_head(target.reader)
        await send(head.raw)
        async for piece in answer_body(target.reader, head, self._request.method):
            await send(piece)
        self.client.reader.on_end = None
        return self._may_go_on(head)

    async def _pass(self) -> bool:
        return await self._pass_answer(await self._deliver(), self.client.send)

    # The faults.

    async def _cut_before(self, _fault: Fault) -> bool:
        return False

    async def _cut_in_headers(self, _fault: Fault) -> bool:
        await self._forward(self._head.raw[: len(self._head.raw) // 2])
        return False

    async def _cut_in_body(self, fault: Fault) -> bool:
        body = await self._body()
        if not body:
            return await self._cut_after_request(fault)
        await self._forward(self._head.raw + body[: len(body) // 2])
        return False

    async def _cut_after_request(self, _fault: Fault) -> bool:
        target = await self._deliver()
        self.client.close()
        await self._answer_of(target)
        return False

    async def _drop_answer(self, _fault: Fault) -> bool:
        await self._answer()
        return False

    async def _cut_in_answer_headers(self, _fault: Fault) -> bool:
        head, _ = await self._answer()
        await self.client.send(head.raw[: len(head.raw) // 2])
        return False

    async def _cut_after_answer_headers(self, _fault: Fault) -> bool:
        head, _ = await self._answer()
        await self.client.send(head.raw)
        return False

    async def _cut_in_answer_body(self, fault: Fault) -> bool:
        if fault.after is not None:
            return await self._cut_after_bytes(fault.after)
        head, body = await self._answer()
        half = head.raw + body[: len(body) // 2] if body else head.raw[: len(head.raw) // 2]
        await self.client.send(half)
        return False

    async def _cut_after_bytes(self, count: int) -> bool:
        target = await self._deliver()
        head = await read_head(target.reader)
        await self.client.send(head.raw)
        async for piece in answer_body(target.reader, head, self._request.method):
            await self.client.send(piece[:count])
            if (count := count - len(piece)) <= 0:
                break
        return False

    async def _reset(self, _fault: Fault) -> bool:
        await self._answer()
        self.client.reset()
        return False

    async def _half_close(self, _fault: Fault) -> bool:
        target = await self._deliver()
        self.client.writer.write_eof()
        await self._answer_of(target)
        await self.client.reader.ended.wait()
        return False

    async def _stall_before(self, _fault: Fault) -> bool:
        await self._body()
        await self.client.reader.ended.wait()
        return False

    async def _late(self, fault: Fault) -> bool:
        body = await self._body()
        await self.client.reader.ended.wait()
        await asyncio.sleep(fault.delay)
        await self._answer_of(await self._forward(self._head.raw + body))
        return False

    async def _stall_after(self, _fault: Fault) -> bool:
        await self._deliver()
        await self.client.reader.ended.wait()
        return False

    async def _drip(self, fault: Fault) -> bool:
        async def send(data: bytes) -> None:
            for start in range(0, len(data), fault.piece):
                await self.client.send(data[start : start + fault.piece])
                await asyncio.sleep(fault.pause)

        return await self._pass_answer(await self._deliver(), send)

    async def _slow(self, fault: Fault) -> bool:
        await asyncio.sleep(fault.seconds)
        return await self._pass()

    async def _duplicate(self, _fault: Fault) -> bool:
        data = self._head.raw + await self._body()
        first, second = await self._forward(data), await self._dial()
        try:
            await second.send(data)
            (head, body), _ = await asyncio.gather(self._answer_of(first), self._answer_of(second))
        finally:
            second.close()
        await self.client.send(head.raw + body)
        return self._may_go_on(head)

    async def _double_answer(self, _fault: Fault) -> bool:
        head, body = await self._answer()
        await self.client.send((head.raw + body) * 2)
        return self._may_go_on(head)

    async def _commit_then(self, status: int, _fault: Fault) -> bool:
        head, _ = await self._answer()
        await self.client.send(_problem(status))
        return self._may_go_on(head)

    async def _refuse(self, status: int, fault: Fault) -> bool:
        await self._body()
        when = formatdate(time() + fault.seconds, usegmt=True) if fault.as_date else str(int(fault.seconds))
        await self.client.send(_problem(status, f"Retry-After: {when}\r\n"))
        return self._head.stays_open

    async def _hold(self, fault: Fault) -> bool:
        """The exchange step by step, with a stop at every point."""
        await reach(fault, Point.head, self.client)
        body = await self._body()
        half = len(body) // 2
        await self._forward(self._head.raw + body[:half])
        await reach(fault, Point.body_half, self.client)
        target = await self._forward(body[half:])
        await reach(fault, Point.delivered, self.client)
        head, answer = await self._answer_of(target)
        await reach(fault, Point.committed, self.client)
        await self.client.send(head.raw)
        await reach(fault, Point.answer_head, self.client)
        half = len(answer) // 2
        await self.client.send(answer[:half])
        await reach(fault, Point.answer_half, self.client)
        await self.client.send(answer[half:])
        await reach(fault, Point.answered, self.client)
        return self._may_go_on(head)


async def reach(fault: Fault, point: Point, client: Side) -> None:
    if fault.point is not point or fault.reached is None:
        return
    await asyncio.to_thread(fault.reached)
    if fault.wait:
        await client.reader.ended.wait()


def _problem(status: int, fields: str = "") -> bytes:
    title = HTTPStatus(status).phrase
    body = json.dumps({"status": status, "title": title, "detail": "said by the proxy"}).encode()
    head = f"HTTP/1.1 {status} {title}\r\nContent-Type: application/problem+json\r\n{fields}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
