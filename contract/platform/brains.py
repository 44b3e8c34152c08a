"""Brains: their rows, their owners, and finding one by id or slug."""

import secrets
import sqlite3
from dataclasses import dataclass

from contract.platform import index
from contract.platform.refusal import Refused
from contract.platform.wire import JsonObject, now


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller for whom a request is made. Without an owner it is the only tenant, who sees every brain."""

    owner: str | None = None
    org: str | None = None


ANYBODY = Caller()


@dataclass(frozen=True, slots=True)
class Brain:
    n: int
    id: str
    slug: str
    name: str
    visibility: str
    created_at: str
    updated_at: str
    owner: str | None = None
    org: str | None = None

    def record(self) -> JsonObject:
        return {
            "id": self.id,
            "slug": self.slug,
            "name": self.name,
            "visibility": self.visibility,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        }

    def is_seen_by(self, caller: Caller) -> bool:
        """`public` is for all, `tenant` for the owner's organization, `private` for the owner there."""
        if caller.owner is None or self.owner is None or self.visibility == "public":
            return True
        return self.org == caller.org and (self.visibility == "tenant" or self.owner == caller.owner)

    def nearness(self, caller: Caller) -> tuple[bool, bool]:
        """The order of brains with the same slug: the caller's own first, then one of their organization."""
        return self.owner == caller.owner, self.org == caller.org


COLUMNS = "n, id, slug, name, visibility, created_at, updated_at, owner, org"


def every(connection: sqlite3.Connection, caller: Caller = ANYBODY) -> list[Brain]:
    """All brains that a caller sees, oldest first."""
    brains = [Brain(*row) for row in connection.execute(f"SELECT {COLUMNS} FROM brains ORDER BY n")]
    return [brain for brain in brains if brain.is_seen_by(caller)]


def find(connection: sqlite3.Connection, reference: str, caller: Caller = ANYBODY) -> Brain:
    """A brain by id or slug.

    Raises: Refused, in the same words whether it is not there or not the caller's.
    """
    brain = seen_as(connection, reference, caller)
    if brain is None:
        raise missing(reference)
    return brain


def seen_as(connection: sqlite3.Connection, reference: str, caller: Caller) -> Brain | None:
    """What a caller sees under an id or slug; an id never looks like a slug, because of its underscore."""
    known = _known_as(connection, reference, caller)
    return max(known, key=lambda brain: brain.nearness(caller), default=None)


def _known_as(connection: sqlite3.Connection, reference: str, caller: Caller) -> list[Brain]:
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM brains WHERE id = ? OR slug = ? ORDER BY n", (reference, reference)
    )
    return [brain for brain in (Brain(*row) for row in rows) if brain.is_seen_by(caller)]


def numbered(connection: sqlite3.Connection, n: int) -> Brain | None:
    """A brain by its number in the file, if it is still there."""
    row = connection.execute(f"SELECT {COLUMNS} FROM brains WHERE n = ?", (n,)).fetchone()
    return None if row is None else Brain(*row)


def missing(reference: str) -> Refused:
    return Refused("not_found", f"brain not found: {reference}")


def chunk_count(connection: sqlite3.Connection, brain: Brain) -> int:
    row = connection.execute("SELECT chunks FROM brains WHERE n = ?", (brain.n,)).fetchone()
    if row is None:
        raise missing(brain.id)
    return int(row["chunks"])


def create(connection: sqlite3.Connection, name: str, slug: str, visibility: str, caller: Caller = ANYBODY) -> Brain:
    # A brain that the caller may not see does not block a name, because a conflict would reveal it.
    if _known_as(connection, slug, caller):
        raise Refused("conflict", f"brain already exists: {slug}")
    moment = now()
    # Ids are random, because a brain that is made again with an old slug is another brain.
    brain_id = f"brn_{secrets.token_hex(12)}"
    connection.execute(
        "INSERT INTO brains (id, slug, name, visibility, created_at, updated_at, owner, org) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (brain_id, slug, name, visibility, moment, moment, caller.owner, caller.org),
    )
    brain = find(connection, brain_id)
    index.create(connection, brain.n)
    return brain


def delete(connection: sqlite3.Connection, brain: Brain) -> None:
    index.drop(connection, brain.n)
    connection.execute("DELETE FROM brains WHERE n = ?", (brain.n,))
