"""Where redirects may lead a fetch: every hop is checked as the first."""

from contextlib import suppress

import httpx
import pytest

from gateway.operations.errors import GatewayError
from tests.gateway.ingest.internet import (
    OTHER_PUBLIC,
    PUBLIC,
    PUBLIC_V6,
    SSRF_URLS,
    Answer,
    Internet,
    pieces,
    redirect,
    refusal,
)

pytestmark = pytest.mark.usefixtures("dialled")


def chain(*locations: str | None, start: str = "https://example.com/", status: int = 302) -> dict[str, Answer]:
    """Redirects from the start on, each from where the one before led."""
    places = [start, *[location for location in locations[:-1] if location]]
    return {place: redirect(location, status) for place, location in zip(places, locations, strict=True)}


FOLLOWED: dict[str, tuple[dict[str, Answer], str, list[str]]] = {
    # name: servers, the URL in the end, addresses connected to
    "relative": (chain("/b"), "https://example.com/b", [PUBLIC] * 2),
    "relative to a folder": (chain("b/c?d"), "https://example.com/b/c?d", [PUBLIC] * 2),
    "up past the root": (chain("../../b"), "https://example.com/b", [PUBLIC] * 2),
    "a query alone": (chain("?b"), "https://example.com/?b", [PUBLIC] * 2),
    "without scheme": (chain("//other.example/x"), "https://other.example/x", [PUBLIC, OTHER_PUBLIC]),
    "to another host": (chain("https://other.example/"), "https://other.example/", [PUBLIC, OTHER_PUBLIC]),
    "to the usual port": (chain("https://other.example:443/"), "https://other.example:443/", [PUBLIC, OTHER_PUBLIC]),
    "to an address": (chain("https://8.8.8.8/"), "https://8.8.8.8/", [PUBLIC, "8.8.8.8"]),
    "to an IPv6 address": (chain(f"https://[{PUBLIC_V6}]/"), f"https://[{PUBLIC_V6}]/", [PUBLIC, PUBLIC_V6]),
    "to an encoded name": (
        chain("https://xn--mnchen-3ya.example/"),
        "https://xn--mnchen-3ya.example/",
        [PUBLIC, PUBLIC],
    ),
    "scheme in capitals": (chain("hTTpS://other.example/"), "https://other.example/", [PUBLIC, OTHER_PUBLIC]),
    "fragment dropped": (chain("https://other.example/#top"), "https://other.example/", [PUBLIC, OTHER_PUBLIC]),
    "an at sign in the path": (
        chain("https://other.example/@127.0.0.1/"),
        "https://other.example/@127.0.0.1/",
        [PUBLIC, OTHER_PUBLIC],
    ),
    "an address in the query": (
        chain("https://other.example/?u=http://127.0.0.1/"),
        "https://other.example/?u=http://127.0.0.1/",
        [PUBLIC, OTHER_PUBLIC],
    ),
    "five times": (
        chain(*[f"https://example.com/{n}" for n in range(1, 6)]),
        "https://example.com/5",
        [PUBLIC] * 6,
    ),
}


@pytest.mark.parametrize("name", FOLLOWED)
async def test_a_redirect_to_a_public_page_is_followed(internet: Internet, name: str) -> None:
    internet.answers, end, addresses = FOLLOWED[name]
    assert (await internet.fetch("https://example.com/")).url == end
    assert internet.connected == addresses


ENDLESS: dict[str, tuple[dict[str, Answer], list[str]]] = {
    "six times": (chain(*[f"https://example.com/{n}" for n in range(1, 7)]), [PUBLIC] * 6),
    "to itself": (chain("/"), [PUBLIC]),
    "to itself but for a fragment": (chain("/#again"), [PUBLIC]),
    "to and fro": (chain("https://other.example/", "https://example.com/"), [PUBLIC, OTHER_PUBLIC]),
}


@pytest.mark.parametrize("name", ENDLESS)
async def test_a_redirect_without_end_is_given_up(internet: Internet, name: str) -> None:
    internet.answers, addresses = ENDLESS[name]
    error = await refusal(internet.fetch("https://example.com/"))
    assert (error.code, error.retryable, error.message) == ("fetch_failed", False, "The page redirects too often.")
    assert internet.connected == addresses


# Where the last hop of a redirect leads, and may not.
BLOCKED_LOCATIONS: dict[str, str | None] = {
    "no location": None,
    "empty location": "",
    "https to http": "http://example.com/",
    "https to http in capitals": "HTTP://example.com/",
    "a private name": "https://inside.example/",
    "a private name without scheme": "//inside.example/",
    "metadata by a name": "https://metadata.example/latest/meta-data/",
    "metadata by its own name": "https://metadata.google.internal/computeMetadata/v1/",
    "metadata by number": "https://169.254.169.254/latest/meta-data/",
    "loopback by number": "https://127.0.0.1/",
    "loopback without scheme": "//127.0.0.1/",
    "loopback by a name": "https://loopback.example/",
    "loopback by its own name": "https://localhost/",
    "loopback by a name below it": "https://a.localhost./",
    "loopback in short": "https://127.1/",
    "loopback with a dot": "https://127.0.0.1./",
    "loopback in decimal": "https://2130706433/",
    "loopback in octal": "https://0177.0.0.1/",
    "loopback in hexadecimal": "https://0x7f000001/",
    "loopback in wide digits": "https://１２７.0.0.1/",
    "loopback with wide dots": "https://127。0。0。1/",
    "loopback in percents": "https://%31%32%37.0.0.1/",
    "loopback before a fragment": "https://127.0.0.1#@example.com/",
    "loopback after a name": "https://example.com@127.0.0.1/",
    "loopback behind a backslash": "https://other.example\\@127.0.0.1/",
    "IPv6 loopback": "https://[::1]/",
    "IPv6 loopback in full": "https://[0:0:0:0:0:0:0:1]/",
    "IPv6 mapped": "https://[::ffff:127.0.0.1]/",
    "IPv6 mapped, in hexadecimal": "https://[::ffff:a9fe:a9fe]/",
    "IPv6 NAT64": "https://[64:ff9b::a9fe:a9fe]/",
    "IPv6 6to4": "https://[2002:7f00:1::]/",
    "IPv6 ISATAP": "https://[2606:4700::5efe:169.254.169.254]/",
    "IPv6 link-local": "https://[fe80::1]/",
    "IPv6 with an interface": "https://[fe80::1%25eth0]/",
    "IPv6 unique local": "https://[fd00:ec2::254]/",
    "another port": "https://example.com:8443/",
    "the port of http": "https://example.com:80/",
    "port zero": "https://example.com:0/",
    "a password": "https://user:pw@other.example/",
    "an empty user": "https://@other.example/",
    "a name in its own letters": "https://münchen.example/",
    "a file": "file:///etc/passwd",
    "a script": "javascript:alert(1)",
    "a script in capitals": "JaVaScRiPt:alert(1)",
    "data": "data:text/html,x",
    "gopher": "gopher://example.com/",
    "half an IPv6 address": "https://[::1/",
    "an IPv4 address in brackets": "https://[8.8.8.8]/",
    "half a bracket": "https://[@example.com/",
    "bytes that are no text": "https://\xff\xfe/",
    "a line break": "https://other.example/\r\nHost: 127.0.0.1",
    "a tab in the name": "https://127.0\t.0.1/",
    "two locations in one": "https://other.example/, https://127.0.0.1/",
    "too long": "/" + "a" * 3000,
}


@pytest.mark.parametrize("name", BLOCKED_LOCATIONS)
@pytest.mark.parametrize("hops", [1, 3])
async def test_a_redirect_to_anything_else_is_blocked_at_any_hop(internet: Internet, name: str, hops: int) -> None:
    before = ["https://other.example/1", "https://other.example/2"][: hops - 1]
    internet.answers = chain(*before, BLOCKED_LOCATIONS[name])

    error = await refusal(internet.fetch("https://example.com/"))
    assert (error.code, error.message) == ("fetch_blocked", "That address may not be fetched.")
    assert internet.connected == [PUBLIC, OTHER_PUBLIC, OTHER_PUBLIC][:hops]


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("url", SSRF_URLS, ids=ascii)
async def test_no_redirect_leads_to_an_address_that_is_not_public(internet: Internet, url: str, scheme: str) -> None:
    """What has no host of its own is a path of the server that sends it; that is all it can be."""
    internet.answers[f"{scheme}://example.com/"] = redirect(url)

    with suppress(GatewayError):
        await internet.fetch(f"{scheme}://example.com/")
    assert internet.connected[0] == PUBLIC
    assert set(internet.connected[1:]) <= {PUBLIC, "8.8.8.8"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_every_kind_of_redirect_is_followed_and_checked(internet: Internet, status: int) -> None:
    internet.answers = chain("https://example.com/moved", "https://metadata.example/", status=status)
    assert (await refusal(internet.fetch("https://example.com/"))).code == "fetch_blocked"
    assert [request.method for request in internet.requests] == ["GET", "GET"]
    assert internet.connected == [PUBLIC, PUBLIC]


def answered(status: int, header: str, value: str) -> Answer:
    headers = {"content-type": "text/plain", header: value}
    return lambda _request: httpx.Response(status, headers=headers, content=pieces(b"found"))


@pytest.mark.parametrize("status", [200, 201, 300, 304, 305, 306, 401, 503])
@pytest.mark.parametrize("header", ["location", "content-location", "refresh", "link"])
async def test_nothing_else_is_a_redirect(internet: Internet, status: int, header: str) -> None:
    value = "0; url=https://other.example/" if header == "refresh" else "https://other.example/"
    internet.answers["https://example.com/"] = answered(status, header, value)
    with suppress(GatewayError):
        assert (await internet.fetch("https://example.com/")).url == "https://example.com/"
    assert internet.connected == [PUBLIC]


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
