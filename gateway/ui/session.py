"""The sealed cookie of a browser: the token of the person who logged in, and a word that is also in our forms."""

import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import OctKey
from starlette.types import Scope

_ALGORITHMS: Final = ["dir", "A256GCM"]
_HEADER: Final = {"alg": "dir", "enc": "A256GCM"}
# The same keys seal other values, so each use has a key of its own.
_PURPOSE: Final = b"brains-gateway page"
_LONGEST_SECONDS: Final = 7 * 24 * 3600
# What browsers keep of one cookie, with its name and attributes.
COOKIE_BYTES: Final = 3800
_COOKIE: Final = re.compile(r"(?:^|;) *(__Host-brains|brains)=([A-Za-z0-9._-]+)")


@dataclass(frozen=True, slots=True)
class Session:
    """One browser, whoever is in front of it."""

    token: str | None = field(default=None, repr=False)
    proof: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    """Stands in every form of ours, where no other page can read it."""

    def proves(self, given: str) -> bool:
        return hmac.compare_digest(self.proof.encode(), given.encode("utf-8", "replace"))


class Seal:
    """Seals sessions so that nobody else can read or make one. The first key seals, and each of them opens."""

    def __init__(self, keys: Sequence[bytes], clock: Callable[[], float] = time.time) -> None:
        self._keys = [OctKey.import_key(hmac.digest(key, _PURPOSE, hashlib.sha256)) for key in keys]
        self._clock = clock

    def close(self, session: Session) -> str:
        said = {"token": session.token, "proof": session.proof, "at": int(self._clock())}
        return jwe.encrypt_compact(_HEADER, json.dumps(said).encode(), self._keys[0], algorithms=_ALGORITHMS)

    def open(self, sealed: str) -> Session | None:
        """The session; None if it is not ours, or too old."""
        for key in self._keys:
            try:
                opened = jwe.decrypt_compact(sealed, key, algorithms=_ALGORITHMS).plaintext
            except (JoseError, ValueError):
                continue
            said: dict[str, Any] = json.loads(opened or b"{}")
            is_fresh = 0 <= self._clock() - said["at"] + 60 < _LONGEST_SECONDS
            return Session(said["token"], said["proof"]) if is_fresh else None
        return None

    def session_of(self, scope: Scope) -> Session | None:
        """The session of the browser that sent the request."""
        name = cookie_name(is_secure=is_secure(scope))
        given = [value.decode("latin-1") for header, value in scope["headers"] if header == b"cookie"]
        found = [sealed for cookie, sealed in _COOKIE.findall(";".join(given)) if cookie == name]
        # If there are two, one is from another server that may set cookies for this name.
        return self.open(found[0]) if len(found) == 1 else None


def is_secure(scope: Scope) -> bool:
    return bool(scope["scheme"] == "https" or scope.get("state", {}).get("is_https"))


def cookie_name(*, is_secure: bool) -> str:
    return "__Host-brains" if is_secure else "brains"


def set_cookie(sealed: str, *, is_secure: bool) -> str:
    """The header that makes a browser keep this; without a value, forget it."""
    kept = f"Max-Age={_LONGEST_SECONDS}" if sealed else "Max-Age=0"
    secure = "; Secure" if is_secure else ""
    return f"{cookie_name(is_secure=is_secure)}={sealed}; Path=/; HttpOnly; SameSite=Strict; {kept}{secure}"
