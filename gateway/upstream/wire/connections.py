"""httpx's requests over aiohttp's connections, which take a fraction of the CPU of httpx's own.

aiohttp is told to do nothing by itself: no cookies, no redirects, no headers, no unpacking, no environment, no second
sending. Where it differs from httpx, this module corrects it: what a failure says about a request that may have
arrived, when a connection may be used again, and how long each part may take.
"""

import asyncio
import select
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDict
from yarl import URL

from gateway.upstream.wire.failures import FAILURES, failure_of
from gateway.upstream.wire.request import AS_SENT, head_of, headers_of

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.connector import Connection

_AT_ONCE: Final = 2000
# Idle connections for the next calls. For aiohttp, this many cost no more than one.
_IDLE: Final = 100
# Shorter than the 5 seconds after which Node closes them.
_IDLE_SECONDS: Final = 4.0
_PART_BYTES: Final = 64 * 1024
# One header may be as long as before, and there may be far more of them than any platform sends.
_HEADER_BYTES: Final = 32 * 1024
_HEADERS: Final = 256
# The status of an answer that switches to another protocol. We never ask for that.
_SWITCHING: Final = 101
_NEVER: Final = float("inf")
_NO_MEDIA_TYPE: Final[CIMultiDict[None]] = CIMultiDict({"Content-Type": None})


class AiohttpTransport(httpx.AsyncBaseTransport):
    """A transport for httpx, over connections of aiohttp."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._connections: _Connections | None = None
        # The origin that requests go to, as the request that aiohttp's pool wants. There is only one at a time.
        self._origins: dict[str, _Request] = {}
        self._open: set[_Body] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        timeouts = request.extensions.get("timeout", {})
        await self._take_place(timeouts.get("pool"))
        try:
            answer = await self._send(request, timeouts)
        except BaseException:
            self._places.release()
            raise
        body = _Body(answer.content, answer.end, self._left)
        self._open.add(body)
        return httpx.Response(answer.status, headers=headers_of(answer.headers), stream=body)

    async def aclose(self) -> None:
        # aiohttp alone would let readers of a body wait for ever.
        for body in list(self._open):
            await body.aclose()
        if self._connections is not None:
            await self._connections.close()

    async def _take_place(self, seconds: float | None) -> None:
        if not self._places.locked():
            await self._places.acquire()
            return
        try:
            async with asyncio.timeout(seconds):
                await self._places.acquire()
        except TimeoutError:
            raise httpx.PoolTimeout("all connections are in use") from None

    def _left(self, body: "_Body") -> None:
        self._open.discard(body)
        self._places.release()

    async def _send(self, request: httpx.Request, timeouts: dict[str, float | None]) -> "_Answer":
        """The answer to a request, its body still to come."""
        origin, head = request.extensions.get(AS_SENT) or (_origin_of(request), None)
        try:
            if (whole := _small(request)) is not None:
                head = head or _head_of(request)
                return await self._exchange(origin, partial(_write, head + whole), timeouts, request.method)
            async with asyncio.timeout(None) as clock:
                body = _parts(request, clock, timeouts.get("write"))
                return await self._exchange(origin, partial(_write_in_parts, request, body), timeouts, request.method)
        except TimeoutError:
            # Errors of aiohttp were already turned into errors of httpx below.
            raise httpx.WriteTimeout("the platform stopped reading") from None
        except FAILURES as error:
            raise failure_of(error) from error

    async def _exchange(
        self,
        origin: str,
        write: "Callable[[Connection, ResponseHandler], Awaitable[_Answer]]",
        timeouts: dict[str, float | None],
        method: str,
    ) -> "_Answer":
        """Does for one request what aiohttp's session does, without the parts that we would have to switch off."""
        try:
            connection = await self._connect(origin, timeouts.get("connect"))
        except TimeoutError:
            raise httpx.ConnectTimeout("no connection in time") from None
        try:
            protocol = connection.protocol
            assert protocol is not None
            protocol.set_response_params(
                skip_payload=method == "HEAD",
                read_until_eof=True,
                auto_decompress=False,
                read_timeout=timeouts.get("read"),
                max_line_size=_HEADER_BYTES,
                max_field_size=_HEADER_BYTES,
                max_headers=_HEADERS,
            )
            return await write(connection, protocol)
        except aiohttp.ServerTimeoutError as error:
            connection.close()
            raise failure_of(error) from error
        except BaseException:
            connection.close()
            raise

    async def _connect(self, origin: str, seconds: float | None) -> "Connection":
        if self._connections is None:
            self._connections = _connections()
        if (there := self._origins.get(origin)) is None:
            there = _request("GET", origin, (), None)
            self._origins.clear()
            self._origins[origin] = there
        return await self._connections.connect(there, [], _timeout(seconds))


class _Answer(NamedTuple):
    """An answer whose body is still to come, and a function that ends it early."""

    status: int
    headers: Iterable[tuple[bytes, bytes]]
    content: aiohttp.StreamReader
    end: Callable[[], None]


async def _write(said: bytes, connection: "Connection", protocol: "ResponseHandler") -> _Answer:
    """Send a whole request in one write, because aiohttp's own way takes several times as long."""
    if protocol.transport is None:
        raise aiohttp.ClientConnectionResetError("the connection is closed")
    protocol.transport.write(said)
    protocol.start_timeout()
    while True:
        message, content = await protocol.read()
        # Interim answers (1xx) may come first; they only say that the answer will follow.
        if not 100 <= message.code < 200 or message.code == _SWITCHING:
            break
    # Once the last byte of the body is here, other requests can use the connection.
    content.on_eof(connection.release)
    return _Answer(message.code, message.raw_headers, content, partial(_end, connection, content))


def _end(connection: "Connection", content: aiohttp.StreamReader) -> None:
    if not content.is_eof() and content.exception() is None:
        # Otherwise a reader that still waits for more of the body would wait for ever.
        content.set_exception(aiohttp.ClientConnectionError("the connection was closed"))
    connection.close()


async def _write_in_parts(
    request: httpx.Request, body: AsyncIterator[bytes], connection: "Connection", _protocol: "ResponseHandler"
) -> _Answer:
    # aiohttp adds this header itself.
    sent = [one for one in _text(request.headers.raw) if one[0].lower() != "transfer-encoding"]
    address = _origin_of(request) + request.url.raw_path.decode("ascii")
    answer = await _request(request.method, address, sent, body).send(connection)
    try:
        await answer.start(connection)
    except BaseException:
        answer.close()
        raise
    return _Answer(answer.status, answer.raw_headers, answer.content, answer.close)


class _Request(aiohttp.ClientRequest):
    """A request with the headers that it is given, and no others."""

    def update_headers(self, headers: Any) -> None:
        self.headers = CIMultiDict(headers)

    def update_auto_headers(self, skip_auto_headers: Any) -> None:
        self._skip_auto_headers = _NO_MEDIA_TYPE


class _Body(httpx.AsyncByteStream):
    """The body of an answer, part by part."""

    def __init__(self, content: aiohttp.StreamReader, end: Callable[[], None], left: Callable[["_Body"], None]) -> None:
        self._content, self._end = content, end
        self._left: Callable[[_Body], None] | None = left

    async def __aiter__(self) -> AsyncIterator[bytes]:
        content = self._content
        try:
            while parts := _in_parts(await content.readany()):
                # Taken out of the buffer, so that nothing stays in memory while we wait for the next parts.
                while parts:
                    yield parts.pop()
        except FAILURES as error:
            # Bytes that came before are still to be read. Perhaps they are the whole body.
            content.set_exception(None)  # type: ignore[arg-type]
            if rest := content.read_nowait():
                yield rest
            raise failure_of(error) from error

    async def aclose(self) -> None:
        if self._left is None:
            return
        left, self._left = self._left, None
        self._end()
        left(self)


def _in_parts(read: bytes) -> list[bytes]:
    """Small parts of what was read, the last part first. A part may unpack to a thousand times its size, and the reader
    counts each."""
    if len(read) <= _PART_BYTES:
        return [read] if read else []
    return [read[start : start + _PART_BYTES] for start in range(0, len(read), _PART_BYTES)][::-1]


class _Connections(aiohttp.TCPConnector):
    """aiohttp's pool, with stricter rules for reuse. It uses private names of aiohttp; tests fail if one changes."""

    async def _get(self, key: "ConnectionKey", traces: Any) -> "Connection | None":
        while (connection := await super()._get(key, traces)) is not None:
            if not _has_more_to_say(connection):
                return connection
            connection.close()
        return None

    def _release(self, key: "ConnectionKey", protocol: "ResponseHandler", *, should_close: bool = False) -> None:
        if should_close:
            _leave(protocol)
        is_full = sum(map(len, self._conns.values())) >= _IDLE
        super()._release(key, protocol, should_close=should_close or is_full)

    def _close(self, *, abort_ssl: bool = False) -> list[Awaitable[object]]:
        for protocol in self._acquired:
            _leave(protocol)
        return super()._close(abort_ssl=abort_ssl)


def _leave(protocol: "ResponseHandler") -> None:
    """Abort the connection: one that is only closed would stay until the platform has read the rest of the request."""
    if protocol.transport is not None and protocol.transport.get_write_buffer_size():
        protocol.abort()


def _has_more_to_say(connection: "Connection") -> bool:
    """Whether bytes came after the last answer. The next request, of any caller, would take them for its answer."""
    protocol, transport = connection.protocol, connection.transport
    if protocol is None or transport is None or protocol.should_close:
        return True
    if not hasattr(select, "poll"):
        return False
    if (poll := _POLLS.get(protocol)) is None:
        poll = _POLLS[protocol] = select.poll()
        poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))


# One for each connection, as long as it lives, because making it takes longer than using it.
_POLLS: Final["WeakKeyDictionary[ResponseHandler, select.poll]"] = WeakKeyDictionary()


class _Names(AbstractResolver):
    """The system's own look-up, as httpx uses it: aiohttp's leaves out kinds of addresses that the machine lacks."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
        except UnicodeError as error:
            raise OSError(socket.EAI_NONAME, "this cannot be a name") from error
        return [
            ResolveResult(
                hostname=host,
                host=f"{address[0]}%{address[3]}" if len(address) == 4 and address[3] else str(address[0]),
                port=port,
                family=kind,
                proto=proto,
                flags=socket.AI_NUMERICHOST,
            )
            for kind, _, proto, _, address in found
        ]

    async def close(self) -> None:
        pass


def _connections() -> _Connections:
    return _Connections(limit=0, keepalive_timeout=_IDLE_SECONDS, resolver=_Names(), use_dns_cache=False)


@cache
def _tls() -> ssl.SSLContext:
    """One context for all, because reading the certificates takes longer than the rest of a start."""
    context = httpx.create_ssl_context(trust_env=False)
    context.set_alpn_protocols(["http/1.1"])
    return context


@cache
def _timeout(connect: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=connect, ceil_threshold=_NEVER)


def _request(
    method: str, address: str, headers: Iterable[tuple[str, str]], body: AsyncIterator[bytes] | None
) -> _Request:
    """A request object of aiohttp. Without headers and body, it only tells the pool where to connect."""
    return _Request(
        method,
        URL(address, encoded=True),
        headers=headers,
        data=body,
        loop=asyncio.get_running_loop(),
        ssl=_tls() if address.startswith("https:") else True,
    )


def _origin_of(request: httpx.Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc.decode('ascii')}"


def _head_of(request: httpx.Request) -> bytes:
    host, *own = _text(request.headers.raw)
    return head_of(request.method, request.url.raw_path.decode("ascii"), ": ".join(host), own)


def _text(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    return [(name.decode("ascii"), value.decode("ascii")) for name, value in headers]


def _small(request: httpx.Request) -> bytes | None:
    """A body that is sent without waiting for the platform, because it fits into the buffer of a socket."""
    try:
        return request.content if len(request.content) <= _PART_BYTES else None
    except httpx.RequestNotRead:
        return None


async def _parts(request: httpx.Request, clock: asyncio.Timeout, seconds: float | None) -> AsyncIterator[bytes]:
    """A body in parts. aiohttp asks for the next part when the one before was sent. Each has a time limit."""
    assert isinstance(request.stream, httpx.AsyncByteStream)
    async for chunk in request.stream:
        for start in range(0, len(chunk), _PART_BYTES):
            _set(clock, seconds)
            yield chunk[start : start + _PART_BYTES]
    _set(clock, None)


def _set(clock: asyncio.Timeout, seconds: float | None) -> None:
    # The timeout has ended already if the answer came before the end of the request.
    with suppress(RuntimeError):
        clock.reschedule(None if seconds is None else asyncio.get_running_loop().time() + seconds)
