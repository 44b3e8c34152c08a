"""The web as tests have it: whatever a page's host is called, one server on loopback has the page.

TEST_PAGES=http://127.0.0.1:1234 python -m tests.web stdio     a gateway for which that is the web
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import httpx

from gateway.ingest.fetch import Fetcher, system_resolve

_FETCHER = "gateway.app.gateway.Fetcher"
_PUBLIC = "93.184.216.34"
# The last is where a client that is tested has its document.
_PUBLIC_NAMES = ("example.com", ".example", "claude.ai")


class _OneServer(httpx.AsyncBaseTransport):
    """Sends every request to one server, which sees the path alone."""

    def __init__(self, url: str) -> None:
        self._server, self._inner = httpx.URL(url), httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        there = request.url.copy_with(scheme="http", host=self._server.host, port=self._server.port)
        extensions = {"timeout": request.extensions["timeout"]}
        return await self._inner.handle_async_request(
            httpx.Request(request.method, there, headers=request.headers, extensions=extensions)
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


def fetcher_of(url: str) -> Callable[..., Fetcher]:
    """What stands in for `Fetcher`: some names are public, and all pages are on this server."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return [_PUBLIC] if host.endswith(_PUBLIC_NAMES) else await system_resolve(host, port)

    def made(**options: Any) -> Fetcher:
        return Fetcher(resolve=resolve, transport=lambda: _OneServer(url), **options)

    return made


@contextmanager
def web_on(url: str) -> Iterator[None]:
    """Gateways that are made within fetch their pages from this server."""
    with patch(_FETCHER, fetcher_of(url)):
        yield


if __name__ == "__main__":
    os.environ.setdefault("FASTMCP_LOG_ENABLED", "false")
    os.environ.setdefault("FASTMCP_CHECK_FOR_UPDATES", "off")
    with web_on(os.environ["TEST_PAGES"]):
        from gateway.cli.main import main

        main()
