"""Consolidation by rule: duplicate extracted notes go, an overview is kept; what a caller wrote is never touched."""

import sqlite3
from itertools import groupby
from typing import Final

from contract.platform import documents, names, words
from contract.platform.brains import Brain
from contract.platform.database import Database
from contract.platform.documents import Draft
from contract.platform.wire import JsonObject

OVERVIEW: Final = "wiki/_overview.md"
LISTED_PER_FOLDER: Final = 200
ARTICLES: Final = frozenset({"a", "an", "the"})


class Stages:
    def __init__(self, database: Database) -> None:
        self._database = database

    def consolidate(self, brain: Brain) -> JsonObject:
        with self._database.writing() as connection:
            reviewed, removed = _without_duplicates(connection, brain)
            return {
                "method": "rule-based",
                "notes_reviewed": reviewed,
                "duplicates_removed": removed,
                "summaries_written": _overview(connection, brain),
            }

    def compile(self, brain: Brain) -> JsonObject:
        with self._database.writing() as connection:
            return {"method": "rule-based", "summaries_written": _overview(connection, brain)}


def _without_duplicates(connection: sqlite3.Connection, brain: Brain) -> tuple[int, int]:
    """Of extracted notes that say the same, the oldest stays."""
    rows = connection.execute(
        """
        SELECT path, content FROM documents JOIN bodies ON document = n
        WHERE brain = ? AND generated AND source = 'extract' ORDER BY created_at, path
        """,
        (brain.n,),
    ).fetchall()
    kept: set[tuple[str, ...]] = set()
    for row in rows:
        said = tuple(stem for stem in words.stems(bytes(row["content"]).decode()) if stem not in ARTICLES)
        if said in kept:
            documents.remove(connection, brain, row["path"])
        kept.add(said)
    return len(rows), len(rows) - len(kept)


def _overview(connection: sqlite3.Connection, brain: Brain) -> int:
    """Bring the overview up to date; how many documents that wrote."""
    rows = connection.execute(
        "SELECT path, title FROM documents WHERE brain = ? AND path != ? ORDER BY path", (brain.n, OVERVIEW)
    ).fetchall()
    listed = [row for row in rows if names.is_indexed(row["path"])]
    present = documents.find(connection, brain, OVERVIEW)
    if not listed or (present is not None and not present["generated"]):
        return 0
    content = _written(listed).encode()
    if present is not None and documents.content(connection, present["n"]) == content:
        return 0
    draft = Draft(OVERVIEW, content, title="Overview", source="compile", generated=True)
    documents.write(connection, brain, draft)
    return 1


def _written(rows: list[sqlite3.Row]) -> str:
    parts = ["# Overview"]
    for folder, group in groupby(rows, key=lambda row: str(row["path"]).rpartition("/")[0]):
        listed = list(group)
        parts.append(f"## {folder or '(root)'} ({len(listed)})")
        lines = [f"- {row['title']} ({row['path']})" for row in listed[:LISTED_PER_FOLDER]]
        parts.append(
            "\n".join(lines + [f"- … and {len(listed) - LISTED_PER_FOLDER} more"] * (len(listed) > LISTED_PER_FOLDER))
        )
    return "\n\n".join(parts) + "\n"
