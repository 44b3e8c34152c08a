"""Programs that prove who they are: with each request for tokens, they sign an assertion (RFC 7523, OpenID Core 9).

The document of such a program says `private_key_jwt` and where its keys are.
"""

import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from joserfc.jwk import Key

from gateway.http.auth.inbound import ProviderDown, Refused
from gateway.http.auth.keys import usable_keys
from gateway.http.auth.login.logins import Logins
from gateway.http.auth.signed import PublicKeys, moment, read, verified
from gateway.operations.errors import GatewayError

METHOD: Final = "private_key_jwt"
Fetch = Callable[[str], Awaitable[tuple[str, bytes]]]
"""Fetches a public page. Returns its address after redirects, and its body. Raises GatewayError."""

_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_SKEW: Final = 60
_LONGEST: Final = 3600
_LENGTH: Final = 8192
_KEYS_BYTES: Final = 64 * 1024
# A program may change its keys at any time. But assertions that name invented keys must not cause a request each.
_ASKED_EVERY: Final = 5.0


class ClientKeys:
    """The keys of one program: those in its document, or those at the address that its document names."""

    def __init__(
        self, keys: Sequence[Key], url: str | None, fetch: Fetch, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._keys, self._url, self._fetch, self._clock = keys, url, fetch, clock
        self._asked = -_ASKED_EVERY

    async def named(self, kid: str | None) -> Sequence[Key]:
        """Raises: ProviderDown."""
        if not self._known(kid) and self._url is not None and self._clock() - self._asked >= _ASKED_EVERY:
            self._asked = self._clock()
            self._keys = await self._fetched(self._url)
        return self._known(kid)

    def _known(self, kid: str | None) -> Sequence[Key]:
        return [key for key in self._keys if kid is None or key.get("kid") == kid]

    async def _fetched(self, url: str) -> Sequence[Key]:
        try:
            there, body = await self._fetch(url)
            if there != url or len(body) > _KEYS_BYTES:
                raise ValueError("elsewhere or too large")
            return usable_keys(json.loads(body))
        except (GatewayError, ValueError, RecursionError) as error:
            # The next request may ask again at once: this one has told nobody which keys there are.
            self._asked = -_ASKED_EVERY
            raise ProviderDown("the keys of the program cannot be fetched") from error


def client_of(given: Mapping[str, str]) -> str | None:
    """The client that a request for tokens names, by itself or in its assertion (RFC 7521). It is not proved yet."""
    if "client_id" in given or "client_assertion" not in given:
        return given.get("client_id")
    try:
        _, claims = read(given["client_assertion"])
    except Refused:
        return None
    named = claims.get("sub")
    return named if isinstance(named, str) else None


class Proofs:
    """Checks the assertions of programs. Each is good once, at whichever replica."""

    def __init__(self, issuer: str, logins: Logins, clock: Callable[[], float] = time.time) -> None:
        # Older programs name the address that they send it to; newer ones name us (RFC 7523bis).
        self._audiences = frozenset({issuer, f"{issuer}/token"})
        self._logins, self._clock = logins, clock

    async def check(self, client_id: str, keys: PublicKeys, given: Mapping[str, str]) -> None:
        """Check that a request is from the program with these keys.

        Raises:
            Refused: it does not prove that.
            ProviderDown: its keys cannot be fetched.
            LoginsDown: it cannot be known whether the assertion was used before.
        """
        assertion = given.get("client_assertion", "")
        if given.get("client_assertion_type") != _TYPE or not 0 < len(assertion) <= _LENGTH:
            raise Refused("no client_assertion")
        claims = (await verified(assertion, keys)).claims
        if not claims.get("iss") == claims.get("sub") == client_id:
            raise Refused("the assertion of another program")
        if not self._is_for_us(claims.get("aud")):
            raise Refused("an assertion for another server")
        expires = self._check_times(claims)
        # Without the signature, because one assertion can have several.
        said = hashlib.sha256(f"{client_id} {assertion.rpartition('.')[0]}".encode()).hexdigest()
        if not await self._logins.take_step(f"assertion {said}", 0, expires + _SKEW - self._clock()):
            raise Refused("an assertion that was used before")

    def _is_for_us(self, audience: Any) -> bool:
        named = [audience] if isinstance(audience, str) else audience
        return isinstance(named, list) and bool(named) and all(one in self._audiences for one in map(str, named))

    def _check_times(self, claims: Mapping[str, Any]) -> float:
        """When it expires. Raises: Refused."""
        now = self._clock()
        expires, begins = moment(claims.get("exp")), max(moment(claims.get(name)) or 0 for name in ("iat", "nbf"))
        if expires is None or expires <= now - _SKEW:
            raise Refused("an assertion that has expired")
        if expires > now + _LONGEST + _SKEW:
            raise Refused("an assertion that is valid for too long")
        if begins > now + _SKEW:
            raise Refused("an assertion that is not valid yet")
        return expires
