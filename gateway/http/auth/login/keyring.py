"""The keys of logins. Each is made from one secret of a file, and seals and signs."""

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jwe, jws
from joserfc.errors import JoseError
from joserfc.jwk import OctKey, OKPKey

from gateway.config.reread_file import RereadFile, state_keys

_SEALING: Final = ("dir", "A256GCM")
_SIGNING: Final = "Ed25519"
_SEALED_LENGTH: Final = 8192


class Broken(Exception):
    """A sealed value that is not ours, not of this kind, changed, or too old. The reason is for the log."""


@dataclass(frozen=True, slots=True)
class LoginKey:
    """One secret, in the two forms it is used in."""

    kid: str
    seal: OctKey
    sign: OKPKey


class Keyring:
    """Seals and signs with the first key of the file, and accepts what any key of the file made.

    Sealed values are JWE, which only we can read; access tokens are signed JWT, as those of any provider.
    """

    def __init__(self, path: Path, issuer: str, clock: Callable[[], float] = time.time) -> None:
        """Raises: OSError, ValueError."""
        self._file: RereadFile[Sequence[LoginKey]] = RereadFile(
            path, lambda body: [_login_key(secret, issuer) for secret in state_keys(body)]
        )
        self._clock = clock

    @property
    def is_current(self) -> bool:
        self._file.value()
        return self._file.is_current

    async def named(self, kid: str | None) -> Sequence[OKPKey]:
        """The keys that access tokens may be signed with, for the check of tokens."""
        return [key.sign for key in self._file.value() if kid in (None, key.kid)]

    def sign(self, claims: Mapping[str, Any]) -> str:
        """An access token."""
        key = self._file.value()[0]
        header = {"alg": _SIGNING, "typ": "at+jwt", "kid": key.kid}
        return jws.serialize_compact(header, json.dumps(claims), key.sign, algorithms=[_SIGNING])

    def seal(self, kind: str, claims: Mapping[str, Any], seconds: float) -> str:
        """Seal a value, so that only we can read it, only for its purpose, and only for so many seconds."""
        key = self._file.value()[0]
        header = {"alg": _SEALING[0], "enc": _SEALING[1], "typ": kind, "kid": key.kid}
        said = json.dumps({**claims, "exp": int(self._clock() + seconds)}, separators=(",", ":")).encode()
        return jwe.encrypt_compact(header, said, key.seal, algorithms=list(_SEALING))

    def open(self, kind: str, sealed: str) -> Mapping[str, Any]:
        """Raises: Broken."""
        if len(sealed) > _SEALED_LENGTH or not sealed.isascii():
            raise Broken("not sealed")
        for key in self._file.value():
            try:
                opened = jwe.decrypt_compact(sealed, key.seal, algorithms=list(_SEALING))
                said = json.loads(opened.plaintext or b"")
            except (JoseError, ValueError, TypeError, KeyError, RecursionError):
                continue
            if opened.headers().get("typ") != kind:
                raise Broken("of another kind")
            if said["exp"] <= self._clock():
                raise Broken("expired")
            return dict(said)
        raise Broken("not sealed by us")


def _login_key(secret: bytes, issuer: str) -> LoginKey:
    """Each use and each issuer has its own key, so two gateways with one file do not accept each other's values."""

    def derive(use: str) -> bytes:
        return hmac.digest(secret, f"brains-gateway login {use} {issuer}".encode(), hashlib.sha256)

    pem = Ed25519PrivateKey.from_private_bytes(derive("sign")).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    kid = derive("kid").hex()[:12]
    return LoginKey(kid, OctKey.import_key(derive("seal")), OKPKey.import_key(pem, {"kid": kid}))
