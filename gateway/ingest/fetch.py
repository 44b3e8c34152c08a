"""Fetching a page for a caller who must not reach anything but the public internet."""

import asyncio
import re
import socket
import ssl
import zlib
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import IPv4Address, ip_address
from itertools import chain, zip_longest
from threading import BoundedSemaphore
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

import httpx

from gateway.ingest.addresses import Network, is_public
from gateway.ingest.cross_loop_semaphore import CrossLoopSemaphore
from gateway.ingest.web_page import Page
from gateway.operations.errors import GatewayError

PAGE_BYTES: Final = 5 * 1024 * 1024
_WALL_SECONDS: Final = 20.0
_RESOLVE_SECONDS: Final = 3.0
# Short enough that every address can be tried within the time of the fetch.
_TIMEOUT: Final = httpx.Timeout(5.0, connect=3.0)
_ADDRESSES_TRIED: Final = 4
_REDIRECTS: Final = 5
_URL_LENGTH: Final = 2048
_PORTS: Final = {"http": 80, "https": 443}
_REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
_PASSING_STATUSES: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?\.?|[0-9a-f.]*:[0-9a-f:.]*")
# Hosts that URL parsers take for an IPv4 address, in all the ways to write one.
_NUMBER: Final = re.compile(r"(.*\.)?([0-9]+|0x[0-9a-f]*)\.?")
# Names that always mean the machine itself or a cloud's metadata, wherever they are looked up.
_INNER_NAME: Final = re.compile(r"((.*\.)?localhost|metadata(\.google\.internal)?|instance-data(\.ec2\.internal)?)\.?")
_MEDIA_TYPES: Final = frozenset(
    {"text/html", "application/xhtml+xml", "text/plain", "text/markdown", "application/json", "application/pdf"}
)
_HEADERS: Final = {
    "user-agent": "brains-gateway",
    "accept": "text/html, text/markdown, text/plain, application/json, application/pdf",
    "accept-encoding": "identity",
}

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

# Threads of their own for look-ups, which cannot be stopped. There are more of them than one caller can keep busy with
# slow names within the limit of pages a minute, and only fetches wait for them.
_RESOLVERS = ThreadPoolExecutor(64, thread_name_prefix="fetch-dns")
_LOOK_UPS = BoundedSemaphore(64)
# Shared by every fetcher of the process: each fetch may hold 5 MiB and a connection for as long as the clock runs.
_FETCHES = CrossLoopSemaphore(8)


async def system_resolve(host: str, port: int) -> Sequence[str]:
    """The addresses that the system knows for a name.

    Raises:
        GatewayError: fetch_failed, if the look-up itself fails, which must not pass as an unknown name.
        OSError: there are none.
    """
    look_ups = _LOOK_UPS
    if not look_ups.acquire(blocking=False):
        raise GatewayError("fetch_failed", "Too many names are being looked up at the moment.")
    looking = _RESOLVERS.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    # Freed when the thread ends, not when the caller stops waiting, which may be long before.
    looking.add_done_callback(lambda _: look_ups.release())
    return [str(entry[4][0]) for entry in await asyncio.wrap_future(looking)]


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

    def public_only(self) -> "Fetcher":
        """The same rules without exceptions for opened ranges, for callers who are not known yet."""
        return Fetcher(resolve=self._resolve, transport=self._transport, wall_seconds=self._wall_seconds)

    async def __call__(self, url: str) -> Page:
        """The page at a URL, redirects followed, each hop checked as the first.

        Raises:
            GatewayError: fetch_blocked or fetch_failed; neither says what was found on the way.
        """
        try:
            # The wait for a slot counts too, so that a caller is told in time if there is none.
            async with asyncio.timeout(self._wall_seconds), _FETCHES.one():
                return await self._follow(url)
        except (TimeoutError, OSError, ValueError, LookupError) as error:
            raise GatewayError("fetch_failed") from error
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, zlib.error) as error:
            raise GatewayError("fetch_failed") from error

    async def vet(self, url: str) -> None:
        """Refuse a URL that must not be handed to a platform which would fetch it itself.

        The rules are those of our own fetch, ports included: the platform may not fetch what we would not fetch.
        A name that we cannot resolve in time passes, because the platform may know it. This keeps honest mistakes
        and plain attempts away; a name may still mean another address to the platform, which has to check again.

        Raises:
            GatewayError: fetch_blocked; fetch_failed if too many look-ups are under way to find out.
        """
        parts = check_url(url)
        try:
            addresses = await self._look_up(parts)
        except (TimeoutError, OSError, UnicodeError):
            return
        self._require_public(addresses)

    async def _follow(self, url: str) -> Page:
        seen: set[str] = set()
        while url not in seen and len(seen) <= _REDIRECTS:
            seen.add(url)
            found = await self._hop(url)
            if isinstance(found, Page):
                return found
            url = _next_url(url, found)
        raise GatewayError("fetch_failed", "The page redirects too often.", retryable=False)

    async def _hop(self, url: str) -> Page | str:
        """One request: the page, or where it redirects to."""
        parts = check_url(url)
        addresses = await self._look_up(parts)
        if not addresses:
            raise GatewayError("fetch_blocked")
        self._require_public(addresses)
        async with self._transport() as transport:
            response = await _first_answer(transport, parts, addresses)
            try:
                if response.status_code in _REDIRECT_STATUSES:
                    return str(response.headers.get("location", ""))
                if response.status_code != 200:
                    # A missing page stays missing. Only after an error of the server is another try useful.
                    raise GatewayError("fetch_failed", retryable=response.status_code in _PASSING_STATUSES)
                return await _read(url, response)
            finally:
                await response.aclose()

    async def _look_up(self, parts: SplitResult) -> Sequence[str]:
        """The addresses of a URL's host, looked up once: the connection is made to an address that was checked."""
        host = str(parts.hostname)
        with suppress(ValueError):
            return [str(ip_address(host))]
        async with asyncio.timeout(min(_RESOLVE_SECONDS, self._wall_seconds)):
            return tuple(await self._resolve(host, parts.port or _PORTS[parts.scheme]))

    def _require_public(self, addresses: Sequence[str]) -> None:
        """Whether all addresses are allowed, because any of them may be used for the connection."""
        if not all(is_public(address, self._allowed) for address in addresses):
            raise GatewayError("fetch_blocked")


def check_url(url: str) -> SplitResult:
    """A URL that two parsers read in the same way, and that has only scheme, host and path.

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
    # With the raw host, because the other one is decoded, so an xn-- name would never be equal.
    if not _is_plain_host(parts.hostname or "") or other.raw_host.lower() != str(parts.hostname).encode():
        raise blocked
    return parts


def _is_plain_host(host: str) -> bool:
    """A name, or an address in its one usual form: 127.1 is a name to one resolver and loopback to another."""
    if not _HOST.fullmatch(host) or _INNER_NAME.fullmatch(host):
        return False
    if ":" in host or not _NUMBER.fullmatch(host):
        return True
    try:
        return str(IPv4Address(host)) == host
    except ValueError:
        return False


async def _first_answer(
    transport: httpx.AsyncBaseTransport, parts: SplitResult, addresses: Sequence[str]
) -> httpx.Response:
    """The answer of the first address that can be connected to. All were checked; nothing is looked up again.

    Uses the transport directly: a client would keep cookies, log the URL, and read the Location before we do.
    """
    *others, last = _in_turn(addresses)[:_ADDRESSES_TRIED]
    for address in others:
        # Only after these errors it is certain that no request was sent.
        with suppress(httpx.ConnectError, httpx.ConnectTimeout):
            return await transport.handle_async_request(_pinned_request(parts, address))
    return await transport.handle_async_request(_pinned_request(parts, last))


def _in_turn(addresses: Sequence[str]) -> list[str]:
    """IPv6 and IPv4 in turns, in their order, so that the other kind is tried soon if one of them does not work."""
    first_is_v6 = ":" in addresses[0]
    same = [address for address in addresses if (":" in address) is first_is_v6]
    other = [address for address in addresses if (":" in address) is not first_is_v6]
    return [address for address in dict.fromkeys(chain(*zip_longest(same, other))) if address is not None]


def _pinned_request(parts: SplitResult, address: str) -> httpx.Request:
    """A request that connects to the checked address and still says, and verifies, the host's name."""
    host = str(parts.hostname)
    target = f"{parts.scheme}://{_in_url(address)}{parts.path or '/'}" + (f"?{parts.query}" if parts.query else "")
    extensions = {"sni_hostname": host, "timeout": _TIMEOUT.as_dict()}
    return httpx.Request("GET", target, headers={**_HEADERS, "host": _in_url(host)}, extensions=extensions)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


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
    if content_type not in _MEDIA_TYPES and not content_type.endswith("+json"):
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
    """We ask for plain bytes. If a server sends gzip all the same, the body is unpacked no further than the cap."""
    if encoding in {"", "identity"}:
        return None
    if encoding not in {"gzip", "x-gzip", "deflate"}:
        raise GatewayError("fetch_failed", retryable=False)
    return zlib.decompressobj(wbits=47)


def _too_large() -> GatewayError:
    return GatewayError("fetch_failed", "The page is larger than 5 MiB.", retryable=False)


def _tls_transport() -> httpx.AsyncBaseTransport:
    return httpx.AsyncHTTPTransport(verify=ssl.create_default_context(), trust_env=False, retries=0)
