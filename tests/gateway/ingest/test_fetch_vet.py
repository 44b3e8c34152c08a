"""URLs for a platform that fetches by itself: what is refused before it is asked."""

import asyncio
import socket
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.ingest import fetch
from gateway.ingest.addresses import parse_network
from gateway.ingest.fetch import Fetcher
from tests.gateway.ingest.internet import FINE_URLS, PRIVATE_ANSWERS, PUBLIC_V6, SSRF_URLS, Internet, refusal

pytestmark = pytest.mark.usefixtures("dialled")


VETTED: dict[str, str] = {
    "a public name": "https://example.com/a?b#c",
    "an address": "https://8.8.8.8/",
    "an IPv6 address": f"http://[{PUBLIC_V6}]/",
    "a name nobody here knows": "https://wiki.corp.example/",
}


@pytest.mark.parametrize("name", VETTED)
async def test_a_url_for_the_platform_passes(internet: Internet, name: str) -> None:
    await internet.fetcher().vet(VETTED[name])
    assert internet.connected == []


@pytest.mark.parametrize("url", [url for url in SSRF_URLS if url not in FINE_URLS], ids=ascii)
async def test_a_url_for_the_platform_must_be_public_even_if_nothing_resolves_here(
    internet: Internet, url: str
) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(-2, "unknown")

    for fetcher in (internet.fetcher(), Fetcher(resolve=resolve)):
        error = await refusal(fetcher.vet(url))
        assert (error.code, error.message) == ("fetch_blocked", "That address may not be fetched.")
    assert internet.connected == []


@pytest.mark.parametrize("name", [name for name in PRIVATE_ANSWERS if name != "nothing"])
async def test_a_name_for_the_platform_must_be_public_in_all_its_addresses(internet: Internet, name: str) -> None:
    internet.names["mixed.example"] = PRIVATE_ANSWERS[name]
    assert (await refusal(internet.fetcher().vet("https://mixed.example/"))).code == "fetch_blocked"


@pytest.mark.parametrize("failure", [socket.gaierror(-2, "x"), OSError(24, "x"), UnicodeError("x"), None], ids=repr)
async def test_a_name_that_does_not_resolve_here_may_be_known_to_the_platform(failure: Exception | None) -> None:
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        if failure is not None:
            raise failure
        return []

    await Fetcher(resolve=resolve).vet("https://wiki.corp.example/")
    assert asked == ["wiki.corp.example"]


async def test_a_name_that_resolves_too_slowly_may_be_known_to_the_platform() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    await Fetcher(resolve=resolve, wall_seconds=0.05).vet("https://slow.example/")
    assert (await refusal(Fetcher(resolve=resolve, wall_seconds=0.05).vet("https://[::1]/"))).code == "fetch_blocked"


async def test_names_that_nobody_could_look_up_do_not_pass_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else whoever keeps all threads busy with slow names could have any address fetched."""
    over, real = threading.Event(), socket.getaddrinfo

    def look_up(host: Any, *arguments: Any, **options: Any) -> Any:
        if host == "slow.example":
            over.wait(30)
            raise socket.gaierror(socket.EAI_AGAIN, "slow")
        return real("10.0.0.5", *arguments, **options)

    free = threading.BoundedSemaphore(2)
    monkeypatch.setattr(fetch, "_LOOK_UPS", free)
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    vet = Fetcher(wall_seconds=0.05).vet
    try:
        for _ in range(2):
            await vet("https://slow.example/")
        error = await refusal(vet("https://inside.example/"))
        assert (error.code, error.retryable) == ("fetch_failed", True)
    finally:
        over.set()
    # Both threads are free again, and only then is there anything to be said of a name.
    await asyncio.to_thread(lambda: [free.acquire(timeout=10) for _ in range(2)])
    free.release(2)
    assert (await refusal(vet("https://inside.example/"))).code == "fetch_blocked"


async def test_an_allowed_range_may_be_handed_to_the_platform(internet: Internet) -> None:
    fetcher = internet.fetcher(allowed=(parse_network("10.0.0.0/8"),))
    await fetcher.vet("https://inside.example/")
    assert (await refusal(fetcher.vet("https://inside.example:8080/"))).code == "fetch_blocked"
    assert (await refusal(fetcher.vet("https://metadata.example/"))).code == "fetch_blocked"
