"""Brains: the rows, and finding one by id or slug."""

import secrets
import sqlite3
from dataclasses import dataclass

from contract.platform import index
from contract.platform.refusal import Refused
from contract.platform.wire import JsonObject, now


@dataclass(frozen=True, slots=True)
class Brain:
    n: int
    id: str
    slug: str
    name: str
    visibility: str
    created_at: str
    updated_at: str

    def record(self) -> JsonObject:
        return {
            "id": self.id,
            "slug": self.slug,
            "name": self.name,
            "visibility": self.visibility,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        }


COLUMNS = "n, id, slug, name, visibility, created_at, updated_at"


def every(connection: sqlite3.Connection) -> list[Brain]:
    """All brains, oldest first."""
    return [Brain(*row) for row in connection.execute(f"SELECT {COLUMNS} FROM brains ORDER BY n")]


def find(connection: sqlite3.Connection, reference: str) -> Brain:
    """A brain by id or slug; an id never looks like a slug, because of its underscore."""
    row = connection.execute(
        f"SELECT {COLUMNS} FROM brains WHERE id = ? OR slug = ?", (reference, reference)
    ).fetchone()
    if row is None:
        raise missing(reference)
    return Brain(*row)


def missing(reference: str) -> Refused:
    return Refused("not_found", f"brain not found: {reference}")


def chunk_count(connection: sqlite3.Connection, brain: Brain) -> int:
    row = connection.execute("SELECT chunks FROM brains WHERE n = ?", (brain.n,)).fetchone()
    if row is None:
        raise missing(brain.id)
    return int(row["chunks"])


def create(connection: sqlite3.Connection, name: str, slug: str, visibility: str) -> Brain:
    if connection.execute("SELECT 1 FROM brains WHERE slug = ?", (slug,)).fetchone():
        raise Refused("conflict", f"brain already exists: {slug}")
    moment = now()
    # Ids are random: a brain made again under an old slug is another brain.
    connection.execute(
        "INSERT INTO brains (id, slug, name, visibility, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)",
        (f"brn_{secrets.token_hex(12)}", slug, name, visibility, moment, moment),
    )
    brain = find(connection, slug)
    index.create(connection, brain.n)
    return brain


def delete(connection: sqlite3.Connection, brain: Brain) -> None:
    index.drop(connection, brain.n)
    connection.execute("DELETE FROM brains WHERE n = ?", (brain.n,))
