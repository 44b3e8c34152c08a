"""A token that somebody has signed: read strictly, and verified with the public keys of its signer."""

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import Key

from gateway.http.auth.inbound import Refused

_COMPACT: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)", re.ASCII)
# Only asymmetric algorithms: with others, everybody who can verify a token could also sign one.
ALGORITHMS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    **dict.fromkeys(("EdDSA", "Ed25519"), "OKP"),
}
"""The algorithms that are accepted, each with the type of its keys."""
# Header fields that nobody knows are ignored, as RFC 7515 has it; `crit` is refused before.
_REGISTRIES: Final = {name: jws.JWSRegistry(algorithms=[name], strict_check_header=False) for name in ALGORITHMS}


class PublicKeys(Protocol):
    """The keys that tokens may be signed with."""

    async def named(self, kid: str | None) -> Sequence[Key]:
        """The keys of that name, or all if the token names none. Raises ProviderDown: they cannot be fetched."""
        ...


class Signed(NamedTuple):
    """What a verified token says, and the key that it is signed with."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]
    key: Key


async def verified(token: str, keys: PublicKeys) -> Signed:
    """Raises: Refused, ProviderDown."""
    header, claims = read(token)
    return Signed(header, claims, _verify(token, str(header.get("alg")), await keys_for(header, keys)))


async def keys_for(header: Mapping[str, Any], keys: PublicKeys) -> list[Key]:
    """The keys that a token with this header may be signed with. Raises: Refused, ProviderDown."""
    algorithm, kid = header.get("alg"), header.get("kid")
    kind = ALGORITHMS.get(algorithm) if isinstance(algorithm, str) else None
    if kind is None:
        raise Refused("algorithm")
    if kid is not None and not isinstance(kid, str):
        raise Refused("kid")
    found = [key for key in await keys.named(kid) if key.key_type == kind and _fits(key, str(algorithm))]
    if not found or (kid is None and len(found) > 1):
        raise Refused("no such key")
    return found


def claims_of(token: str) -> Mapping[str, Any]:
    """The claims of a token that has been verified already."""
    part = token.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))))


def read(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Header and claims of a token in its one canonical spelling, not verified yet. Raises: Refused."""
    if (parts := _COMPACT.fullmatch(token)) is None:
        raise Refused("not a JWT")
    try:
        decoded = [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in parts.groups()]
        header, claims = (json.loads(part, object_pairs_hook=_once) for part in decoded[:2])
    except (ValueError, binascii.Error, RecursionError):
        raise Refused("not a JWT") from None
    if any(
        base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != part
        for raw, part in zip(decoded, parts.groups(), strict=True)
    ):
        raise Refused("spelling")
    if not isinstance(header, dict) or not isinstance(claims, dict) or {"crit", "b64"} & header.keys():
        raise Refused("header")
    return header, claims


def _verify(token: str, algorithm: str, keys: Sequence[Key]) -> Key:
    """The key that it is signed with."""
    for key in keys:
        with suppress(JoseError, ValueError, TypeError, RecursionError):
            jws.deserialize_compact(token, key, registry=_REGISTRIES[algorithm])
            return key
    raise Refused("signature")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name that is there twice")
    return found


def _fits(key: Key, algorithm: str) -> bool:
    return key.get("alg") in (None, algorithm)


def moment(said: Any) -> float | None:
    """A time in a token. Raises: Refused."""
    if said is None:
        return None
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 <= said < 1e11:
        raise Refused("a time that is none")
    return float(said)
