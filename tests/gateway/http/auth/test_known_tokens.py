"""A token that was verified is not verified again. All that can change since is looked at each time."""

from collections.abc import AsyncIterator
from itertools import product
from typing import Any

import httpx
import pytest
from joserfc import jws

from gateway.http.auth import jwt
from gateway.http.auth.inbound import ProviderDown, Refused
from gateway.http.auth.jwt import Expected, JwtInbound
from gateway.http.auth.keys import ProviderKeys
from gateway.upstream.wire.transport import pooled_client
from tests.gateway.http.auth.conftest import Clock
from tests.gateway.http.auth.provider import AUDIENCE, Provider, ec, public

NOW = 1_900_000_000.0
EVERY = 5.0
DAY = 24 * 3600.0


class Inbound(JwtInbound):
    """With a clock for tokens that goes on when it is told to."""

    def __init__(self, provider: Provider, keys: ProviderKeys) -> None:
        self.now = NOW
        super().__init__(Expected(provider.issuer, AUDIENCE), keys, clock=lambda: self.now)


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with pooled_client() as client:
        yield client


@pytest.fixture
def inbound(provider: Provider, http: httpx.AsyncClient, clock: Clock) -> Inbound:
    return Inbound(provider, ProviderKeys(provider.issuer, None, http, clock))


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens whose signatures were looked at."""
    seen: list[str] = []
    real = jws.deserialize_compact

    def look(token: str, *more: Any, **named: Any) -> Any:
        seen.append(token)
        return real(token, *more, **named)

    monkeypatch.setattr(jws, "deserialize_compact", look)
    return seen


async def test_a_signature_is_verified_once(provider: Provider, inbound: Inbound, verified: list[str]) -> None:
    token = provider.token(NOW)
    first = await inbound.principal(token)
    assert [await inbound.principal(token) for _ in range(3)] == [first] * 3
    assert verified == [token]


async def test_a_known_token_that_expires_lets_nobody_in(provider: Provider, inbound: Inbound) -> None:
    token = provider.token(NOW)
    await inbound.principal(token)
    inbound.now += 600 + 59
    await inbound.principal(token)
    inbound.now += 1
    with pytest.raises(Refused, match="expired"):
        await inbound.principal(token)


async def test_a_known_token_is_refused_if_the_clock_says_that_it_is_not_valid_yet(
    provider: Provider, inbound: Inbound
) -> None:
    token = provider.token(NOW, nbf=int(NOW))
    await inbound.principal(token)
    inbound.now -= 61
    with pytest.raises(Refused, match="not valid yet"):
        await inbound.principal(token)


async def test_a_known_token_whose_key_is_taken_back_lets_nobody_in(
    provider: Provider, inbound: Inbound, clock: Clock
) -> None:
    token = provider.token(NOW)
    await inbound.principal(token)
    provider.keys = [public(ec(3), "new")]
    clock.now += EVERY
    # Somebody brings a token of a key that is not known yet.
    with pytest.raises(Refused):
        await inbound.principal(provider.token(NOW, {"kid": "new"}))
    with pytest.raises(Refused, match="no such key"):
        await inbound.principal(token)


async def test_a_known_token_without_a_kid_is_refused_once_there_are_two_keys_that_it_may_mean(
    provider: Provider, inbound: Inbound, clock: Clock
) -> None:
    token = provider.token(NOW, {"kid": ...})
    await inbound.principal(token)
    provider.publish(public(ec(3), "other"))
    clock.now += EVERY
    with pytest.raises(Refused):
        await inbound.principal(provider.token(NOW, {"kid": "other"}))
    with pytest.raises(Refused, match="no such key"):
        await inbound.principal(token)


async def test_a_known_token_is_verified_again_by_keys_that_were_fetched_again(
    provider: Provider, inbound: Inbound, clock: Clock, verified: list[str]
) -> None:
    token = provider.token(NOW)
    await inbound.principal(token)
    clock.now += EVERY
    with pytest.raises(Refused):
        await inbound.principal(provider.token(NOW, {"kid": "made up"}))
    await inbound.principal(token)
    await inbound.principal(token)
    assert verified == [token, token]


async def test_a_known_token_cannot_be_told_while_the_keys_are_too_old(
    provider: Provider, inbound: Inbound, clock: Clock
) -> None:
    token = provider.token(NOW)
    await inbound.principal(token)
    provider.fault = "500"
    clock.now += DAY
    with pytest.raises(ProviderDown):
        await inbound.principal(token)


async def test_a_token_that_differs_in_one_letter_is_not_known(provider: Provider, inbound: Inbound) -> None:
    token = provider.token(NOW)
    await inbound.principal(token)
    header, claims, signature = token.split(".")
    for place, letter in product(range(0, len(signature), 7), "Az"):
        if signature[place] != letter:
            changed = signature[:place] + letter + signature[place + 1 :]
            with pytest.raises(Refused):
                await inbound.principal(f"{header}.{claims}.{changed}")
    with pytest.raises(Refused):
        await inbound.principal(token + "\ud800")


@pytest.mark.parametrize("changed", [{"exp": int(NOW) - 60}, {"aud": "https://other.example"}, {"sub": ...}])
async def test_a_token_that_is_refused_is_never_known(
    provider: Provider, inbound: Inbound, verified: list[str], changed: dict[str, Any]
) -> None:
    token = provider.token(NOW, **changed)
    for _ in range(2):
        with pytest.raises(Refused):
            await inbound.principal(token)
    assert verified == [token, token]


async def test_only_so_many_are_known_and_the_others_are_verified_again(
    provider: Provider, inbound: Inbound, verified: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwt, "_KNOWN_TOKENS", 2)
    tokens = [provider.token(NOW, sub=name) for name in ("ada", "bob", "eve")]
    for token in (*tokens, tokens[2], tokens[0]):
        await inbound.principal(token)
    assert verified == [*tokens, tokens[0]]
    assert len(inbound._known) == 2


async def test_tokens_are_known_by_their_hashes_alone(provider: Provider, inbound: Inbound) -> None:
    token = provider.token(NOW)
    await inbound.principal(token)
    (hashed,) = inbound._known
    assert len(hashed) == 32
    assert token not in repr(inbound._known)
    assert inbound._known[hashed].principal.token is None
