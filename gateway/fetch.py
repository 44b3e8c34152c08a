"""Fetching a page for a caller who must not reach anything but the public internet."""

import asyncio
import re
import socket
import ssl
import zlib
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

import httpx

from gateway.addresses import Network, is_public
from gateway.errors import GatewayError
from gateway.page import Page

PAGE_BYTES: Final = 5 * 1024 * 1024
_WALL_SECONDS: Final = 20.0
_RESOLVE_SECONDS: Final = 3.0
_REDIRECTS: Final = 5
_URL_LENGTH: Final = 2048
_PORTS: Final = {"http": 80, "https": 443}
_REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
_PASSING_STATUSES: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?\.?|[0-9a-f:.]+")
_MEDIA_TYPES: Final = frozenset(
    {"text/html", "application/xhtml+xml", "text/plain", "text/markdown", "application/json", "application/pdf"}
)
_HEADERS: Final = {
    "user-agent": "brains-gateway",
    "accept": "text/html, text/markdown, text/plain, application/json, application/pdf",
    "accept-encoding": "identity",
}

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

# Its own few threads: a caller with slow names must not hold up everyone else's look-ups.
_RESOLVERS = ThreadPoolExecutor(4, thread_name_prefix="fetch-dns")


async def system_resolve(host: str, port: int) -> Sequence[str]:
    def look_up() -> list[str]:
        return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]

    return await asyncio.get_running_loop().run_in_executor(_RESOLVERS, look_up)


class Fetcher:
    """Fetches public pages: every address is checked, and the checked address is the one connected to."""

    def __init__(
        self,
        *,
        allowed: Sequence[Network] = (),
        resolve: Resolve = system_resolve,
        transport: Callable[[], httpx.AsyncBaseTransport] | None = None,
        wall_seconds: float = _WALL_SECONDS,
    ) -> None:
        self._allowed = tuple(allowed)
        self._resolve = resolve
        self._transport = transport or _tls_transport
        self._wall_seconds = wall_seconds

    async def __call__(self, url: str) -> Page:
        """The page at a URL, redirects followed, each hop checked as the first.

        Raises:
            GatewayError: fetch_blocked or fetch_failed; neither says what was found on the way.
        """
        try:
            async with asyncio.timeout(self._wall_seconds):
                for _ in range(_REDIRECTS + 1):
                    found = await self._hop(url)
                    if isinstance(found, Page):
                        return found
                    url = _next_url(url, found)
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, zlib.error, OSError, UnicodeError) as error:
            raise GatewayError("fetch_failed") from error
        raise GatewayError("fetch_failed", "The page redirects too often.", retryable=False)

    async def _hop(self, url: str) -> Page | str:
        """One request: the page, or where it redirects to."""
        parts = checked_url(url)
        host, port = str(parts.hostname), parts.port or _PORTS[parts.scheme]
        async with asyncio.timeout(_RESOLVE_SECONDS):
            addresses = await self._resolve(host, port)
        if not addresses or not all(is_public(address, self._allowed) for address in addresses):
            raise GatewayError("fetch_blocked")
        request = _pinned_request(parts, host, addresses[0])
        async with httpx.AsyncClient(transport=self._transport(), trust_env=False) as http:
            response = await http.send(request, stream=True, follow_redirects=False)
            try:
                if response.status_code in _REDIRECT_STATUSES:
                    return str(response.headers.get("location", ""))
                if response.status_code != 200:
                    # A page that is gone stays gone; only a server in trouble is worth another try.
                    raise GatewayError("fetch_failed", retryable=response.status_code in _PASSING_STATUSES)
                return await _read(url, response)
            finally:
                await response.aclose()


def checked_url(url: str) -> SplitResult:
    """A URL that two parsers read alike, with nothing in it but scheme, host and path.

    Raises:
        GatewayError: fetch_blocked.
    """
    blocked = GatewayError("fetch_blocked")
    # Before parsing: parsers drop some of these silently.
    if len(url) > _URL_LENGTH or "\\" in url or any(c <= " " or "\x7f" <= c <= "\xa0" for c in url):
        raise blocked
    try:
        parts, other = urlsplit(url), httpx.URL(url)
        port = parts.port
    except (ValueError, httpx.InvalidURL, UnicodeError):
        raise blocked from None
    if parts.scheme not in _PORTS or parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise blocked
    if port is not None and port != _PORTS[parts.scheme]:
        raise blocked
    # By its raw host: the other one is decoded, so that no xn-- name would ever be the same.
    if not parts.hostname or not _HOST.fullmatch(parts.hostname) or other.raw_host.lower() != parts.hostname.encode():
        raise blocked
    return parts


def _pinned_request(parts: SplitResult, host: str, address: str) -> httpx.Request:
    """A request that connects to the checked address and still says, and verifies, the host's name."""
    literal = f"[{address}]" if ":" in address else address
    target = f"{parts.scheme}://{literal}{parts.path or '/'}" + (f"?{parts.query}" if parts.query else "")
    return httpx.Request("GET", target, headers={**_HEADERS, "host": parts.netloc}, extensions={"sni_hostname": host})


def _next_url(url: str, location: str) -> str:
    """Where a redirect leads; never from https to something else.

    Raises:
        GatewayError: fetch_blocked.
    """
    try:
        target = urljoin(url, location) if location else ""
    except ValueError:
        target = ""
    if not target or (_is_https(url) and not _is_https(target)):
        raise GatewayError("fetch_blocked")
    return target.partition("#")[0]


def _is_https(url: str) -> bool:
    return url[:6].lower() == "https:"


async def _read(url: str, response: httpx.Response) -> Page:
    content_type = response.headers.get("content-type", "text/plain").partition(";")[0].strip().lower()
    if content_type not in _MEDIA_TYPES:
        raise GatewayError("fetch_failed", "The page is not text and not a PDF.", retryable=False)
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > PAGE_BYTES:
        raise _too_large()
    inflater = _inflater(response.headers.get("content-encoding", "identity").strip().lower())
    body, received = bytearray(), 0
    async for chunk in response.aiter_raw():
        received += len(chunk)
        body += chunk if inflater is None else inflater.decompress(chunk, PAGE_BYTES + 1 - len(body))
        if max(received, len(body)) > PAGE_BYTES:
            raise _too_large()
    if inflater is not None and not inflater.eof:
        raise GatewayError("fetch_failed")
    return Page(url, content_type, bytes(body), response.charset_encoding)


def _inflater(encoding: str) -> "zlib._Decompress | None":
    """We ask for plain bytes; a server that sends gzip all the same is inflated no further than the cap."""
    if encoding in {"", "identity"}:
        return None
    if encoding not in {"gzip", "x-gzip", "deflate"}:
        raise GatewayError("fetch_failed", retryable=False)
    return zlib.decompressobj(wbits=47)


def _too_large() -> GatewayError:
    return GatewayError("fetch_failed", "The page is larger than 5 MiB.", retryable=False)


def _tls_transport() -> httpx.AsyncBaseTransport:
    return httpx.AsyncHTTPTransport(verify=ssl.create_default_context(), trust_env=False, retries=0)
