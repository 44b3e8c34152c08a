"""The fetch of public pages, against an internet made up of tables. Nothing here dials an address."""

import asyncio
import gzip
import socket
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Sequence

import httpx
import pytest

from gateway.ingest.addresses import parse_network
from gateway.ingest.fetch import PAGE_BYTES, Fetcher, check_url, system_resolve
from gateway.ingest.web_page import Page
from tests.gateway.ingest.internet import (
    FINE_URLS,
    PUBLIC,
    PUBLIC_V6,
    SSRF_URLS,
    Answer,
    Internet,
    page,
    pieces,
    refusal,
    streamed,
)

pytestmark = pytest.mark.usefixtures("dialled")


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
        assert (error.code, error.message) == ("fetch_blocked", "That address may not be fetched.")
    assert internet.connected == (["8.8.8.8"] if url in FINE_URLS else [])


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
        "https://[2606:2800:220:1::1]evil.example/",
        "https://127.1/",
        "https://8.8.8.8./",
        "https://8.8.2056/",
        "https://010.8.8.8/",
        "https://example.0x8/",
        "https://example.com.1/",
        "https://localhost/",
        "https://a.localhost./",
        "https://metadata/",
        "http://metadata.google.internal/computeMetadata/v1/",
        "http://instance-data.ec2.internal./latest/",
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
        "https://notlocalhost/",
        "https://localhost.example/",
        "https://metadata.example/",
        "https://1.example/",
        "https://0x7f.example/",
        "https://8.8.8.8/",
        "https://[2606:2800:220:1::1]/",
    ],
)
def test_a_plain_url_passes(url: str) -> None:
    assert check_url(url).geturl().lower() == url.lower()


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
    fetch = internet.fetcher(allowed=(parse_network("10.0.0.0/8"),))
    assert (await fetch("https://inside.example/")).body == b"found"
    assert (await refusal(fetch("https://127.0.0.1/"))).code == "fetch_blocked"
    assert (await refusal(fetch("https://inside.example:8080/"))).code == "fetch_blocked"
    assert internet.connected == ["10.0.0.5"]


async def test_some_addresses_stay_closed_whatever_is_opened(internet: Internet) -> None:
    fetch = internet.fetcher(allowed=(parse_network("0.0.0.0/0"), parse_network("::/0")))
    for url in (
        "https://metadata.example/",
        "https://loopback.example/",
        "https://[::1]/",
        "https://[::ffff:8.8.8.8]/",
    ):
        assert (await refusal(fetch(url))).code == "fetch_blocked"
    assert internet.connected == []


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
@pytest.mark.not_quick
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


async def test_no_more_than_eight_pages_are_fetched_at_once(internet: Internet) -> None:
    release, arrived = asyncio.Event(), asyncio.Event()

    async def held() -> AsyncIterator[bytes]:
        if len(internet.requests) == 8:
            arrived.set()
        await release.wait()
        yield b"hello"

    internet.answers["https://example.com/"] = lambda request: streamed(held())(request)
    # By two fetchers: the bound is the process's.
    fetchers = [internet.fetcher(), internet.fetcher()]
    fetches = [asyncio.ensure_future(fetchers[n % 2]("https://example.com/")) for n in range(20)]
    await arrived.wait()

    error = await refusal(internet.fetcher(wall_seconds=0.05)("https://other.example/"))
    assert (error.code, error.retryable, error.message) == ("fetch_failed", True, "The page could not be fetched.")
    assert "other.example" not in internet.looked_up
    assert len(internet.requests) == 8

    release.set()
    assert [found.body for found in await asyncio.gather(*fetches)] == [b"hello"] * 20


async def test_a_fetch_that_fails_or_is_left_leaves_its_place_to_others(internet: Internet) -> None:
    async def held() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    for _ in range(10):
        await refusal(internet.fetch("https://inside.example/"))
        internet.answers["https://example.com/"] = streamed(held())
        fetching = asyncio.ensure_future(internet.fetch("https://example.com/"))
        await asyncio.sleep(0)
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
    assert (await internet.fetcher(wall_seconds=5)("https://other.example/")).body == b"found"


def secretly(status: int) -> Answer:
    headers = {"location": "https://inside.example/secret", "server": "secret", "content-type": "secret/secret"}
    return lambda _request: httpx.Response(status, headers=headers, content=pieces(b"secret"))


@pytest.mark.parametrize("name", ["example.com", "inside.example", "metadata.example", "gone.example", "down.example"])
@pytest.mark.parametrize("status", [200, 204, 302, 307, 401, 404, 418, 500, 503])
async def test_no_error_says_what_was_found(internet: Internet, name: str, status: int) -> None:
    internet.names["down.example"] = ["93.184.216.99"]
    internet.down = {"93.184.216.99"}
    internet.answers["https://example.com/"] = secretly(status)

    error = await refusal(internet.fetch(f"https://{name}/"))
    assert error.code in {"fetch_blocked", "fetch_failed"}
    assert error.extra == {}
    assert error.retry_after_seconds is None
    said = error.message + str(error)
    assert not any(found in said for found in ("secret", "example", "10.", "93.", "169.", str(status)))


@pytest.mark.parametrize("failure", [ValueError("x"), LookupError("x"), httpx.StreamConsumed(), zlib.error("x")])
async def test_an_error_nobody_thought_of_is_a_failed_fetch(internet: Internet, failure: Exception) -> None:
    def fail(_request: httpx.Request) -> httpx.Response:
        raise failure

    internet.answers["https://example.com/"] = fail
    assert (await refusal(internet.fetch("https://example.com/"))).code == "fetch_failed"


async def test_a_page_that_drips_ends_with_the_clock(internet: Internet) -> None:
    async def drip() -> AsyncIterator[bytes]:
        yield b"a"
        await asyncio.Event().wait()

    internet.answers["https://example.com/"] = streamed(drip())
    error = await refusal(internet.fetcher(wall_seconds=0.05)("https://example.com/"))
    assert (error.code, error.retryable) == ("fetch_failed", True)
