"""Plain httpx, made careful: a connection that said more than it was asked is not used again."""

import ssl
from collections.abc import AsyncIterator
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy

import h11
import httpx


def pooled_client(transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """A client that carries nothing from one caller to the next: no cookies, no default credentials."""
    # Idle connections cost httpx CPU on every request; and Node closes them after 5 s.
    limits = httpx.Limits(max_connections=2000, max_keepalive_connections=20, keepalive_expiry=4)
    return httpx.AsyncClient(
        transport=transport or CarefulTransport(verify=_tls(), trust_env=False, limits=limits),
        follow_redirects=False,
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        timeout=httpx.Timeout(30, connect=5, pool=5),
    )


@cache
def _tls() -> ssl.SSLContext:
    """One for all: reading the certificates takes longer than the rest of a start."""
    return httpx.create_ssl_context(trust_env=False)


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
