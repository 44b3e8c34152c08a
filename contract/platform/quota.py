"""How much one brain may hold."""

import sqlite3
from dataclasses import dataclass
from typing import Final

from contract.platform.refusal import Refused

# Counts documents, and messages without a document: not yet made, or never made, as for messages of tools.
_COUNTS: Final = (
    "SELECT count(*), coalesce(sum(byte_size), 0) FROM documents WHERE brain = ?",
    """
    SELECT count(*), coalesce(sum(length(CAST(content AS BLOB))), 0) FROM sessions JOIN messages ON session = n
    WHERE brain = ? AND (seq > extracted_up_to OR role NOT IN ('user', 'assistant'))
    """,
)


@dataclass(frozen=True, slots=True)
class Quota:
    """Of documents and of their bytes; None where there is no limit."""

    notes: int | None = None
    bytes: int | None = None

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Make counting cheap: without this it would read every document's row."""
        connection.execute("CREATE INDEX IF NOT EXISTS documents_by_size ON documents (brain, byte_size)")

    def check(self, connection: sqlite3.Connection, brain: int) -> None:
        """Whether a brain holds no more than it may, with what was just written to it.

        Raises: Refused. The transaction is then given up, so nothing was.
        """
        notes, size = 0, 0
        for count in _COUNTS:
            more, larger = connection.execute(count, (brain,)).fetchone()
            notes, size = notes + more, size + larger
        if self.notes is not None and notes > self.notes:
            raise Refused("quota_exceeded", f"this brain may hold {self.notes} documents: delete some first")
        if self.bytes is not None and size > self.bytes:
            raise Refused("quota_exceeded", f"this brain may hold {self.bytes} bytes: delete something first")
