"""Documents of a brain, one transaction per call: the file-like operations, batches and listings."""

import fnmatch
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from contract.platform import changes, documents, extract, names
from contract.platform.brains import Brain
from contract.platform.database import Database
from contract.platform.documents import Draft, Prepared
from contract.platform.llm.backlog import ForModel
from contract.platform.meaning.embedder import Embedder
from contract.platform.refusal import Refused
from contract.platform.wire import JsonObject


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of a batch."""

    type: Literal["write", "append", "delete", "rename"]
    path: str
    content: bytes = b""
    to: str = ""


class Library:
    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, brain: Brain, draft: Draft, for_model: ForModel | None = None) -> JsonObject:
        """Store a new document, and the facts of a transcript. If there is a model, it will read the transcript too.

        Raises: Refused, when the path is taken.
        """
        # A transcript may be long, and all writers wait for the write lock.
        transcript = draft.content.decode() if draft.source == "extract" else ""
        facts = list(extract.facts(extract.said_by_users(transcript), with_plain=for_model is None))
        prepared = documents.prepare(draft, self._database.embedder)
        with self._database.writing() as connection:
            if documents.find(connection, brain, draft.path) is not None:
                raise Refused("conflict", f"document already exists: {draft.path}")
            documents.write(connection, brain, prepared)
            extract.remember(connection, brain, facts, {"extracted_from": draft.path}, names.tree(draft.path))
            if for_model is not None and transcript:
                tree = names.tree(draft.path)
                for_model.note(connection, brain, "transcript", draft.path, tree, len(transcript))
            return documents.record(brain, documents.require(connection, brain, draft.path))

    def put(self, brain: Brain, path: str, content: bytes) -> None:
        prepared = documents.prepare(Draft(path, content), self._database.embedder)
        with self._database.writing() as connection:
            documents.write(connection, brain, prepared)

    def append(self, brain: Brain, path: str, addition: bytes) -> None:
        with self._database.writing() as connection:
            documents.append(connection, brain, path, addition)

    def delete(self, brain: Brain, path: str) -> None:
        with self._database.writing() as connection:
            documents.remove(connection, brain, path)

    def rename(self, brain: Brain, path: str, to: str) -> None:
        with self._database.writing() as connection:
            documents.move(connection, brain, path, to)

    def batch(self, brain: Brain, operations: Sequence[Operation], reason: str | None = None) -> int:
        """Apply all operations in order, or none of them. Listeners get the reason."""
        written = [_prepared(operation, self._database.embedder) for operation in operations]
        with self._database.writing() as connection:
            before = changes.latest(connection)
            for operation, prepared in zip(operations, written, strict=True):
                _apply(connection, brain, operation, prepared)
            if reason:
                changes.explain(connection, before, reason)
        return len(operations)

    def read(self, brain: Brain, path: str) -> bytes:
        with self._database.reading() as connection:
            return documents.content(connection, documents.require(connection, brain, path)["n"])

    def exists(self, brain: Brain, path: str) -> bool:
        with self._database.reading() as connection:
            return documents.find(connection, brain, path) is not None

    def stat(self, brain: Brain, path: str) -> JsonObject:
        with self._database.reading() as connection:
            row = documents.find(connection, brain, path)
            if row is not None:
                return {**_file_entry(row), "document": documents.record(brain, row)}
            newest = connection.execute(
                "SELECT max(updated_at) FROM documents WHERE brain = ? AND path > ? AND path < ?",
                (brain.n, f"{path}/", f"{path}0"),
            ).fetchone()[0]
        if newest is None:
            raise documents.missing(path)
        return _directory_entry(path, newest)

    def entries(
        self, brain: Brain, directory: str, *, recursive: bool, include_generated: bool, glob: str
    ) -> list[JsonObject]:
        """What is under a directory, by path. Names that begin with an underscore are generated."""
        with self._database.reading() as connection:
            rows = _under(connection, brain, directory)
        listed = _files(rows, directory) if recursive else _children(rows, directory)
        return [
            entry
            for relative, entry in listed
            if (include_generated or not any(part.startswith("_") for part in relative.split("/")))
            and (not glob or fnmatch.fnmatchcase(names.base_name(relative), glob))
        ]


def _prepared(operation: Operation, embedder: Embedder | None) -> Prepared | None:
    if operation.type != "write":
        return None
    return documents.prepare(Draft(operation.path, operation.content), embedder)


def _apply(connection: sqlite3.Connection, brain: Brain, operation: Operation, prepared: Prepared | None) -> None:
    if prepared is not None:
        documents.write(connection, brain, prepared)
        return
    match operation.type:
        case "append":
            documents.append(connection, brain, operation.path, operation.content)
        case "delete":
            documents.remove(connection, brain, operation.path)
        case "rename":
            documents.move(connection, brain, operation.path, operation.to)


def _under(connection: sqlite3.Connection, brain: Brain, directory: str) -> list[sqlite3.Row]:
    condition, bounds = (
        ("", ()) if not directory else (" AND path > ? AND path < ?", (f"{directory}/", f"{directory}0"))
    )
    return connection.execute(
        f"SELECT path, byte_size, updated_at FROM documents WHERE brain = ?{condition} ORDER BY path",
        (brain.n, *bounds),
    ).fetchall()


def _files(rows: list[sqlite3.Row], directory: str) -> Iterator[tuple[str, JsonObject]]:
    skipped = len(directory) + 1 if directory else 0
    return ((row["path"][skipped:], _file_entry(row)) for row in rows)


def _children(rows: list[sqlite3.Row], directory: str) -> list[tuple[str, JsonObject]]:
    """Files and immediate sub-directories; a directory is as new as the newest file in it."""
    skipped = len(directory) + 1 if directory else 0
    entries: dict[tuple[str, bool], JsonObject] = {}
    for row in rows:
        name, slash, _ = row["path"][skipped:].partition("/")
        if not slash:
            entries[name, False] = _file_entry(row)
            continue
        known = entries.get((name, True))
        newest = max(str(known["mtime"]), row["updated_at"]) if known else row["updated_at"]
        entries[name, True] = _directory_entry(row["path"][: skipped + len(name)], newest)
    return [(name, entry) for (name, _), entry in sorted(entries.items(), key=lambda item: item[0])]


def _file_entry(row: sqlite3.Row) -> JsonObject:
    return {"path": row["path"], "size": row["byte_size"], "mtime": row["updated_at"], "is_dir": False}


def _directory_entry(path: str, mtime: str) -> JsonObject:
    return {"path": path, "size": 0, "mtime": mtime, "is_dir": True}
