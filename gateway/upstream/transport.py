"""The HTTP client of a platform, and the one line that says what carries its requests."""

from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx


def pooled_client(transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """A client that carries nothing from one caller to the next: no cookies, no default credentials."""
    return httpx.AsyncClient(
        transport=transport or _WhenUsed(),
        follow_redirects=False,
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        timeout=httpx.Timeout(30, connect=5, pool=5),
    )


class _WhenUsed(httpx.AsyncBaseTransport):
    """aiohttp, imported with the first request: for tools/list alone it is not needed."""

    def __init__(self) -> None:
        self._transport: httpx.AsyncBaseTransport | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._transport is None:
            from gateway.upstream.connections import AiohttpTransport

            self._transport = AiohttpTransport()
        return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()
