"""The keys of an OAuth provider: found, kept, asked for no more than needed; its outage is 503 and never 401."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from gateway.http.auth.inbound import ProviderDown, Refused
from gateway.http.auth.jwt import Expected, JwtInbound
from gateway.http.auth.keys import ProviderKeys, is_safe_url, usable_keys
from gateway.upstream.wire.transport import pooled_client
from tests.gateway.conftest import eventually
from tests.gateway.http.auth.conftest import Clock
from tests.gateway.http.auth.provider import (
    AUDIENCE,
    FAULTS,
    KEYS,
    OAUTH,
    OPENID,
    Provider,
    ec,
    ed,
    encoded,
    providing,
    public,
    signed,
)

HOUR = 3600.0
EVERY = 5.0


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with pooled_client() as client:
        yield client


@pytest.fixture
def keys(provider: Provider, http: httpx.AsyncClient, clock: Clock) -> ProviderKeys:
    return ProviderKeys(provider.issuer, None, http, clock)


async def names(keys: ProviderKeys, kid: str | None) -> list[str]:
    return [str(key.get("kid")) for key in await keys.named(kid)]


async def test_keys_are_found_from_the_issuer_and_then_kept(provider: Provider, keys: ProviderKeys) -> None:
    for kid in ("r", "e", "o"):
        assert await names(keys, kid) == [kid]
    assert await names(keys, None) == ["r", "e", "o"]
    assert provider.requests == [OPENID, KEYS]


async def test_keys_at_a_known_place_are_not_looked_for(
    provider: Provider, http: httpx.AsyncClient, clock: Clock
) -> None:
    assert await names(ProviderKeys("https://issuer.example", provider.url + KEYS, http, clock), "e") == ["e"]
    assert provider.requests == [KEYS]


@pytest.mark.parametrize("path", ["", "/", "/realms/one", "/realms/one/"])
@pytest.mark.parametrize("form", [OPENID, OAUTH])
async def test_metadata_are_found_in_either_form(path: str, form: str, http: httpx.AsyncClient, clock: Clock) -> None:
    with providing(path) as provider:
        provider.served_at = (form,)
        assert await names(ProviderKeys(provider.issuer, None, http, clock), "e") == ["e"]
        bare = path.rstrip("/")
        assert provider.requests == [bare + OPENID, *([OAUTH + bare] if form == OAUTH else []), KEYS]


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"issuer": ["{issuer}"]},
        {"issuer": "{issuer}/"},
        {"jwks_uri": None},
        {"jwks_uri": ""},
        {"jwks_uri": 7},
        {"jwks_uri": ["{issuer}/keys"]},
        {"jwks_uri": "/keys"},
        {"jwks_uri": "http://keys.example/keys"},
        {"jwks_uri": "http://169.254.169.254/keys"},
        {"jwks_uri": "http://127.0.0.1.evil.example/keys"},
        {"jwks_uri": "http://localhost@evil.example/keys"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": "ftp://127.0.0.1/keys"},
        {"jwks_uri": "http://[::1/keys"},
        {"jwks_uri": "http://127.0.0.1:99999/keys"},
        {"jwks_uri": "https://\u0000/keys"},
    ],
    ids=str,
)
async def test_metadata_that_lead_astray_are_no_metadata(
    provider: Provider, keys: ProviderKeys, metadata: dict[str, Any]
) -> None:
    said = {
        name: [each.replace("{issuer}", provider.issuer) for each in value]
        if isinstance(value, list)
        else value.replace("{issuer}", provider.issuer)
        if isinstance(value, str)
        else value
        for name, value in metadata.items()
    }
    provider.metadata = said
    # Not for want of an answer: nobody is asked.
    with pytest.raises(ProviderDown, match=r"ValueError|InvalidURL"):
        await keys.named("e")
    assert provider.asked_for(KEYS) == 0


@pytest.mark.parametrize(
    ("url", "is_safe"),
    [
        ("https://keys.example/keys", True),
        ("http://127.0.0.1:8000/keys", True),
        ("http://[::1]:8000/keys", True),
        ("http://localhost/keys", True),
        ("http://keys.example/keys", False),
        ("http://127.0.0.1.evil.example/keys", False),
        ("http://127.0.0.1@evil.example/keys", False),
        ("http://10.0.0.1/keys", False),
        ("HTTP://keys.example/keys", False),
        ("ws://127.0.0.1/keys", False),
        ("//127.0.0.1/keys", False),
        ("None", False),
        ("", False),
    ],
)
def test_plain_http_is_for_this_machine_alone(url: str, is_safe: bool) -> None:
    assert is_safe_url(url) is is_safe


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_provider_that_fails_is_down_and_its_known_keys_go_on_working(
    provider: Provider, keys: ProviderKeys, clock: Clock, fault: str
) -> None:
    provider.fault = fault
    with pytest.raises(ProviderDown):
        await keys.named("e")
    provider.fault = None
    clock.now += EVERY
    assert await names(keys, "e") == ["e"]
    provider.fault = fault
    for later in (601.0, HOUR, 22.5 * HOUR):
        clock.now += later
        asked = len(provider.requests)
        assert await names(keys, "e") == ["e"]
        await eventually(lambda asked=asked: _later(len(provider.requests) > asked))  # type: ignore[misc]  # its type
        await _settled(keys)
    with pytest.raises(ProviderDown):
        await keys.named("never seen")
    clock.now += HOUR
    with pytest.raises(ProviderDown):
        await keys.named("e")
    assert provider.asked_for("/elsewhere") == 0


async def _later(held: bool) -> bool:
    return held


async def _settled(keys: ProviderKeys) -> None:
    """What was asked for in the background has come, or failed."""
    await eventually(lambda: _later(keys._asking is None))


@pytest.mark.parametrize(
    "published",
    [
        [],
        [{}],
        ["a word", 7, None, []],
        [{"kty": "oct", "kid": "e", "k": encoded(b"x" * 32)}],
        [{"kty": "EC", "kid": "e"}],
        [{"kty": "EC", "kid": "e", "crv": "P-999", "x": "AA", "y": "AA"}],
        [{"kty": "RSA", "kid": "e", "n": 5, "e": []}],
        [{"kty": ["EC"], "kid": "e"}],
        [{**public(ec(), "e"), "use": "enc"}],
        [{**public(ec(), "e"), "use": None}],
    ],
    ids=["none", "nothing", "no objects", "oct", "no point", "no curve", "no numbers", "no kind", "enc", "no use"],
)
async def test_keys_that_sign_nothing_are_no_keys(provider: Provider, keys: ProviderKeys, published: list[Any]) -> None:
    provider.keys = published
    with pytest.raises(ProviderDown):
        await keys.named("e")
    good = public(ec(), "e")
    assert [key.get("kid") for key in usable_keys({"keys": [*published, good, *published]})] == ["e"]


def test_no_more_than_a_hundred_keys_are_taken() -> None:
    assert len(usable_keys({"keys": [public(ec(), f"k{n}") for n in range(150)]})) == 100


async def test_a_provider_that_does_not_answer_is_down(
    provider: Provider, keys: ProviderKeys, clock: Clock, http: httpx.AsyncClient
) -> None:
    provider.held = True
    with pytest.raises(ProviderDown, match="Timeout"):
        await keys.named("e")
    provider.held = False
    clock.now += EVERY
    assert await names(keys, "e") == ["e"]


async def test_a_provider_that_is_not_there_is_down_and_known_keys_are_good_for_a_day(
    http: httpx.AsyncClient, clock: Clock
) -> None:
    with providing() as provider:
        keys = ProviderKeys(provider.issuer, None, http, clock)
        assert await names(keys, "e") == ["e"]
    for hours in (1, 22, 0.9):
        clock.now += hours * HOUR
        assert await names(keys, "e") == ["e"]
        await _settled(keys)
    clock.now += 0.2 * HOUR
    with pytest.raises(ProviderDown, match="ConnectError"):
        await keys.named("e")
    with pytest.raises(ProviderDown, match="too old"):
        await keys.named("e")


async def test_fresh_keys_are_not_asked_for_again(provider: Provider, keys: ProviderKeys, clock: Clock) -> None:
    await keys.named("e")
    clock.now += 600
    assert await names(keys, "e") == ["e"]
    await _settled(keys)
    assert provider.asked_for(KEYS) == 1


async def test_after_ten_minutes_they_are_asked_for_behind_the_callers_back(
    provider: Provider, keys: ProviderKeys, clock: Clock
) -> None:
    await keys.named("e")
    provider.held = True
    provider.keys = [public(ec(), "e"), public(ec(3), "new")]
    clock.now += 601
    # Nobody waits for the provider, which does not answer at the moment.
    assert await names(keys, "r") == ["r"]
    assert await names(keys, "e") == ["e"]
    provider.held = False
    await _settled(keys)
    assert await names(keys, None) == ["e", "new"]
    assert provider.asked_for(KEYS) == 2


async def test_a_refresh_that_fails_is_tried_again_a_little_later(
    provider: Provider, keys: ProviderKeys, clock: Clock
) -> None:
    await keys.named("e")
    provider.fault = "500"
    clock.now += 601
    for step, asked in ((0.0, 2), (EVERY - 1, 2), (1.0, 3), (EVERY - 1, 3), (1.0, 4)):
        clock.now += step
        assert await names(keys, "e") == ["e"]
        await _settled(keys)
        # It fails at the first of the metadata, and at the second.
        assert provider.asked_for(OPENID) == asked
        assert provider.asked_for(OAUTH) == asked - 1


async def test_many_who_wait_are_one_question(provider: Provider, keys: ProviderKeys) -> None:
    provider.held = True
    waiting = [asyncio.create_task(names(keys, kid)) for kid in ("r", "e", "o", "unknown") * 25]
    await eventually(lambda: _later(bool(provider.requests)))
    waiting[0].cancel()
    provider.held = False
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert answers[1:] == ([["r"], ["e"], ["o"], []] * 25)[1:]
    assert provider.requests == [OPENID, KEYS]


async def test_those_who_wait_for_a_provider_that_fails_are_all_told(provider: Provider, keys: ProviderKeys) -> None:
    provider.held, provider.fault = True, "500"
    waiting = [asyncio.create_task(keys.named("e")) for _ in range(50)]
    await eventually(lambda: _later(bool(provider.requests)))
    provider.held = False
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(answer) for answer in answers} == {ProviderDown}
    assert provider.requests == [OPENID, OAUTH]
    # And those who come right after: nobody knows yet that it is a made-up key.
    with pytest.raises(ProviderDown):
        await keys.named("made up")
    assert provider.requests == [OPENID, OAUTH]


async def test_an_unknown_key_is_asked_for_every_few_seconds_at_most(
    provider: Provider, keys: ProviderKeys, clock: Clock
) -> None:
    await keys.named("e")
    for n in range(100):
        clock.now += 0.99 * EVERY / 100
        assert await names(keys, f"made up {n}") == []
    assert provider.asked_for(KEYS) == 1
    clock.now += 0.02 * EVERY
    for n in range(100):
        assert await names(keys, f"made up {n}") == []
    assert provider.asked_for(KEYS) == 2
    assert await names(keys, "e") == ["e"]


async def test_a_new_key_is_found_with_its_first_token_and_an_old_one_is_gone(
    provider: Provider, keys: ProviderKeys, clock: Clock
) -> None:
    assert await names(keys, "e") == ["e"]
    provider.keys = [public(ed(3), "new")]
    clock.now += EVERY
    assert await names(keys, "new") == ["new"]
    assert await names(keys, "e") == []


async def test_a_kid_that_gets_another_key_is_the_other_key_from_then_on(
    provider: Provider, keys: ProviderKeys, clock: Clock
) -> None:
    inbound = JwtInbound(Expected(provider.issuer, AUDIENCE), keys)
    header = {"alg": "ES256", "kid": "e"}
    old, new = (signed(header, provider.claims(), ec(n), "ES256") for n in (0, 5))
    assert (await inbound.principal(old)).subject == "ada"
    provider.keys = [public(ec(5), "e")]
    clock.now += 601
    await inbound.principal(old)
    await _settled(keys)
    assert (await inbound.principal(new)).subject == "ada"
    with pytest.raises(Refused, match="signature"):
        await inbound.principal(old)
