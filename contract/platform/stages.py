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
# What a tree of its own holds is told in that tree alone.
TREE_OVERVIEW: Final = "_overview.md"
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
    """If extracted notes in one tree say the same, only the oldest stays."""
    rows = connection.execute(
        """
        SELECT path, content FROM documents JOIN bodies ON document = n
        WHERE brain = ? AND generated AND source = 'extract' ORDER BY created_at, path
        """,
        (brain.n,),
    ).fetchall()
    kept: set[tuple[str, ...]] = set()
    for row in rows:
        stems = (stem for stem in words.stems(bytes(row["content"]).decode()) if stem not in ARTICLES)
        said = (names.tree(row["path"]), *stems)
        if said in kept:
            documents.remove(connection, brain, row["path"])
        kept.add(said)
    return len(rows), len(rows) - len(kept)


def _overview(connection: sqlite3.Connection, brain: Brain) -> int:
    """Bring the overviews up to date, one for each tree that has its own readers. Returns how many were written."""
    rows = connection.execute("SELECT path, title FROM documents WHERE brain = ? ORDER BY path", (brain.n,)).fetchall()
    by_tree: dict[str, list[sqlite3.Row]] = {}
    for row in rows:
        if names.is_indexed(row["path"]) and not row["path"].startswith(names.OF_SESSIONS):
            by_tree.setdefault(names.tree(row["path"]), []).append(row)
    paths = {tree: f"{tree}{TREE_OVERVIEW}" if tree else OVERVIEW for tree in by_tree}
    return sum(_is_written(connection, brain, paths[tree], listed) for tree, listed in by_tree.items())


def _is_written(connection: sqlite3.Connection, brain: Brain, path: str, listed: list[sqlite3.Row]) -> bool:
    present = documents.find(connection, brain, path)
    if present is not None and not present["generated"]:
        return False
    content = _written(listed).encode()
    if present is not None and documents.content(connection, present["n"]) == content:
        return False
    documents.write(connection, brain, Draft(path, content, title="Overview", source="compile", generated=True))
    return True


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
