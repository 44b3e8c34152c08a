"""What names may resolve to: the addresses that were checked are the only ones a fetch connects to."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from gateway.ingest import fetch as fetching
from gateway.ingest.addresses import is_public
from gateway.ingest.fetch import Fetcher
from gateway.operations.errors import GatewayError
from tests.gateway.ingest.internet import (
    FINE_URLS,
    OTHER_PUBLIC,
    PRIVATE_ANSWERS,
    PUBLIC,
    PUBLIC_V6,
    SSRF_URLS,
    Answer,
    Internet,
    redirect,
    refusal,
)

pytestmark = pytest.mark.usefixtures("dialled")


@pytest.mark.parametrize("name", PRIVATE_ANSWERS)
async def test_one_answer_that_is_not_a_public_address_blocks_the_whole_name(internet: Internet, name: str) -> None:
    internet.names["mixed.example"] = PRIVATE_ANSWERS[name]
    assert (await refusal(internet.fetch("https://mixed.example/"))).code == "fetch_blocked"
    assert internet.connected == []


@pytest.mark.parametrize("answer", [134744072, b"\x08\x08\x08\x08", None, 8.8], ids=repr)
async def test_an_answer_that_is_no_text_is_no_address(internet: Internet, answer: Any) -> None:
    internet.names["odd.example"] = [answer]
    assert (await refusal(internet.fetch("https://odd.example/"))).code == "fetch_blocked"
    assert (await refusal(internet.fetcher().vet("https://odd.example/"))).code == "fetch_blocked"
    assert internet.connected == []


AGAIN = {"https://rebinding.example/": redirect("/2"), "https://rebinding.example/2": redirect("/3")}
AWAY = {
    "https://rebinding.example/": redirect("https://other.example/"),
    "https://other.example/": redirect("https://rebinding.example/2"),
}
REBINDING: dict[str, tuple[dict[str, Answer], list[list[str]], set[str], str, list[str]]] = {
    # name: servers, the answers one after the other, addresses that are down, outcome, addresses connected to
    "between check and connection": ({}, [[PUBLIC], ["127.0.0.1"]], set(), "found", [PUBLIC]),
    "before the second hop": (AGAIN, [[PUBLIC], ["127.0.0.1"]], set(), "fetch_blocked", [PUBLIC]),
    "before the third hop": (
        AGAIN,
        [[PUBLIC], [OTHER_PUBLIC], ["169.254.169.254"]],
        set(),
        "fetch_blocked",
        [PUBLIC, OTHER_PUBLIC],
    ),
    "public every time": (
        AGAIN,
        [[PUBLIC], [OTHER_PUBLIC], [PUBLIC_V6]],
        set(),
        "found",
        [PUBLIC, OTHER_PUBLIC, PUBLIC_V6],
    ),
    "while elsewhere": (AWAY, [[PUBLIC], ["10.0.0.5"]], set(), "fetch_blocked", [PUBLIC, OTHER_PUBLIC]),
    "to a mixed answer": (AGAIN, [[PUBLIC], [PUBLIC, "10.0.0.5"]], set(), "fetch_blocked", [PUBLIC]),
    "to a private AAAA": (AGAIN, [[PUBLIC], [PUBLIC, "fd00::1"]], set(), "fetch_blocked", [PUBLIC]),
    "to a mapped AAAA": (AGAIN, [[PUBLIC], ["::ffff:127.0.0.1"]], set(), "fetch_blocked", [PUBLIC]),
    "to nothing": (AGAIN, [[PUBLIC], []], set(), "fetch_blocked", [PUBLIC]),
    "to nonsense": (AGAIN, [[PUBLIC], ["nonsense"]], set(), "fetch_blocked", [PUBLIC]),
    "first address down": ({}, [[PUBLIC], ["127.0.0.1"]], {PUBLIC}, "fetch_failed", [PUBLIC]),
    "first of two down": (
        {},
        [[PUBLIC, OTHER_PUBLIC], ["127.0.0.1"]],
        {PUBLIC},
        "found",
        [PUBLIC, OTHER_PUBLIC],
    ),
    "all down": (
        {},
        [[PUBLIC, OTHER_PUBLIC], ["127.0.0.1"]],
        {PUBLIC, OTHER_PUBLIC},
        "fetch_failed",
        [PUBLIC, OTHER_PUBLIC],
    ),
}


@pytest.mark.parametrize("name", REBINDING)
async def test_a_name_that_changes_its_address_gains_nothing(internet: Internet, name: str) -> None:
    internet.answers, answers, internet.down, outcome, addresses = REBINDING[name]
    internet.changing["rebinding.example"] = iter(answers)

    try:
        reached = (await internet.fetch("https://rebinding.example/")).body.decode()
    except GatewayError as error:
        reached = error.code
    assert (reached, internet.connected) == (outcome, addresses)


async def test_a_name_that_is_slow_on_the_second_hop_ends_with_the_clock(internet: Internet) -> None:
    internet.answers["https://example.com/"] = redirect("https://slow.example/")

    async def resolve(host: str, port: int) -> Sequence[str]:
        if host == "slow.example":
            await asyncio.Event().wait()
        return await internet.resolve(host, port)

    fetch = Fetcher(resolve=resolve, transport=lambda: httpx.MockTransport(internet.answer), wall_seconds=0.5)
    assert (await refusal(fetch("https://example.com/"))).code == "fetch_failed"
    assert internet.connected == [PUBLIC]


async def test_a_name_that_is_gone_on_the_second_hop_is_a_failed_fetch(internet: Internet) -> None:
    internet.answers["https://example.com/"] = redirect("https://gone.example/")
    error = await refusal(internet.fetch("https://example.com/"))
    assert (error.code, error.message) == ("fetch_failed", "The page could not be fetched.")
    assert internet.connected == [PUBLIC]


async def test_the_socket_is_connected_to_the_checked_address_and_no_name_is_looked_up_again(
    monkeypatch: pytest.MonkeyPatch, internet: Internet, dialled: list[Any]
) -> None:
    """By the transport that is used outside of tests."""
    looked_up: list[Any] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *asked, **_options: looked_up.append(asked))
    internet.changing["rebinding.example"] = iter([[PUBLIC, PUBLIC_V6], ["127.0.0.1"]])

    for url in ("https://rebinding.example/", "http://example.com/"):
        assert (await refusal(Fetcher(resolve=internet.resolve)(url))).code == "fetch_failed"
    assert [address[:2] for address in dialled] == [(PUBLIC, 443), (PUBLIC_V6, 443), (PUBLIC, 80)]
    assert internet.looked_up == ["rebinding.example", "example.com"]
    assert looked_up == []
    dialled.clear()


@pytest.mark.parametrize("url", SSRF_URLS, ids=ascii)
async def test_no_socket_is_connected_for_a_url_that_is_not_public(
    internet: Internet, dialled: list[Any], url: str
) -> None:
    assert (await refusal(Fetcher(resolve=internet.resolve)(url))).code in {"fetch_blocked", "fetch_failed"}
    assert [address[0] for address in dialled] == (["8.8.8.8"] if url in FINE_URLS else [])
    dialled.clear()


async def test_proxies_of_the_environment_are_not_used(
    monkeypatch: pytest.MonkeyPatch, internet: Internet, dialled: list[Any]
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:3128")
    for url in ("https://example.com/", "http://example.com/"):
        assert (await refusal(Fetcher(resolve=internet.resolve)(url))).code == "fetch_failed"
    assert [address[0] for address in dialled] == [PUBLIC, PUBLIC]
    dialled.clear()


MANY = [f"93.184.216.{n}" for n in range(1, 10)]
TRIED: dict[str, tuple[list[str], list[str]]] = {
    # name: what the name resolves to while all of it is down, what is tried
    "one": ([PUBLIC], [PUBLIC]),
    "in order": (MANY[:3], MANY[:3]),
    "four of many": (MANY, MANY[:4]),
    "each once": ([PUBLIC, PUBLIC, OTHER_PUBLIC, PUBLIC], [PUBLIC, OTHER_PUBLIC]),
    "IPv6 and IPv4 by turns": (
        ["2606:2800::1", "2606:2800::2", "2606:2800::3", *MANY[:2]],
        ["2606:2800::1", MANY[0], "2606:2800::2", MANY[1]],
    ),
    "IPv4 first": ([MANY[0], MANY[1], PUBLIC_V6], [MANY[0], PUBLIC_V6, MANY[1]]),
}


@pytest.mark.parametrize("name", TRIED)
async def test_other_checked_addresses_are_tried_when_one_cannot_be_connected_to(internet: Internet, name: str) -> None:
    internet.names["many.example"], tried = TRIED[name]
    internet.down = set(internet.names["many.example"])
    error = await refusal(internet.fetch("https://many.example/"))
    assert (error.code, error.retryable, error.message) == ("fetch_failed", True, "The page could not be fetched.")
    assert internet.connected == tried

    internet.requests.clear()
    internet.down.remove(tried[-1])
    assert (await internet.fetch("https://many.example/")).body == b"found"
    assert internet.connected == tried
    assert {request.headers["host"] for request in internet.requests} == {"many.example"}
    assert {request.extensions["sni_hostname"] for request in internet.requests} == {"many.example"}


@pytest.mark.parametrize("failure", [httpx.ReadTimeout, httpx.ReadError, httpx.RemoteProtocolError, httpx.WriteError])
async def test_a_server_that_was_connected_to_is_not_asked_again_elsewhere(
    internet: Internet, failure: type[httpx.TransportError]
) -> None:
    def fail(_request: httpx.Request) -> httpx.Response:
        raise failure("x")

    internet.names["many.example"] = MANY
    internet.answers["https://many.example/"] = fail
    assert (await refusal(internet.fetch("https://many.example/"))).code == "fetch_failed"
    assert internet.connected == MANY[:1]


async def test_all_addresses_are_tried_on_one_clock(internet: Internet) -> None:
    class Silent(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            internet.requests.append(request)
            if len(internet.requests) > 1:
                await asyncio.Event().wait()
            raise httpx.ConnectTimeout("x")

    internet.names["many.example"] = MANY
    fetch = Fetcher(resolve=internet.resolve, transport=Silent, wall_seconds=0.5)
    assert (await refusal(fetch("https://many.example/"))).code == "fetch_failed"
    assert internet.connected == MANY[:2]


def test_a_connection_gives_up_early_enough_for_the_others() -> None:
    assert fetching._TIMEOUT.connect is not None
    assert fetching._TIMEOUT.connect * fetching._ADDRESSES_TRIED + fetching._RESOLVE_SECONDS < fetching._WALL_SECONDS


def test_the_made_up_internet_is_as_public_as_it_says() -> None:
    assert all(is_public(address) for address in (PUBLIC, OTHER_PUBLIC, PUBLIC_V6, *MANY))
