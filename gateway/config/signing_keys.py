"""The keys that the gateway signs with: a file with the active key, the next one, and retired ones."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, import_key

from gateway.config.reread_file import RereadFile

Algorithm = Literal["ES256", "Ed25519"]
ALGORITHMS: Final = ("ES256", "Ed25519")
_PUBLIC: Final = ("kty", "crv", "x", "y")
# A token is valid for a minute, and a platform keeps the public keys for five minutes.
_RETIRED_FOR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class SigningKey:
    """One key and its place in the rotation: `next`, `active` or `retired`."""

    key: ECKey | OKPKey
    status: str
    since: str

    @property
    def kid(self) -> str:
        return str(self.key.get("kid"))

    @property
    def algorithm(self) -> str:
        return "ES256" if isinstance(self.key, ECKey) else "Ed25519"

    def public(self) -> Mapping[str, Any]:
        said = self.key.as_dict(private=False)
        shown: dict[str, Any] = {str(name): value for name, value in said.items() if name in _PUBLIC}
        return {**shown, "use": "sig", "alg": self.algorithm, "kid": self.kid}

    def entry(self) -> Mapping[str, Any]:
        return {**self.key.as_dict(private=True), "kid": self.kid, "status": self.status, "since": self.since}


class SigningKeys:
    """The current keys of the file."""

    def __init__(self, path: Path) -> None:
        self._file = RereadFile(path, parse)

    def active(self) -> SigningKey:
        return next(key for key in self._file.value() if key.status == "active")

    def published(self) -> Mapping[str, Any]:
        """The public halves of all keys, so that a platform knows the next key before it is used."""
        return {"keys": [key.public() for key in self._file.value()]}

    @property
    def is_current(self) -> bool:
        self._file.value()
        return self._file.is_current


def parse(body: bytes) -> Sequence[SigningKey]:
    """The keys of a file. Raises ValueError."""
    try:
        entries = json.loads(body)["keys"]
        keys = [_parse_entry(entry) for entry in entries]
    except (KeyError, TypeError, AttributeError, RecursionError, JoseError) as error:
        raise ValueError("the file holds no signing keys") from error
    if sum(key.status == "active" for key in keys) != 1:
        raise ValueError("the file must have one active key")
    return keys


def _parse_entry(entry: Mapping[str, Any]) -> SigningKey:
    key = import_key(dict(entry))
    if not isinstance(key, ECKey | OKPKey) or not key.is_private or key.get("crv") not in {"P-256", "Ed25519"}:
        raise ValueError("a signing key must be a private key on P-256 or Ed25519")
    if not key.get("kid") or entry.get("status") not in {"next", "active", "retired"}:
        raise ValueError("a signing key needs a kid and a status")
    return SigningKey(key, str(entry["status"]), str(entry.get("since", "")))


def begin(algorithm: Algorithm, now: datetime | None = None) -> Sequence[SigningKey]:
    """A first key to sign with, and the one after it."""
    return [_make(algorithm, "active", now), _make(algorithm, "next", now)]


def rotate(keys: Sequence[SigningKey], algorithm: Algorithm, now: datetime | None = None) -> Sequence[SigningKey]:
    """The next key becomes active, the active one is retired, and keys that were retired long enough are removed."""
    moment = now or datetime.now(UTC)
    kept = [key for key in keys if key.status == "retired" and not _is_over(key, moment)]
    since = moment.isoformat(timespec="seconds")
    retired = [SigningKey(key.key, "retired", since) for key in keys if key.status == "active"]
    active = [SigningKey(key.key, "active", since) for key in keys if key.status == "next"][:1]
    return [*(active or [_make(algorithm, "active", now)]), _make(algorithm, "next", now), *retired, *kept]


def serialize(keys: Sequence[SigningKey]) -> bytes:
    return (json.dumps({"keys": [key.entry() for key in keys]}, indent=2) + "\n").encode()


def _make(algorithm: Algorithm, status: str, now: datetime | None) -> SigningKey:
    key = ECKey.generate_key("P-256") if algorithm == "ES256" else OKPKey.generate_key("Ed25519")
    named = import_key({**key.as_dict(private=True), "kid": key.thumbprint()})
    assert isinstance(named, ECKey | OKPKey)
    return SigningKey(named, status, (now or datetime.now(UTC)).isoformat(timespec="seconds"))


def _is_over(key: SigningKey, now: datetime) -> bool:
    try:
        return datetime.fromisoformat(key.since) + _RETIRED_FOR < now
    except (ValueError, TypeError):
        return True
