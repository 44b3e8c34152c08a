"""What the gateway shows the platform: a token of its own, the caller's, or one it signs for the caller."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote

from joserfc import jwt

from gateway.config.reread_file import RereadFile
from gateway.config.signing_keys import SigningKeys
from gateway.operations import scopes
from gateway.operations.caller import LOCAL, Call
from gateway.operations.names import private_tree

TYP: Final = "brains-gw+jwt"
_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the platform is, and the bearer it wants of a gateway that has one of its own."""

    url: str
    token: str | None = None


class Credentials(Protocol):
    def headers(self, endpoint: Endpoint, call: Call) -> Mapping[str, str]:
        """The headers of one request, for the caller of this call alone."""
        ...


class Static:
    """The same for all callers: for one user, or for one tenant."""

    def headers(self, endpoint: Endpoint, call: Call) -> Mapping[str, str]:
        return {} if endpoint.token is None else {"authorization": f"Bearer {endpoint.token}"}


class Telling:
    """For the embedded brain of a gateway with many tenants: its token, and who calls."""

    def headers(self, endpoint: Endpoint, call: Call) -> Mapping[str, str]:
        principal = call.caller.principal
        if principal is LOCAL:
            return Static().headers(endpoint, call)
        owner = {"x-brains-caller": private_tree(principal.issuer, principal.subject)}
        org = {} if principal.org is None else {"x-brains-org": quote(principal.org, safe="")}
        return {**Static().headers(endpoint, call), **owner, **org}


class Passthrough:
    """The caller's own token, if the platform checks it itself. This is the only place that sees it."""

    def headers(self, endpoint: Endpoint, call: Call) -> Mapping[str, str]:
        token = call.caller.principal.token
        return {} if token is None else {"authorization": f"Bearer {token}"}


class Internal:
    """Signed for each request: who calls, for which organization and project, and with the least scope."""

    def __init__(
        self,
        keys: SigningKeys,
        *,
        issuer: str,
        audience: str,
        internal_key: RereadFile[str] | None = None,
        every_project: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`every_project` is whether every caller may use every project, as with one tenant."""
        self._keys = keys
        self._issuer, self._audience = issuer, audience
        self._internal_key = internal_key
        self._every_project = every_project
        self._clock = clock

    def headers(self, endpoint: Endpoint, call: Call) -> Mapping[str, str]:
        bearer = {"authorization": f"Bearer {self._sign(call)}"}
        if self._internal_key is None:
            return bearer
        return {**bearer, "x-internal-key": self._internal_key.value()}

    def _sign(self, call: Call) -> str:
        key, principal, now = self._keys.active(), call.caller.principal, int(self._clock())
        project = call.caller.project
        claims = {
            "iss": self._issuer,
            "aud": self._audience,
            "sub": principal.subject,
            "user_id": principal.subject,
            "email": principal.email,
            "sub_iss": principal.issuer or None,
            "act": {"client_id": principal.client} if principal.client else None,
            "org_id": principal.org,
            # A signed project counts as verified, so it must be one of the caller's.
            "project_id": project if self._every_project() or project in principal.projects else None,
            # The scope that this tool needs, and never more than the caller has.
            "scope": " ".join(s for s in scopes.ORDER if s in principal.scopes & scopes.grant([call.scope])),
            "txn": call.request_id,
            "iat": now,
            "exp": now + _SECONDS,
        }
        header = {"alg": key.algorithm, "kid": key.kid, "typ": TYP}
        said = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(header, said, key.key, algorithms=[key.algorithm])
