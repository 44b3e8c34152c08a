"""The file of API tokens: hashed, bound, expiring, revocable."""

import base64
import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

from pydantic import AwareDatetime, BaseModel, ConfigDict, StringConstraints

from gateway.config.reread_file import locked_file, replace_file
from gateway.operations import scopes

PREFIX: Final = "bgt_"
_Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Record(BaseModel):
    """One token, as the file keeps it: never the token itself."""

    model_config = ConfigDict(extra="allow", frozen=True)

    id: str
    sha256: _Hash
    name: str
    subject: str
    scope: str = scopes.READ
    brain: str | None = None
    org: str | None = None
    projects: tuple[str, ...] = ()
    created: AwareDatetime
    expires: AwareDatetime | None = None
    revoked: AwareDatetime | None = None

    def state(self, now: datetime) -> str:
        if self.revoked is not None:
            return "revoked"
        if any(value is not None for value in (self.model_extra or {}).values()):
            # An unknown field is misspelt, or is a limit that only a newer version knows. Without that limit the
            # token might allow too much, so it is invalid.
            return "not understood"
        return "expired" if self.expires is not None and self.expires <= now else "active"


class _File(BaseModel):
    model_config = ConfigDict(extra="allow")

    tokens: list[Record]


def parse(body: bytes) -> list[Record]:
    """The records of a file. Raises ValueError."""
    return _File.model_validate_json(body).tokens


def digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def make_token() -> str:
    """A new token: 256 bits, and a prefix that scanners for leaked secrets can look for."""
    return PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()


@contextmanager
def change(path: Path) -> Iterator[list[Record]]:
    """The records. Change them in place. They are written whole, by one process at a time, readable by us alone."""
    with locked_file(path):
        file = _File.model_validate_json(path.read_bytes()) if path.exists() else _File(tokens=[])
        yield file.tokens
        replace_file(path, file.model_dump_json(indent=2, exclude_none=True).encode() + b"\n")
