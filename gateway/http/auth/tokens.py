"""API tokens: callers with a token of the file are let in. The file is read again when it changes."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from gateway.config.reread_file import RereadFile
from gateway.config.token_file import Record, digest, parse
from gateway.http.auth.inbound import Naming, Refused
from gateway.operations import scopes
from gateway.operations.caller import Principal

ISSUER: Final = "brains-gateway:tokens"


class Tokens:
    """Lets in callers with a token of the file that is neither expired nor revoked."""

    tells_apart = True
    wants = "Send a token of this gateway: Authorization: Bearer <token>."

    def __init__(self, path: Path, naming: Naming = str) -> None:
        self._naming = naming
        # Without the file no token is valid.
        self._file: RereadFile[Mapping[str, Record]] = RereadFile(
            path, lambda body: {record.sha256: record for record in parse(body)}, without={}
        )

    async def principal(self, token: str) -> Principal:
        record = self._file.value().get(digest(token))
        if record is None:
            raise Refused("unknown token")
        if (state := record.state(datetime.now(UTC))) != "active":
            raise Refused(f"{state} token {record.id} ({self._naming(record.name)})")
        return principal_of(record, self._naming)

    async def problem(self) -> str | None:
        self._file.value()
        return None if self._file.is_current else "the file of tokens cannot be read"


def principal_of(record: Record, naming: Naming = str) -> Principal:
    """The principal of a token. Private notes belong to issuer and subject, so these must not change for a token."""
    return Principal(
        issuer=ISSUER,
        subject=record.subject,
        client=record.id,
        org=record.org,
        projects=record.projects,
        scopes=scopes.grant([record.scope]),
        brain=record.brain,
        brain_in_path=record.brain is None,
        known_as=naming(record.name),
    )
