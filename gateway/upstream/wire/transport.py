"""The HTTP client of a platform, and the one line that says what carries its requests."""

from typing import Any

import httpx


def pooled_client(transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """A client that carries nothing from one caller to the next: no cookies, no default credentials."""
    return _Straight(transport or _WhenUsed())


class _Straight(httpx.AsyncClient):
    """Hands a request to the transport, and its answer back.

    What httpx does in between is not wanted here: cookies are kept, redirects followed, credentials taken out of URLs.
    It takes longer than the request itself.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        super().__init__(transport=transport, trust_env=False, timeout=httpx.Timeout(30, connect=5, pool=5))
        self._straight = transport

    async def send(self, request: httpx.Request, *, stream: bool = False, **_: Any) -> httpx.Response:
        if "timeout" not in request.extensions:
            request.extensions["timeout"] = self.timeout.as_dict()
        response = await self._straight.handle_async_request(request)
        response.request = request
        if not stream:
            try:
                await response.aread()
            finally:
                await response.aclose()
        return response


class _WhenUsed(httpx.AsyncBaseTransport):
    """aiohttp, imported with the first request: for tools/list alone it is not needed."""

    def __init__(self) -> None:
        self._transport: httpx.AsyncBaseTransport | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._transport is None:
            from gateway.upstream.wire.connections import AiohttpTransport

            self._transport = AiohttpTransport()
        return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()
