"""The log of changes of documents, for listeners in every process that shares the file."""

import sqlite3
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from contract.platform.brains import Brain, missing
from contract.platform.database import Database
from contract.platform.wire import JsonObject, now

# For all brains together. A listener that falls further behind has to begin again.
KEPT: Final = 10_000
READ_AT_ONCE: Final = 500
REASON_LIMIT: Final = 512

Kind: TypeAlias = Literal["created", "updated", "deleted", "renamed"]


class Behind(Exception):
    """Some changes since then are no longer in the log."""


@dataclass(frozen=True, slots=True)
class Change:
    n: int
    kind: str
    path: str
    old_path: str | None
    reason: str | None
    at: str

    def record(self) -> JsonObject:
        more = {"old_path": self.old_path, "reason": self.reason}
        told = {name: value for name, value in more.items() if value is not None}
        return {"kind": self.kind, "path": self.path, "when": self.at, **told}


class Changes:
    def __init__(self, database: Database) -> None:
        self._database = database

    def latest(self) -> int:
        """The number of the last change in any brain."""
        with self._database.reading() as connection:
            return latest(connection)

    def after(self, brain: Brain, n: int) -> tuple[list[Change], int]:
        """The changes in a brain since a number, the oldest first, and the number up to which they are complete.

        Raises: Refused, when the brain is gone; Behind.
        """
        with self._database.reading() as connection:
            if connection.execute("SELECT 1 FROM brains WHERE n = ?", (brain.n,)).fetchone() is None:
                raise missing(brain.id)
            last = latest(connection)
            if n < last - KEPT:
                raise Behind
            rows = connection.execute(
                "SELECT n, kind, path, old_path, reason, at FROM changes WHERE n > ? AND brain = ? ORDER BY n LIMIT ?",
                (n, brain.n, READ_AT_ONCE),
            ).fetchall()
        changes = [Change(*row) for row in rows]
        return changes, changes[-1].n if len(changes) == READ_AT_ONCE else last


def latest(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").fetchone()
    return 0 if row is None else int(row["seq"])


def note(connection: sqlite3.Connection, brain: int, kind: Kind, path: str, old_path: str | None = None) -> None:
    """Record a change, in the transaction that makes it."""
    number = connection.execute(
        "INSERT INTO changes (brain, kind, path, old_path, at) VALUES (?, ?, ?, ?, ?)",
        (brain, kind, path, old_path, now()),
    ).lastrowid
    assert number is not None
    connection.execute("DELETE FROM changes WHERE n <= ?", (number - KEPT,))


def explain(connection: sqlite3.Connection, since: int, reason: str) -> None:
    """Record the reason for all changes of this transaction since a number."""
    connection.execute("UPDATE changes SET reason = ? WHERE n > ?", (reason[:REASON_LIMIT], since))
