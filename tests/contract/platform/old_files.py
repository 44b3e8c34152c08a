"""Brain files as earlier versions left them."""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from contract.platform import database, index

_SCRIPTS = {1: "schema.sql", 2: "changes.sql", 3: "visibility.sql"}
# Vectors as version 4 kept them, with one that no model of today has made.
_VECTORS_OF_VERSION_4 = (
    "CREATE TABLE models (n INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, dimensions INTEGER, unrelated REAL, "
    "related REAL, used_at INTEGER, UNIQUE (name, dimensions))",
    "CREATE TABLE vectors (n INTEGER PRIMARY KEY AUTOINCREMENT, brain INTEGER REFERENCES brains (n) ON DELETE CASCADE, "
    "chunk INTEGER REFERENCES chunks (n) ON DELETE CASCADE, model INTEGER, vector BLOB, UNIQUE (chunk, model))",
    "CREATE INDEX vectors_by_brain ON vectors (brain, model)",
    "CREATE TABLE embedded (brain INTEGER REFERENCES brains (n) ON DELETE CASCADE, "
    "model INTEGER REFERENCES models (n), chunks INTEGER, PRIMARY KEY (brain, model)) WITHOUT ROWID",
    "INSERT INTO models (name, dimensions, used_at) VALUES ('concepts', 16, 0)",
    "INSERT INTO vectors (brain, chunk, model, vector) VALUES (1, 1, 1, zeroblob(32))",
    "INSERT INTO embedded VALUES (1, 1, 1)",
)
_TIME = "2026-01-01T00:00:00+00:00"


def write_file_of_version(version: int, data_dir: Path, documents: Mapping[str, str] | None = None) -> None:
    """A file with one brain, `main`, that holds these documents, each of them indexed as one chunk."""
    data_dir.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(data_dir / database.FILE_NAME, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        for number in range(1, min(version, 3) + 1):
            database._execute(connection, _SCRIPTS[number])
        connection.execute(
            "INSERT INTO brains (id, slug, name, visibility, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)",
            ("brn_0123456789abcdef01234567", "main", "Main", "private", _TIME, _TIME),
        )
        index.create(connection, 1)
        for number, (path, text) in enumerate((documents or {}).items(), start=1):
            connection.execute(
                "INSERT INTO documents (n, brain, path, title, source, content_type, byte_size, checksum_sha256, "
                "metadata, generated, created_at, updated_at) "
                "VALUES (?, 1, ?, ?, 'ingest', 'text/markdown', ?, '', ?, 0, ?, ?)",
                (number, path, path, len(text), json.dumps({}), _TIME, _TIME),
            )
            connection.execute("INSERT INTO bodies VALUES (?, ?)", (number, text.encode()))
            connection.execute("INSERT INTO chunks VALUES (?, ?, 0)", (number, number))
            connection.execute(
                "INSERT INTO words_1 (rowid, title, tags, text, grams) VALUES (?, '', '', ?, '')", (number, text)
            )
        connection.execute("UPDATE brains SET chunks = ?", (len(documents or {}),))
        for statement in _VECTORS_OF_VERSION_4 if version == 4 else ():
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")
