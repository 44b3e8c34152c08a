"""The HTTP client of a platform, and the choice of its transport."""

from typing import Any

import httpx


def pooled_client(transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """A client that carries nothing from one caller to the next: no cookies, no default credentials.

    Without a transport it goes over connections of aiohttp.
    """
    return _Client(transport)


class _Client(httpx.AsyncClient):
    """Hands a request to the transport, and its answer back.

    httpx would keep cookies, follow redirects and take credentials from URLs in between. We do not want that, and it
    takes longer than the request itself.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport | None) -> None:
        unused = httpx.AsyncBaseTransport()
        timeout = httpx.Timeout(30, connect=5, pool=5)
        super().__init__(transport=transport or unused, trust_env=False, timeout=timeout)
        self._carrier = transport

    async def send(self, request: httpx.Request, *, stream: bool = False, **_: Any) -> httpx.Response:
        if "timeout" not in request.extensions:
            request.extensions["timeout"] = self.timeout.as_dict()
        if self._carrier is None:
            # Imported with the first request: for tools/list alone it is not needed.
            from gateway.upstream.wire.connections import AiohttpTransport

            self._carrier = AiohttpTransport()
        response = await self._carrier.handle_async_request(request)
        response.request = request
        if not stream:
            try:
                await response.aread()
            finally:
                await response.aclose()
        return response

    async def aclose(self) -> None:
        await super().aclose()
        if self._carrier is not None:
            await self._carrier.aclose()

    async def __aexit__(self, *error: Any) -> None:
        await super().__aexit__(*error)
        await self.aclose()
