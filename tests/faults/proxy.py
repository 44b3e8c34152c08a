"""A proxy on a loopback port that does harm at an exact point of an exchange.

It passes requests on unchanged, one connection to the target for each of a client's, and asks a plan at the head of
each what shall become of it. It runs in a thread of its own, beside whatever loop a test has.

A target that cannot be reached looks to the client like a connection that was closed, never like one that was refused.
"""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from tests.faults.exchange import Exchange, Reader, Side, reach
from tests.faults.faults import Fault, Kind, OnConnect, Passed, Plan, Point, Request
from tests.faults.wire import Head, read_head

# What a connection may end with: one side has gone, or what it said is not HTTP.
ENDINGS = (OSError, EOFError, asyncio.LimitOverrunError)


class Proxy:
    """Where the proxy is, and what it has seen. The plans and the target may be changed while it runs."""

    def __init__(self, target_url: str, plan: Plan | None = None, on_connect: OnConnect | None = None) -> None:
        self.target_url, self.plan, self.on_connect = target_url, plan, on_connect
        self.seen: list[Passed] = []
        self.failures: list[BaseException] = []
        self._sides: set[_Counted] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = threading.Event()
        self._idle.set()
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="proxy", daemon=True)

    @property
    def open_connections(self) -> int:
        """To clients and to the target together."""
        return len(self._sides)

    def settled(self, seconds: float = 5.0) -> bool:
        """Wait until no connection is open on either side; whether that came to be."""
        return self._idle.wait(seconds)

    def start(self) -> None:
        self._thread.start()
        if not self._ready.wait(30):
            raise RuntimeError("the proxy did not start")

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(10)

    async def _main(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        server = await self._loop.create_server(self._accepted, sock=self._socket, backlog=1024)
        self._ready.set()
        await self._stopping.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accepted(self) -> "_Counted":
        return _Counted(self, Reader(), self._welcome)

    def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(reader, Reader)
        task = self._loop.create_task(self._serve(Side(reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()):
            self.failures.append(failure)

    async def _dial(self) -> Side:
        to = urlsplit(self.target_url)
        reader = Reader()
        transport, protocol = await self._loop.create_connection(
            lambda: _Counted(self, reader), to.hostname or "127.0.0.1", to.port or 80
        )
        return Side(reader, asyncio.StreamWriter(transport, protocol, reader, self._loop))

    async def _serve(self, client: Side) -> None:
        """The exchanges of one connection, until one of them ends it."""
        sides = [client]
        try:
            with suppress(*ENDINGS):
                await self._exchanges(client, sides)
        except Exception as failure:  # noqa: BLE001  # told when the block ends, also if this task is stopped before
            self.failures.append(failure)
        finally:
            for side in sides:
                side.close()
            await _closed(sides)

    async def _exchanges(self, client: Side, sides: list[Side]) -> None:
        if not await self._let_in(client):
            return
        target: Side | None = None

        async def dial() -> Side:
            sides.append(await self._dial())
            return sides[-1]

        while True:
            head = await _next_head(client, target)
            request = self._request(head)
            fault = self.plan(request) if self.plan else None
            self.seen.append(Passed(request, fault))
            exchange = Exchange(client, target, dial, head, request)
            if not await exchange.run(fault):
                return
            target = exchange.target

    def _request(self, head: Head) -> Request:
        method, path, _ = head.first
        return Request(method, path, head.fields, len(self.seen) + 1)

    async def _let_in(self, client: Side) -> bool:
        fault: Fault | None = self.on_connect() if self.on_connect else None
        if fault is None:
            return True
        if fault.kind is Kind.slow_accept:
            await asyncio.sleep(fault.seconds)
        elif fault.kind is Kind.hold:
            await reach(fault, Point.connected, client)
        elif fault.kind is not Kind.cut_before:
            raise ValueError(f"{fault.kind} needs a request: give it to the plan")
        return fault.kind is not Kind.cut_before


async def _next_head(client: Side, target: Side | None) -> Head:
    """The next request; if the target hangs up before one comes, so does the proxy."""
    if target is not None:
        if target.gone:
            raise EOFError
        target.reader.on_end = client.close
    head = await read_head(client.reader)
    if target is not None:
        target.reader.on_end = None
    return head


async def _closed(sides: list[Side], seconds: float = 2.0) -> None:
    """All sides are closed; one that does not take what was written to it is broken off."""
    waits = [asyncio.ensure_future(side.writer.wait_closed()) for side in sides]
    try:
        await asyncio.wait(waits, timeout=seconds)
    finally:
        for side in sides:
            side.writer.transport.abort()
        await asyncio.gather(*waits, return_exceptions=True)


class _Counted(asyncio.StreamReaderProtocol):
    """A connection the proxy knows of as long as it is open."""

    def __init__(self, proxy: Proxy, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._proxy = proxy

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._proxy._sides.add(self)
        self._proxy._idle.clear()
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._proxy._sides.discard(self)
        if not self._proxy._sides:
            self._proxy._idle.set()


@contextmanager
def proxying(target_url: str, plan: Plan | None = None, on_connect: OnConnect | None = None) -> Iterator[Proxy]:
    """A proxy in front of a target until the block ends. A plan that raised is raised again there."""
    proxy = Proxy(target_url, plan, on_connect)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
    if proxy.failures:
        raise proxy.failures[0]
