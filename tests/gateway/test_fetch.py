"""The fetch of public pages, against an internet made up of tables. Nothing here dials an address."""

import asyncio
import gzip
import json
import socket
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from gateway.addresses import parsed_network
from gateway.errors import GatewayError
from gateway.fetch import PAGE_BYTES, Fetcher, checked_url, system_resolve
from gateway.page import Page

VECTORS = Path(__file__).parents[1] / "vectors"
SSRF_URLS: list[str] = json.loads((VECTORS / "ssrf-urls.json").read_text(encoding="utf-8"))
# Odd, but the address is public and the path is the server's business.
FINE_URLS = {"https://8.8.8.8/a;b", "https://8.8.8.8/%2e%2e/"}
PUBLIC, OTHER_PUBLIC, PUBLIC_V6 = "93.184.216.34", "151.101.1.69", "2606:2800:220:1::1"
NAMES = {
    "example.com": [PUBLIC],
    "other.example": [OTHER_PUBLIC],
    "v6.example": [PUBLIC_V6],
    "xn--mnchen-3ya.example": [PUBLIC],
    "inside.example": ["10.0.0.5"],
    "metadata.example": ["169.254.169.254"],
    "localhost": ["127.0.0.1", "::1"],
    "localhost.": ["127.0.0.1"],
}

Answer = Callable[[httpx.Request], httpx.Response]


@dataclass
class Internet:
    """Names that resolve, servers that answer, and a record of every connection made."""

    answers: dict[str, Answer] = field(default_factory=dict)
    names: dict[str, Sequence[str]] = field(default_factory=lambda: dict(NAMES))
    looked_up: list[str] = field(default_factory=list)
    requests: list[httpx.Request] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.looked_up.append(host)
        if host in self.names:
            return self.names[host]
        # Only numbers are left: read as the system reads them (0x7f.1 and the like), without a network.
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        return [str(entry[4][0]) for entry in entries]

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        asked = f"{request.url.scheme}://{request.headers['host']}{request.url.raw_path.decode()}"
        found = self.answers.get(asked)
        return page("found")(request) if found is None else found(request)

    @property
    def connected(self) -> list[str]:
        return [request.url.host for request in self.requests]

    def fetcher(self, **options: object) -> Fetcher:
        return Fetcher(resolve=self.resolve, transport=lambda: httpx.MockTransport(self.answer), **options)  # type: ignore[arg-type]  # options of one test each

    async def fetch(self, url: str) -> Page:
        return await self.fetcher()(url)


def page(body: str | bytes, content_type: str | None = "text/plain", **headers: str) -> Answer:
    content = body.encode() if isinstance(body, str) else body
    types = {} if content_type is None else {"content-type": content_type}
    sent = {**types, "content-length": str(len(content)), **headers}
    return lambda _request: httpx.Response(200, headers=sent, content=pieces(content))


async def pieces(body: bytes, size: int = 65_536) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


def streamed(chunks: AsyncIterator[bytes], **headers: str) -> Answer:
    return lambda _request: httpx.Response(200, headers={"content-type": "text/plain", **headers}, content=chunks)


def redirect(location: str | None, status: int = 302) -> Answer:
    headers = [] if location is None else [(b"location", location.encode())]
    return lambda _request: httpx.Response(status, headers=headers)


async def refusal(fetching: object) -> GatewayError:
    assert asyncio.iscoroutine(fetching)
    with pytest.raises(GatewayError) as caught:
        await fetching
    return caught.value


@pytest.fixture
def internet() -> Internet:
    return Internet()


async def test_a_public_page_is_fetched_from_the_address_that_was_checked(internet: Internet) -> None:
    internet.answers["https://example.com/a?b=c"] = page("hello", "Text/Plain; charset=Latin-1")

    assert await internet.fetch("https://example.com/a?b=c#part") == Page(
        "https://example.com/a?b=c#part", "text/plain", b"hello", "latin-1"
    )
    assert internet.connected == [PUBLIC]
    assert internet.looked_up == ["example.com"]


async def test_a_request_says_and_verifies_the_name_and_carries_nothing_of_ours(internet: Internet) -> None:
    await internet.fetch("https://example.com/")

    (request,) = internet.requests
    assert dict(request.headers) == {
        "host": "example.com",
        "user-agent": "brains-gateway",
        "accept": "text/html, text/markdown, text/plain, application/json, application/pdf",
        "accept-encoding": "identity",
    }
    assert request.extensions["sni_hostname"] == "example.com"


async def test_an_ipv6_address_is_connected_to_as_such(internet: Internet) -> None:
    await internet.fetch("http://v6.example/")
    assert internet.connected == [PUBLIC_V6]
    assert internet.requests[0].headers["host"] == "v6.example"


async def test_an_international_name_is_fetched_in_its_encoded_form(internet: Internet) -> None:
    await internet.fetch("https://xn--mnchen-3ya.example/")
    assert internet.connected == [PUBLIC]


@pytest.mark.parametrize("url", SSRF_URLS, ids=ascii)
async def test_no_url_leads_to_an_address_that_is_not_public(internet: Internet, url: str) -> None:
    if url in FINE_URLS:
        assert (await internet.fetch(url)).body == b"found"
    else:
        error = await refusal(internet.fetch(url))
        # A number with a dot behind it is a name, and that name does not exist.
        assert error.code == ("fetch_failed" if url == "https://127.0.0.1./" else "fetch_blocked")
        assert error.message in {"That address may not be fetched.", "The page could not be fetched."}
    assert internet.connected == (["8.8.8.8"] if url in FINE_URLS else [])


@pytest.mark.parametrize("url", SSRF_URLS, ids=ascii)
async def test_no_redirect_leads_to_an_address_that_is_not_public(internet: Internet, url: str) -> None:
    """What has no host of its own is a path of the server that sends it; that is all it can be."""
    internet.answers["https://example.com/"] = redirect(url)

    with suppress(GatewayError):
        await internet.fetch("https://example.com/")
    assert internet.connected[0] == PUBLIC
    assert set(internet.connected[1:]) <= {PUBLIC, "8.8.8.8"}


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "HTTPS://",
        "https://example.com:8443/",
        "https://example.com:80/",
        "http://example.com:443/",
        "https://example.com:0/",
        "https://example.com:-1/",
        "https://example.com:４４３/",
        "https://@example.com/",
        "https://:@example.com/",
        "https://exam ple.com/",
        "https://example.com/a b",
        "https://example.com/a\\b",
        " https://example.com/",
        "https://example.com/\u00a0",
        "https://example.com/\x7f",
        "https://example.com\t/",
        "https://exam\u00adple.com/",
        "https://ｅxample.com/",
        "https://münchen.example/",
        "https://example.com,evil.example/",
        "https://example.com%00.evil.example/",
        "https://[2606:2800:220:1::1%25eth0]/",
        "https://[v1.x]/",
        "https://-example.com/",
        "https://" + "a" * 2040 + ".example/",
        "ws://example.com/",
        "https:example.com",
        "https:/example.com",
    ],
    ids=ascii,
)
async def test_a_url_that_parsers_may_read_differently_is_blocked(internet: Internet, url: str) -> None:
    assert (await refusal(internet.fetch(url))).code == "fetch_blocked"
    assert internet.looked_up == internet.connected == []


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "HTTPS://EXAMPLE.COM/",
        "https://example.com:443/",
        "http://example.com:80/",
        "https://a_b.example/",
    ],
)
def test_a_plain_url_passes(url: str) -> None:
    assert checked_url(url).hostname in {"example.com", "a_b.example"}


def chain(*locations: str | None, status: int = 302) -> dict[str, Answer]:
    """Redirects from https://example.com/ on, each from where the one before led."""
    places = ["https://example.com/", *[location for location in locations[:-1] if location]]
    return {place: redirect(location, status) for place, location in zip(places, locations, strict=True)}


CHAINS: dict[str, tuple[dict[str, Answer], str, list[str]]] = {
    # name: servers, the URL in the end or the code of the refusal, addresses connected to
    "relative": (chain("/b"), "https://example.com/b", [PUBLIC] * 2),
    "relative to a folder": (chain("b/c?d"), "https://example.com/b/c?d", [PUBLIC] * 2),
    "without scheme": (chain("//other.example/x"), "https://other.example/x", [PUBLIC, OTHER_PUBLIC]),
    "to another host": (chain("https://other.example/"), "https://other.example/", [PUBLIC, OTHER_PUBLIC]),
    "fragment dropped": (chain("https://other.example/#top"), "https://other.example/", [PUBLIC, OTHER_PUBLIC]),
    "five times": (
        chain(*[f"https://example.com/{n}" for n in range(1, 6)]),
        "https://example.com/5",
        [PUBLIC] * 6,
    ),
    "six times": (chain(*[f"https://example.com/{n}" for n in range(1, 7)]), "fetch_failed", [PUBLIC] * 6),
    "to itself": ({"https://example.com/": redirect("/")}, "fetch_failed", [PUBLIC] * 6),
    "to and fro": (
        chain("https://other.example/") | {"https://other.example/": redirect("https://example.com/")},
        "fetch_failed",
        [PUBLIC, OTHER_PUBLIC] * 3,
    ),
    "without location": (chain(None), "fetch_blocked", [PUBLIC]),
    "empty location": (chain(""), "fetch_blocked", [PUBLIC]),
    "https to http": (chain("http://example.com/"), "fetch_blocked", [PUBLIC]),
    "to a private name": (chain("https://inside.example/"), "fetch_blocked", [PUBLIC]),
    "to metadata": (chain("https://metadata.example/latest/meta-data/"), "fetch_blocked", [PUBLIC]),
    "to loopback": (chain("https://127.0.0.1/"), "fetch_blocked", [PUBLIC]),
    "to loopback after two hops": (
        chain("https://other.example/", "https://[::1]/"),
        "fetch_blocked",
        [PUBLIC, OTHER_PUBLIC],
    ),
    "to another port": (chain("https://example.com:8443/"), "fetch_blocked", [PUBLIC]),
    "to a file": (chain("file:///etc/passwd"), "fetch_blocked", [PUBLIC]),
    "to gopher": (chain("gopher://example.com/"), "fetch_blocked", [PUBLIC]),
    "with a password": (chain("https://user:pw@other.example/"), "fetch_blocked", [PUBLIC]),
    "with a backslash": (chain("https://other.example\\@127.0.0.1/"), "fetch_blocked", [PUBLIC]),
    "half an IPv6 address": (chain("https://[::1/"), "fetch_failed", [PUBLIC]),
    "an IPv4 address in brackets": (chain("https://[8.8.8.8]/"), "fetch_failed", [PUBLIC]),
    "half a bracket": (chain("https://[@example.com/"), "fetch_blocked", [PUBLIC]),
    "bytes that are no text": (chain("https://\xff\xfe/"), "fetch_blocked", [PUBLIC]),
    "endless": (chain("/" + "a" * 3000), "fetch_blocked", [PUBLIC]),
}


@pytest.mark.parametrize("name", CHAINS)
async def test_every_hop_of_a_redirect_is_checked_as_the_first(internet: Internet, name: str) -> None:
    internet.answers, end, addresses = CHAINS[name]

    try:
        reached = (await internet.fetch("https://example.com/")).url
    except GatewayError as error:
        reached = error.code
    assert (reached, internet.connected) == (end, addresses)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_every_kind_of_redirect_is_followed(internet: Internet, status: int) -> None:
    internet.answers = chain("/moved", status=status)
    assert (await internet.fetch("https://example.com/")).url == "https://example.com/moved"
    assert [request.method for request in internet.requests] == ["GET", "GET"]


async def test_a_scheme_in_capitals_is_no_way_from_https_to_http(internet: Internet) -> None:
    internet.answers = chain("http://example.com/")
    assert (await refusal(internet.fetch("HTTPS://example.com/"))).code == "fetch_blocked"
    assert len(internet.requests) == 1


async def test_http_may_redirect_to_https(internet: Internet) -> None:
    internet.answers["http://example.com/"] = redirect("HTTPS://example.com/")
    assert (await internet.fetch("http://example.com/")).body == b"found"
    assert [request.url.scheme for request in internet.requests] == ["http", "https"]


async def test_a_cookie_of_one_hop_is_not_sent_on_the_next(internet: Internet) -> None:
    internet.answers["https://example.com/"] = lambda _request: httpx.Response(
        302, headers={"location": "/b", "set-cookie": "session=1; Path=/"}
    )
    await internet.fetch("https://example.com/")
    assert len(internet.requests) == 2
    assert not any("cookie" in request.headers for request in internet.requests)


PRIVATE_ANSWERS: dict[str, list[str]] = {
    "private": ["10.0.0.5"],
    "public, then private": [PUBLIC, "10.0.0.5"],
    "private, then public": ["10.0.0.5", PUBLIC],
    "public A, loopback AAAA": [PUBLIC, "::1"],
    "public A, mapped AAAA": [PUBLIC, "::ffff:169.254.169.254"],
    "public AAAA, private A": [PUBLIC_V6, "192.168.1.1"],
    "public AAAA, link-local AAAA": [PUBLIC_V6, "fe80::1%eth0"],
    "last of sixteen": [*[f"93.184.216.{n}" for n in range(15)], "127.0.0.1"],
    "nothing": [],
    "no address": ["not-an-address"],
}


@pytest.mark.parametrize("name", PRIVATE_ANSWERS)
async def test_one_address_that_is_not_public_blocks_the_whole_name(internet: Internet, name: str) -> None:
    internet.names["mixed.example"] = PRIVATE_ANSWERS[name]
    assert (await refusal(internet.fetch("https://mixed.example/"))).code == "fetch_blocked"
    assert internet.connected == []


async def test_a_name_that_changes_its_address_after_the_check_gains_nothing(internet: Internet) -> None:
    answers = iter([[PUBLIC], ["127.0.0.1"]])

    async def resolve(host: str, port: int) -> Sequence[str]:
        internet.looked_up.append(host)
        return next(answers)

    fetch = Fetcher(resolve=resolve, transport=lambda: httpx.MockTransport(internet.answer))
    await fetch("https://rebinding.example/")
    assert internet.looked_up == ["rebinding.example"]
    assert internet.connected == [PUBLIC]


async def test_a_name_that_changes_its_address_between_hops_is_blocked(internet: Internet) -> None:
    answers = iter([[PUBLIC], ["127.0.0.1"]])
    internet.answers["https://rebinding.example/"] = redirect("/again")

    async def resolve(host: str, port: int) -> Sequence[str]:
        return next(answers)

    fetch = Fetcher(resolve=resolve, transport=lambda: httpx.MockTransport(internet.answer))
    assert (await refusal(fetch("https://rebinding.example/"))).code == "fetch_blocked"
    assert internet.connected == [PUBLIC]


@pytest.mark.parametrize("failure", [socket.gaierror(-2, "secret.corp"), UnicodeError("label"), OSError(24, "files")])
async def test_a_name_that_does_not_resolve_is_a_failed_fetch(internet: Internet, failure: Exception) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise failure

    error = await refusal(Fetcher(resolve=resolve)("https://example.com/"))
    assert (error.code, error.retryable, error.message) == ("fetch_failed", True, "The page could not be fetched.")


async def test_a_slow_name_ends_with_the_clock(internet: Internet) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    assert (await refusal(Fetcher(resolve=resolve, wall_seconds=0.05)("https://example.com/"))).code == "fetch_failed"


async def test_an_intranet_range_can_be_opened_on_purpose(internet: Internet) -> None:
    fetch = internet.fetcher(allowed=(parsed_network("10.0.0.0/8"),))
    assert (await fetch("https://inside.example/")).body == b"found"
    assert (await refusal(fetch("https://127.0.0.1/"))).code == "fetch_blocked"
    assert (await refusal(fetch("https://inside.example:8080/"))).code == "fetch_blocked"
    assert internet.connected == ["10.0.0.5"]


async def test_numbers_resolve_without_asking_anyone() -> None:
    assert await system_resolve("127.0.0.1", 80) == ["127.0.0.1"]
    assert (await refusal(Fetcher()("http://127.1/"))).code == "fetch_blocked"


async def test_a_page_of_exactly_the_limit_is_taken(internet: Internet) -> None:
    internet.answers["https://example.com/"] = page(b"x" * PAGE_BYTES)
    assert len((await internet.fetch("https://example.com/")).body) == PAGE_BYTES == 5 * 1024 * 1024


async def endless(chunk: bytes) -> AsyncIterator[bytes]:
    while True:
        yield chunk


def bomb(wbits: int) -> bytes:
    squeeze = zlib.compressobj(9, wbits=wbits)
    return b"".join([*(squeeze.compress(bytes(1024 * 1024)) for _ in range(64)), squeeze.flush()])


TOO_LARGE: dict[str, Callable[[], Answer]] = {
    "one byte more": lambda: page(b"x" * (PAGE_BYTES + 1)),
    "one byte more, length not said": lambda: streamed(pieces(b"x" * (PAGE_BYTES + 1))),
    "a length that lies low": lambda: streamed(pieces(b"x" * (PAGE_BYTES + 1)), **{"content-length": "10"}),
    "a length that says so": lambda: streamed(endless(b""), **{"content-length": str(PAGE_BYTES + 1)}),
    "a length past all numbers": lambda: streamed(endless(b""), **{"content-length": "9" * 5000}),
    "no end": lambda: streamed(endless(b"x" * 1024)),
    "gzip bomb": lambda: streamed(pieces(bomb(31)), **{"content-encoding": "gzip"}),
    "deflate bomb": lambda: streamed(pieces(bomb(15)), **{"content-encoding": "deflate"}),
    "gzip, then anything": lambda: streamed(gzip_and_more(), **{"content-encoding": "gzip"}),
}


async def gzip_and_more() -> AsyncIterator[bytes]:
    yield gzip.compress(b"short")
    async for chunk in endless(b"x" * 65_536):
        yield chunk


@pytest.mark.parametrize("name", TOO_LARGE)
async def test_a_page_over_the_limit_is_refused_before_it_fills_memory(internet: Internet, name: str) -> None:
    internet.answers["https://example.com/"] = TOO_LARGE[name]()

    tracemalloc.start()
    try:
        error = await refusal(internet.fetch("https://example.com/"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (error.code, error.retryable) == ("fetch_failed", False)
    assert error.message == "The page is larger than 5 MiB."
    assert peak < 32 * 1024 * 1024


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "GZIP "])
async def test_a_page_that_comes_squeezed_all_the_same_is_read(internet: Internet, encoding: str) -> None:
    squeezed = gzip.compress(b"hello " * 1000)
    internet.answers["https://example.com/"] = streamed(pieces(squeezed, 7), **{"content-encoding": encoding})
    assert (await internet.fetch("https://example.com/")).body == b"hello " * 1000


BROKEN: dict[str, Callable[[], Answer]] = {
    "cut gzip": lambda: page(gzip.compress(b"hello" * 1000)[:-20], **{"content-encoding": "gzip"}),
    "no gzip": lambda: page("plain", **{"content-encoding": "gzip"}),
    "brotli": lambda: page("plain", **{"content-encoding": "br"}),
    "zstd": lambda: page("plain", **{"content-encoding": "zstd"}),
    "twice squeezed": lambda: page(gzip.compress(gzip.compress(b"x")), **{"content-encoding": "gzip, gzip"}),
    "image": lambda: page(b"\x89PNG", "image/png"),
    "svg": lambda: page("<svg/>", "image/svg+xml"),
    "archive": lambda: page(b"PK", "application/zip"),
    "script": lambda: page("alert(1)", "text/javascript"),
    "no media type": lambda: page("x", "nonsense"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_page_that_cannot_be_read_is_a_failed_fetch(internet: Internet, name: str) -> None:
    internet.answers["https://example.com/"] = BROKEN[name]()
    assert (await refusal(internet.fetch("https://example.com/"))).code == "fetch_failed"


async def test_a_page_without_a_type_is_text(internet: Internet) -> None:
    internet.answers["https://example.com/"] = page("hello", None)
    assert (await internet.fetch("https://example.com/")).content_type == "text/plain"


@pytest.mark.parametrize("length", ["", "abc", "-1", "5, 5", "1e9"])
async def test_a_length_that_is_no_number_is_ignored(internet: Internet, length: str) -> None:
    internet.answers["https://example.com/"] = streamed(pieces(b"hello"), **{"content-length": length})
    assert (await internet.fetch("https://example.com/")).body == b"hello"


@pytest.mark.parametrize(
    ("status", "worth_another_try"),
    [
        *[(status, False) for status in (204, 206, 304, 400, 401, 403, 404, 410, 451, 501)],
        *[(status, True) for status in (408, 425, 429, 500, 502, 503, 504)],
    ],
)
async def test_any_status_but_ok_is_a_failed_fetch(internet: Internet, status: int, worth_another_try: bool) -> None:
    internet.answers["https://example.com/"] = lambda _request: httpx.Response(status, text="secret words")
    error = await refusal(internet.fetch("https://example.com/"))
    assert (error.code, error.retryable) == ("fetch_failed", worth_another_try)
    assert "secret" not in error.message


@pytest.mark.parametrize(
    "failure",
    [httpx.ConnectError("to 93.184.216.34"), httpx.ReadTimeout("x"), httpx.RemoteProtocolError("x"), OSError("x")],
    ids=lambda failure: type(failure).__name__,
)
async def test_a_connection_that_fails_is_a_failed_fetch_without_details(
    internet: Internet, failure: Exception
) -> None:
    def fail(_request: httpx.Request) -> httpx.Response:
        raise failure

    internet.answers["https://example.com/"] = fail
    error = await refusal(internet.fetch("https://example.com/"))
    assert (error.code, error.message) == ("fetch_failed", "The page could not be fetched.")


async def test_a_page_that_drips_ends_with_the_clock(internet: Internet) -> None:
    async def drip() -> AsyncIterator[bytes]:
        yield b"a"
        await asyncio.Event().wait()

    internet.answers["https://example.com/"] = streamed(drip())
    error = await refusal(internet.fetcher(wall_seconds=0.05)("https://example.com/"))
    assert (error.code, error.retryable) == ("fetch_failed", True)
