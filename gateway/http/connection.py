"""A connection as uvicorn reads it, with limits on the head of a request, because the caller is not known yet."""

import asyncio
import json
import logging
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from gateway.http.refusal_log import REFUSALS
from gateway.operations.caller import make_request_id

# We write a limited number of lines for refusals; uvicorn would add one to each.
_LOGGER: Final = logging.getLogger("uvicorn.connection")
_LOGGER.setLevel(logging.ERROR)
_HEAD_BYTES: Final = 64 * 1024
_FIELDS: Final = 100
_TOO_LARGE: Final = (
    431,
    f"The head of a request may have {_HEAD_BYTES:,} bytes and {_FIELDS} headers. Send less in the URL and headers.",
)
_NOT_HTTP: Final = (400, "This is not a request of HTTP/1.1 that can be read. Send it as the standard has it.")
_TOO_SLOW: Final = (408, "The head of the request did not come in time. Send it again.")


_HEAD: Final = b"HTTP/1.1 "
_CONTINUE: Final = b"HTTP/1.1 100 "


class _HeadTooLarge(Exception):
    """Raised into the parser, which reads no further."""


class OneWrite:
    """A transport that sends the head of an answer and the beginning of its body in one write.

    uvicorn writes them one after the other, and each write is a packet that wakes the client up.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._head = b""
        self._flushing: asyncio.Handle | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, said: bytes) -> None:
        if self._head:
            said = self._take_head() + said
        elif said.startswith(_HEAD) and not said.startswith(_CONTINUE):
            self._head = said
            # If no body comes in this turn of the loop, the head is sent alone.
            self._flushing = self._loop.call_soon(self._flush)
            return
        self._transport.write(said)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            self._transport.write(self._take_head())

    def _take_head(self) -> bytes:
        head, self._head = self._head, b""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        return head


class Connection(HttpToolsProtocol):
    """Ends connections if headers do not end or requests never come. Trailers after a body do not count as headers."""

    head_seconds = 10.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = _LOGGER
        self._clock: asyncio.TimerHandle | None = None
        self._came = self._said = self._fields = 0

    @property
    def _in_head(self) -> bool:
        """Whether a request has begun whose headers are not complete."""
        return self.scope is not None and (self.cycle is None or self.cycle.scope is not self.scope)

    @property
    def _answers(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.transport = OneWrite(transport, self.loop)  # type: ignore[assignment]  # as far as uvicorn uses one
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        request = self.scope
        super().data_received(data)
        if self._in_head and self.scope is request:
            # The parser keeps a header to itself until it is whole.
            self._came += len(data)
            if self._came > _HEAD_BYTES:
                self._refuse(*_TOO_LARGE)
        # If a request is answered already, we do not wait for the rest of its body either.
        if self._in_head or not self._answers:
            self._start_clock()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._came = self._said = self._fields = 0

    def on_url(self, url: bytes) -> None:
        self._said += len(url)
        if self._said > _HEAD_BYTES:
            raise _HeadTooLarge
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        self._said += len(name) + len(value)
        if self._said > _HEAD_BYTES or self._fields > _FIELDS:
            raise _HeadTooLarge
        # The list of headers is already with the application: a trailer must not get into it.
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_clock()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        is_too_large = self._said > _HEAD_BYTES or self._fields > _FIELDS
        self._refuse(*(_TOO_LARGE if is_too_large else _NOT_HTTP))

    def _start_clock(self) -> None:
        if self._clock is None and not self.transport.is_closing():
            self._clock = self.loop.call_later(self.head_seconds, self._give_up)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _give_up(self) -> None:
        if self._in_head:
            self._refuse(*_TOO_SLOW)
        else:
            self.transport.close()

    def _refuse(self, status: int, message: str) -> None:
        """Close, and say why before, unless that would be in the middle of another answer."""
        if self.transport.is_closing():
            return
        request_id = make_request_id()
        address = self.client[0] if self.client else None
        REFUSALS.note(status, message, address=address, request_id=request_id)
        if not self._answers:
            body = json.dumps({"code": "validation_error", "message": message, "retryable": status == 408}).encode()
            head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nx-request-id: {request_id}\r\n"
            self.transport.write(STATUS_LINE[status] + f"{head}connection: close\r\n\r\n".encode() + body)
        self.transport.close()
