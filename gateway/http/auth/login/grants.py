"""Grants codes for a login, and tokens for a code or for the last refresh token, and revokes them."""

import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from gateway.config.user_file import User
from gateway.http.auth.inbound import ProviderDown, Refused
from gateway.http.auth.jwt import JwtInbound
from gateway.http.auth.login.clients import BadClient, Clients, short_id
from gateway.http.auth.login.keyring import Broken, Keyring
from gateway.http.auth.login.logins import ACCESS_SECONDS, IDLE_SECONDS, Logins, LoginsDown, Revocations
from gateway.http.auth.login.proofs import Proofs, client_of
from gateway.http.auth.login.users import Users
from gateway.http.auth.signed import claims_of
from gateway.operations import scopes

log = structlog.get_logger()

_CODE_SECONDS: Final = 60
# After this time, everybody has to log in again.
_LOGIN_SECONDS: Final = 180 * 24 * 3600
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")


class Denied(Exception):
    """A refusal in the words of OAuth, for the client; the reason is for the log."""

    def __init__(self, error: str, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.error, self.status = error, status


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for authorization that was checked. It travels sealed, from page to page."""

    client: str
    name: str
    redirect_uri: str
    challenge: str
    scope: str
    """The highest of the scopes that were asked for, which includes all below it."""
    state: str | None
    signs: bool = False
    """Whether the client has to prove who it is whenever it asks for tokens."""

    def granted_to(self, user: User) -> str:
        """The scopes that the client asked for, as far as the user has them."""
        return min(self.scope, user.scope, key=scopes.ORDER.index)


class Grants:
    """Makes codes and tokens, and revokes them. They contain all that they say; the gateway keeps only their use."""

    def __init__(
        self,
        keyring: Keyring,
        users: Users,
        logins: Logins,
        revocations: Revocations,
        clients: Clients,
        *,
        issuer: str,
        audience: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keyring, self._users = keyring, users
        self._logins, self._revocations = logins, revocations
        self._clients, self._proofs = clients, Proofs(issuer, logins, clock)
        self._issuer, self.audience = issuer, audience
        self._clock = clock

    def code(self, asked: Asked, user: User, login: str) -> str:
        """A code for the client that has the verifier of the challenge. It is good once, within a minute."""
        claims = {
            "login": login,
            "client": short_id(asked.client),
            "redirect_uri": asked.redirect_uri,
            "challenge": asked.challenge,
            "scope": asked.granted_to(user),
            "user": user.name,
            "version": self._users.version_of(user.name),
            "began": int(self._clock()),
            "signs": asked.signs,
        }
        return self._keyring.seal("code", claims, _CODE_SECONDS)

    async def redeem(self, given: Mapping[str, str]) -> Mapping[str, Any]:
        """The tokens for a code. Raises: Denied."""
        said = await self._opened("code", given, "code")
        if given.get("redirect_uri") != said["redirect_uri"]:
            raise Denied("invalid_grant", "another redirect_uri")
        if not _is_verifier(given.get("code_verifier", ""), said["challenge"]):
            raise Denied("invalid_grant", "not the verifier")
        return await self._issue(said, 0)

    async def refresh(self, given: Mapping[str, str]) -> Mapping[str, Any]:
        """New tokens for the last refresh token. Raises: Denied."""
        said = await self._opened("refresh", given, "refresh_token")
        wanted = given.get("scope", "").split()
        if not set(wanted) <= set(scopes.including(said["scope"])):
            raise Denied("invalid_scope", "more than was granted")
        # If fewer scopes are asked for, that holds for this one access token: the grant stays as it is.
        return await self._issue(said, int(said["step"]), max(wanted, key=scopes.ORDER.index, default=None))

    async def revoke(self, given: Mapping[str, str], access: JwtInbound) -> None:
        """End the login of a token. A token that is not ours, or no longer valid, is ignored."""
        login = await self._login_of(given, access)
        if login is None:
            return
        try:
            await self._logins.revoke(login, IDLE_SECONDS)
        except LoginsDown as error:
            raise Denied("temporarily_unavailable", str(error), 503) from None
        self._revocations.note(login)
        log.info("login.revoked", login=login)

    async def _login_of(self, given: Mapping[str, str], access: JwtInbound) -> str | None:
        token, client = given.get("token", ""), given.get("client_id", "")
        try:
            said = self._keyring.open("refresh", token)
            return str(said["login"]) if said["client"] == short_id(client) else None
        except Broken:
            pass
        try:
            principal = await access.principal(token)
        except (Refused, ProviderDown):
            return None
        return str(claims_of(token)["login"]) if principal.client == short_id(client) else None

    async def _opened(self, kind: str, given: Mapping[str, str], name: str) -> Mapping[str, Any]:
        client_id = client_of(given)
        if name not in given or client_id is None:
            raise Denied("invalid_request", f"no {name} or no client_id")
        if given.get("resource", self.audience) != self.audience:
            raise Denied("invalid_target", "another resource")
        try:
            said = self._keyring.open(kind, given[name])
        except Broken as error:
            raise Denied("invalid_grant", f"{name}: {error}") from None
        if said["client"] != short_id(client_id):
            raise Denied("invalid_grant", "of another client")
        # A code or refresh token of an earlier version says nothing of this.
        if said.get("signs"):
            await self._check_client(client_id, given)
        return said

    async def _check_client(self, client_id: str, given: Mapping[str, str]) -> None:
        """Check that the client is the one it says, by what it has signed. Raises: Denied."""
        try:
            client = await self._clients.find(client_id)
            if client.keys is None:
                raise Refused("it no longer publishes keys")
            await self._proofs.check(client.id, client.keys, given)
        except (BadClient, Refused) as error:
            raise Denied("invalid_client", str(error), 401) from None
        except (ProviderDown, LoginsDown) as error:
            raise Denied("temporarily_unavailable", str(error), 503) from None

    async def _issue(self, said: Mapping[str, Any], step: int, scope: str | None = None) -> Mapping[str, Any]:
        user = self._users.named(said["user"], said["version"])
        if user is None:
            raise Denied("invalid_grant", "the user is gone or has changed")
        left = said["began"] + _LOGIN_SECONDS - self._clock()
        if left <= 0:
            raise Denied("invalid_grant", "the login is too old")
        try:
            is_next = await self._logins.take_step(said["login"], step, min(IDLE_SECONDS, left))
        except LoginsDown as error:
            raise Denied("temporarily_unavailable", str(error), 503) from None
        if not is_next:
            self._revocations.note(said["login"])
            raise Denied("invalid_grant", "used before, or revoked: the login is ended")
        kept = ("login", "client", "scope", "user", "version", "began", "signs")
        refresh = {**{name: said[name] for name in kept if name in said}, "step": step + 1}
        log.info("login.tokens", user=user.name, client=said["client"], step=step)
        return {
            "access_token": self._access_token(said, user, scope or said["scope"]),
            "token_type": "Bearer",
            "expires_in": ACCESS_SECONDS,
            "refresh_token": self._keyring.seal("refresh", refresh, min(IDLE_SECONDS, left)),
            "scope": " ".join(scopes.including(scope or said["scope"])),
        }

    def _access_token(self, said: Mapping[str, Any], user: User, scope: str) -> str:
        now = int(self._clock())
        bound = {} if user.brain is None else {"brain": user.brain}
        of = {} if user.org is None else {"org_id": user.org}
        return self._keyring.sign(
            {
                "iss": self._issuer,
                "aud": self.audience,
                "sub": user.subject,
                "client_id": said["client"],
                "scope": " ".join(scopes.including(scope)),
                "iat": now,
                "exp": now + ACCESS_SECONDS,
                "jti": secrets.token_urlsafe(9),
                "projects": list(user.projects),
                "login": said["login"],
                "user": user.name,
                "version": said["version"],
                **bound,
                **of,
            }
        )


def _is_verifier(verifier: str, challenge: str) -> bool:
    if not _VERIFIER.fullmatch(verifier):
        return False
    hashed = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
    return hmac.compare_digest(hashed, challenge.encode())
