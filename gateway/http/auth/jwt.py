"""Access tokens of an OAuth provider, checked strictly: a token that is not clearly for us is refused."""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from joserfc.jwk import Key

from gateway.http.auth.inbound import Naming, ProviderDown, Refused
from gateway.http.auth.signed import PublicKeys, keys_for, moment, verified
from gateway.operations import scopes
from gateway.operations.caller import Principal
from gateway.operations.errors import GatewayError
from gateway.operations.names import check_id

_SKEW: Final = 60
_LONGEST: Final = 24 * 3600
_NAME_LENGTH: Final = 512
# Tokens whose signature is not verified again while its key is the provider's.
_KNOWN_TOKENS: Final = 1024
_ACCESS_TOKEN_TYPES: Final = frozenset({"at+jwt", "application/at+jwt"})
# The type that providers give to access tokens if they have no other name for them.
_PLAIN_TYPES: Final = frozenset({"jwt", "application/jwt"})
# Only ID tokens have these.
_OF_ID_TOKENS: Final = frozenset({"nonce", "at_hash", "c_hash", "s_hash"})


@dataclass(frozen=True, slots=True)
class Expected:
    """What a token must say, and which claims say who the caller is."""

    issuer: str
    audience: str
    shared_audience: bool = False
    """Whether a token with further audiences is accepted."""
    org_claim: str = "org_id"
    projects_claim: str = "projects"
    brain_claim: str | None = None
    """The claim that names the brain to which it is bound. There is no default, because a provider's claim of the same
    name may mean something else."""
    issuer_name: str | None = None
    """Another name of the issuer, used for its callers' private notes, which stays if the issuer's address changes."""


class _Times(NamedTuple):
    """When a token is good, as far as it says so."""

    expires: float | None
    issued: float | None
    not_before: float | None


class _Verified(NamedTuple):
    """What follows from the bytes of a token and from one key. It stays the same as long as both do."""

    header: Mapping[str, Any]
    """The part of the header that says which key is meant."""
    key: Key
    times: _Times
    principal: Principal


class JwtInbound:
    """Lets in callers with an access token of the provider that is meant for this gateway."""

    tells_apart = True

    def __init__(
        self,
        expected: Expected,
        keys: PublicKeys,
        *,
        keeps_token: bool = False,
        naming: Naming = str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._expected, self._keys = expected, keys
        self.wants = f"Log in at {expected.issuer} and send an access token for {expected.audience}."
        self._keeps_token, self._naming = keeps_token, naming
        self._clock = clock
        # By their hashes, because the tokens themselves must not be kept.
        self._known: dict[bytes, _Verified] = {}

    async def principal(self, token: str) -> Principal:
        hashed = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        known = self._known.get(hashed)
        # Asks for the keys each time, because the provider may have withdrawn one, or they may be too old to rely on.
        if known is not None and any(key is known.key for key in await keys_for(known.header, self._keys)):
            try:
                self._check_times(known.times)
            except Refused:
                # The token has expired, so it need not be remembered.
                del self._known[hashed]
                raise
        else:
            known = await self._verified(token)
            self._keep(hashed, known)
        return known.principal

    async def _verified(self, token: str) -> _Verified:
        header, claims, key = await verified(token, self._keys)
        self._check(header, claims)
        times = _Times(*(moment(claims.get(name)) for name in ("exp", "iat", "nbf")))
        self._check_times(times)
        meant = {name: header[name] for name in ("alg", "kid") if name in header}
        return _Verified(meant, key, times, self._principal(claims, token))

    def _keep(self, hashed: bytes, known: _Verified) -> None:
        self._known.pop(hashed, None)
        if len(self._known) >= _KNOWN_TOKENS:
            del self._known[next(iter(self._known))]
        self._known[hashed] = known

    async def problem(self) -> str | None:
        try:
            keys = await self._keys.named(None)
        except ProviderDown:
            keys = ()
        return None if keys else "the keys of the OAuth provider cannot be had"

    def _check(self, header: Mapping[str, Any], claims: Mapping[str, Any]) -> None:
        typ = header.get("typ", "JWT")
        if not isinstance(typ, str) or typ.lower() not in _ACCESS_TOKEN_TYPES | _PLAIN_TYPES:
            raise Refused("typ")
        if _OF_ID_TOKENS & claims.keys():
            raise Refused("ID token")
        if "cnf" in claims:
            # Good only together with a proof that we do not ask for.
            raise Refused("bound to a key")
        if claims.get("iss") != self._expected.issuer:
            raise Refused("issuer")
        if not self._is_for_us(claims.get("aud")):
            raise Refused("audience")

    def _check_times(self, times: _Times) -> None:
        now = self._clock()
        expires, issued, not_before = times
        if expires is None or expires <= now - _SKEW:
            raise Refused("expired")
        if expires - (now if issued is None else issued) > _LONGEST:
            raise Refused("valid for too long")
        if max(issued or 0, not_before or 0) > now + _SKEW:
            raise Refused("not valid yet")

    def _is_for_us(self, audience: Any) -> bool:
        if isinstance(audience, str):
            return audience == self._expected.audience
        if not isinstance(audience, list) or self._expected.audience not in audience:
            return False
        return self._expected.shared_audience or len(audience) == 1

    def _principal(self, claims: Mapping[str, Any], token: str) -> Principal:
        subject = _name(claims.get("sub"))
        if subject is None:
            raise Refused("no subject")
        return Principal(
            issuer=self._expected.issuer_name or self._expected.issuer,
            subject=subject,
            client=_name(claims.get("client_id")) or _name(claims.get("azp")) or "",
            org=self._org(claims),
            projects=tuple(
                name for entry in _listed(claims.get(self._expected.projects_claim)) if (name := _name(entry))
            ),
            scopes=scopes.grant(_scopes(claims)),
            brain=self._brain(claims),
            email=_email(claims),
            token=token if self._keeps_token else None,
            known_as=self._naming(subject),
        )

    def _org(self, claims: Mapping[str, Any]) -> str | None:
        said = claims.get(self._expected.org_claim)
        if said is None:
            return None
        if (org := _name(_only(said))) is None:
            raise Refused("organization")
        return org

    def _brain(self, claims: Mapping[str, Any]) -> str | None:
        """The brain that the token is bound to. A claim that is there but names no brain does not allow all brains."""
        claim = self._expected.brain_claim
        if claim is None or claim not in claims:
            return None
        try:
            return check_id(_name(_only(claims[claim])) or "", "brain")
        except GatewayError:
            raise Refused("brain") from None


def _name(said: Any) -> str | None:
    return said if isinstance(said, str) and 0 < len(said) <= _NAME_LENGTH and said.isprintable() else None


def _email(claims: Mapping[str, Any]) -> str | None:
    """The caller's address, unless the provider says that nobody has verified it."""
    said = _name(claims.get("email"))
    return said if said is not None and "@" in said and claims.get("email_verified", True) is True else None


def _only(said: Any) -> Any:
    """The one organization of a token. With several, it is not known which is meant, and the first would be a guess."""
    return said[0] if isinstance(said, list) and len(said) == 1 else said


def _listed(said: Any) -> list[Any]:
    return said if isinstance(said, list) else [said] if said is not None else []


def _scopes(claims: Mapping[str, Any]) -> list[str]:
    """The scopes, by either name that providers have for the claim, as words or as a list."""
    said = [*_listed(claims.get("scope")), *_listed(claims.get("scp"))]
    return [word for entry in said if isinstance(entry, str) for word in entry.split()]
