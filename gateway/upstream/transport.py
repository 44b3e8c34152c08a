"""Plain httpx, made careful: a connection that said more than it was asked is not used again."""

from collections.abc import AsyncIterator

import h11
import httpx


class CarefulTransport(httpx.AsyncHTTPTransport):
    """What a platform or a proxy sends beyond an answer would be read as the answer to the next request.

    That request may be another caller's. httpx keeps such bytes; here the connection ends with the answer.
    """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _OneAnswer(response.stream)
        return response


class _OneAnswer(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        state = _protocol_state(self._stream)
        if state is not None and state.trailing_data[0]:
            # In this state the pool closes the connection instead of keeping it.
            state.send_failed()
        await self._stream.aclose()


def _protocol_state(stream: object) -> h11.Connection | None:
    """Where httpx keeps what it has read and not yet used. No public way leads there; a test tells if this one ends."""
    for name in ("_httpcore_stream", "_stream", "_connection", "_h11_state"):
        stream = getattr(stream, name, None)
    return stream if isinstance(stream, h11.Connection) else None
