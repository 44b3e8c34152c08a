"""The public keys of an OAuth provider: found by discovery, kept, and good for a day when the provider is down."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import structlog
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey, import_key

from gateway.http.auth.inbound import ProviderDown

log = structlog.get_logger()

_FRESH_SECONDS: Final = 600.0
_KEPT_SECONDS: Final = 24 * 3600.0
# An unknown key makes us ask again, but invented tokens must not cause a request each.
_ASKED_EVERY: Final = 5.0
_ANSWER_BYTES: Final = 512 * 1024
_MOST_KEYS: Final = 100
_TIMEOUT: Final = httpx.Timeout(5.0)
_WALL_SECONDS: Final = 10.0


class ProviderKeys:
    """The keys that a provider publishes, asked for when they are needed and no more often than that."""

    def __init__(
        self,
        issuer: str,
        jwks_url: str | None,
        http: httpx.AsyncClient,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer, self._jwks_url = issuer, jwks_url
        self._http = http
        self._clock = clock
        self._keys: Sequence[Key] = ()
        self._fetched = -_KEPT_SECONDS
        self._asked = -_ASKED_EVERY
        self._asking: asyncio.Task[None] | None = None

    async def named(self, kid: str | None) -> Sequence[Key]:
        """The keys of that name, or all where the token names none; empty when there are none.

        Raises:
            ProviderDown: they are not known, because the provider does not answer.
        """
        found = self._known(kid)
        age = self._clock() - self._fetched
        if found and age < _KEPT_SECONDS:
            if age > _FRESH_SECONDS and self._may_ask():
                # Meanwhile the known keys stay valid.
                self._ask()
            return found
        if self._asking is not None or self._may_ask():
            await self._fetch_json()
        elif age >= _KEPT_SECONDS:
            raise ProviderDown("keys are too old")
        elif self._asked > self._fetched:
            raise ProviderDown("the last request for keys failed")
        return self._known(kid)

    def _known(self, kid: str | None) -> Sequence[Key]:
        return [key for key in self._keys if kid is None or key.get("kid") == kid]

    def _may_ask(self) -> bool:
        return self._clock() - self._asked >= _ASKED_EVERY

    def _ask(self) -> asyncio.Task[None]:
        if self._asking is None:
            self._asked = self._clock()
            self._asking = asyncio.create_task(self._fetch())
            self._asking.add_done_callback(self._done)
        return self._asking

    async def _fetch_json(self) -> None:
        """One request for all who wait. It goes on if one of them leaves."""
        try:
            await asyncio.shield(self._ask())
        except Exception as error:  # whatever the provider sent, there are no keys
            raise ProviderDown(type(error).__name__) from error

    def _done(self, task: asyncio.Task[None]) -> None:
        self._asking = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("provider.unavailable", error=type(error).__name__, reason=str(error)[:200])

    async def _fetch(self) -> None:
        async with asyncio.timeout(_WALL_SECONDS):
            url = self._jwks_url or await self._discover()
            keys = usable_keys(await self._json(url))
        if not keys:
            raise ValueError("the provider publishes no key that signs")
        self._keys, self._fetched = keys, self._clock()

    async def _discover(self) -> str:
        parts = urlsplit(self._issuer)
        path = parts.path.rstrip("/")
        candidates = (
            f"{self._issuer.rstrip('/')}/.well-known/openid-configuration",
            f"{parts.scheme}://{parts.netloc}/.well-known/oauth-authorization-server{path}",
        )
        for url in candidates:
            with suppress(httpx.HTTPStatusError):
                said = await self._json(url)
                if not isinstance(said, dict) or said.get("issuer") != self._issuer:
                    raise ValueError("the provider's metadata name another issuer")
                if not is_safe_url(str(said.get("jwks_uri"))):
                    raise ValueError("the provider's metadata have no safe jwks_uri")
                return str(said["jwks_uri"])
        raise ValueError("the provider has no metadata")

    async def _json(self, url: str) -> Any:
        async with self._http.stream("GET", url, headers={"accept": "application/json"}, timeout=_TIMEOUT) as response:
            if response.status_code != 200:
                response.raise_for_status()
                raise httpx.HTTPStatusError("not the answer", request=response.request, response=response)
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > _ANSWER_BYTES:
                    raise ValueError("the provider's answer is too large")
        return json.loads(body)


def usable_keys(said: Any) -> Sequence[Key]:
    """The public signature keys of a JWK set. Others, and those that we do not understand, are left out."""
    entries = said.get("keys") if isinstance(said, dict) else None
    if not isinstance(entries, list):
        raise ValueError("the provider's keys are not a JWK set")
    keys: list[Key] = []
    for entry in entries[:_MOST_KEYS]:
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or entry.get("kty") == "oct":
            continue
        with suppress(JoseError, ValueError, TypeError, KeyError):
            # A key is held to the name it is published with, and this algorithm has two.
            named = {"alg"} if entry.get("alg") in {"EdDSA", "Ed25519"} else set()
            key = import_key({name: value for name, value in entry.items() if name not in named})
            if isinstance(key, RSAKey | ECKey | OKPKey):
                keys.append(key)
    return keys


def is_safe_url(url: str) -> bool:
    """https, or plain http on this very machine."""
    try:
        parts, _port = urlsplit(url), urlsplit(url).port
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in {"127.0.0.1", "::1", "localhost"})
