"""Ways to make a bad token of a good one, each by a single change."""

import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from joserfc.jwk import RSAKey
from joserfc.jws import JWSRegistry

from tests.gateway.http.auth.provider import Provider, ec, encoded, public, rsa, signed, signed_raw

Make = Callable[[Provider, float], str]
DAY: Final = 24 * 3600
HEADER: Final[Mapping[str, Any]] = {"alg": "ES256", "kid": "e", "typ": "at+jwt"}


def claim(**changed: Any) -> Make:
    return lambda provider, now: provider.token(now, **changed)


def head(**changed: Any) -> Make:
    return lambda provider, now: provider.token(now, changed)


def each(change: Callable[..., Make], name: str, *values: Any) -> dict[str, Make]:
    """A case for every value that a claim, or a field of the header, must not have."""
    cases = {
        f"{name} is {'missing' if value is ... else repr(value)[:70]}": change(**{name: value}) for value in values
    }
    assert len(cases) == len(values), "two cases of one name"
    return cases


def at(**offsets: float) -> Make:
    """Times, as seconds from now."""
    return lambda provider, now: provider.token(now, None, **{name: now + by for name, by in offsets.items()})


def raw_header(header: bytes) -> Make:
    return lambda provider, now: signed_raw(header, json.dumps(provider.claims(now)).encode(), ec(), "ES256")


def raw_claims(payload: bytes) -> Make:
    return lambda provider, now: signed_raw(json.dumps(HEADER).encode(), payload, ec(), "ES256")


def twice(name: str, first: Any) -> Make:
    """A claim that is there twice, the second time as it should be."""

    def make(provider: Provider, now: float) -> str:
        good = json.dumps(provider.claims(now))
        return raw_claims(f'{{"{name}": {json.dumps(first)}, {good[1:]}'.encode())(provider, now)

    return make


def signed_as(algorithm: str, kid: str | None, key: Any, by: str | None = None) -> Make:
    """A header that says one algorithm; the signature may be by another."""
    header = {"alg": algorithm, "typ": "at+jwt"} | ({} if kid is None else {"kid": kid})
    return lambda provider, now: signed(header, provider.claims(now), key(), by or algorithm)


def by_secret(bits: int, kid: str | None, key: Callable[[], bytes]) -> Make:
    """Signed with what everybody knows: by hand, because no library does it."""
    header = {"alg": f"HS{bits}", "typ": "at+jwt"} | ({} if kid is None else {"kid": kid})

    def make(provider: Provider, now: float) -> str:
        text = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(provider.claims(now)).encode())}"
        return f"{text}.{encoded(hmac.digest(key(), text.encode(), f'sha{bits}'))}"

    return make


def unsigned(algorithm: Any, signature: str = "") -> Make:
    header = {"alg": algorithm, "kid": "e", "typ": "at+jwt"}
    return lambda provider, now: (
        f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(provider.claims(now)).encode())}.{signature}"
    )


def spelled(change: Callable[[list[str]], str]) -> Make:
    """A good token, written another way."""
    return lambda provider, now: change(provider.token(now).split("."))


def resigned(change: Callable[[bytes], bytes]) -> Make:
    """A good token with other bytes for a signature."""

    def make(provider: Provider, now: float) -> str:
        text = provider.token(now).rsplit(".", 1)[0]
        return f"{text}.{encoded(change(JWSRegistry.algorithms['ES256'].sign(text.encode(), ec())))}"

    return make


def _other_last_letter(part: str) -> str:
    """The same bytes by another last letter: its low bits mean nothing."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    assert len(part) % 4, "this part has no spare bits"
    return part[:-1] + letters[letters.index(part[-1]) + 1]


def as_der(raw: bytes) -> bytes:
    return encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))


def public_pem() -> bytes:
    key = rsa()
    assert isinstance(key, RSAKey)
    return key.as_pem(private=False)


def public_jwk() -> bytes:
    return json.dumps(public(rsa(), "r")).encode()


def _uneven(provider: Provider, now: float, part: int) -> list[str]:
    """The parts of a good token of which one has spare bits in its last letter."""
    for length in range(1, 4):
        parts = provider.token(now, {"kid": "e", "cty": "x" * length}, jti="x" * length).split(".")
        if len(parts[part]) % 4:
            return parts
    raise AssertionError("no length has spare bits")


def bent(part: int) -> Make:
    def make(provider: Provider, now: float) -> str:
        parts = _uneven(provider, now, part)
        parts[part] = _other_last_letter(parts[part])
        return ".".join(parts)

    return make


def padded(part: int) -> Make:
    def make(provider: Provider, now: float) -> str:
        parts = _uneven(provider, now, part)
        parts[part] += "=" * (-len(parts[part]) % 4)
        return ".".join(parts)

    return make
