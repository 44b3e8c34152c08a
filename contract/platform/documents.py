"""Document rows: reading, writing and moving them inside a transaction that someone else has begun."""

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from contract.platform import changes, index, markdown, names
from contract.platform.brains import Brain
from contract.platform.database import embedder_of, quota_of
from contract.platform.index import Made
from contract.platform.meaning.embedder import Embedder
from contract.platform.refusal import Refused
from contract.platform.wire import JsonObject, Scalar, now

# Appending has no limit of its own on the wire; SQLite cannot hold a value of more than a thousand million bytes.
LARGEST_DOCUMENT: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Draft:
    """A document about to be written. `title` is derived from the content where it is None."""

    path: str
    content: bytes
    title: str | None = None
    source: str = "ingest"
    content_type: str = "text/markdown"
    metadata: Mapping[str, Scalar] = field(default_factory=dict)
    generated: bool = False
    origin_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A draft with everything that can be computed before the write lock is taken, for which all writers wait."""

    draft: Draft
    title: str
    checksum: str
    indexed: Made | None


def document_id(brain: Brain, path: str) -> str:
    return names.identifier("doc", brain.id, path)


def record(brain: Brain, row: sqlite3.Row) -> JsonObject:
    """The DocumentRecord of the wire. There are no commits here: `commit_sha` names the content."""
    return {
        "id": document_id(brain, row["path"]),
        "brain_id": brain.id,
        "title": row["title"],
        "path": row["path"],
        "source": row["source"],
        "content_type": row["content_type"],
        "byte_size": row["byte_size"],
        "checksum_sha256": row["checksum_sha256"],
        "metadata": json.loads(row["metadata"]),
        "commit_sha": row["checksum_sha256"][:40],
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "deleted_at": None,
    }


def missing(path: str) -> Refused:
    return Refused("not_found", f"document not found: {path}")


def find(connection: sqlite3.Connection, brain: Brain, path: str) -> sqlite3.Row | None:
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM documents WHERE brain = ? AND path = ?", (brain.n, path)
    ).fetchone()
    return row


def require(connection: sqlite3.Connection, brain: Brain, path: str) -> sqlite3.Row:
    row = find(connection, brain, path)
    if row is None:
        raise missing(path)
    return row


def content(connection: sqlite3.Connection, document: int) -> bytes:
    return bytes(connection.execute("SELECT content FROM bodies WHERE document = ?", (document,)).fetchone()[0])


def prepare(draft: Draft, embedder: Embedder | None = None) -> Prepared:
    if len(draft.content) > LARGEST_DOCUMENT:
        raise Refused("payload_too_large", f"a document may hold at most {LARGEST_DOCUMENT} bytes")
    text = draft.content.decode("utf-8", "replace")
    title = draft.title or markdown.title_of(text, otherwise=names.stem(draft.path))
    made = index.make(draft.path, title, draft.metadata, text, embedder)
    return Prepared(draft, title, hashlib.sha256(draft.content).hexdigest(), made)


def write(connection: sqlite3.Connection, brain: Brain, given: Draft | Prepared) -> None:
    """Create or replace a document. Its origin stays, because it is still the same file, edited."""
    prepared = prepare(given, embedder_of(connection)) if isinstance(given, Draft) else given
    draft, moment = prepared.draft, now()
    before = find(connection, brain, draft.path)
    inserted = connection.execute(
        """
        INSERT INTO documents (brain, path, title, source, content_type, byte_size, checksum_sha256, metadata,
                               generated, origin_sha256, created_at, updated_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (brain, path) DO UPDATE SET
            title = excluded.title, source = excluded.source, content_type = excluded.content_type,
            byte_size = excluded.byte_size, checksum_sha256 = excluded.checksum_sha256, metadata = excluded.metadata,
            generated = excluded.generated, origin_sha256 = coalesce(excluded.origin_sha256, origin_sha256),
            updated_at = excluded.updated_at
        """,
        (
            brain.n,
            draft.path,
            prepared.title,
            draft.source,
            draft.content_type,
            len(draft.content),
            prepared.checksum,
            json.dumps(dict(draft.metadata), ensure_ascii=False),
            draft.generated,
            draft.origin_sha256,
            moment,
            moment,
        ),
    )
    if before is None:
        number, expires = inserted.lastrowid, None
        assert number is not None
    else:
        number, expires = before["n"], before["expires"]
        index.remove(connection, brain.n, number)
    connection.execute("INSERT OR REPLACE INTO bodies (document, content) VALUES (?, ?)", (number, draft.content))
    index.add(connection, brain.n, number, expires, prepared.indexed)
    changes.note(connection, brain.n, "created" if before is None else "updated", draft.path)
    _check_quota(connection, brain, draft, before)


def _check_quota(connection: sqlite3.Connection, brain: Brain, draft: Draft, before: sqlite3.Row | None) -> None:
    """Checks the quota. A brain over it may still be made smaller, and consolidation may write its overview."""
    quota = quota_of(connection)
    is_more = before is None or len(draft.content) > before["byte_size"]
    if quota is not None and is_more and draft.source != "compile":
        quota.check(connection, brain.n)


def read_endings(connection: sqlite3.Connection) -> None:
    """Index documents anew that expire or are dead, because older files do not know that."""
    rows = connection.execute(
        """
        SELECT documents.*, content FROM documents JOIN bodies ON document = n
        WHERE instr(content, CAST('expires:' AS BLOB)) OR instr(content, CAST('dead:' AS BLOB))
        """
    ).fetchall()
    for row in rows:
        text = bytes(row["content"]).decode("utf-8", "replace")
        index.replace(connection, row["brain"], row, _make_index(connection, row, row["path"], text))


def _make_index(connection: sqlite3.Connection, row: sqlite3.Row, path: str, text: str) -> Made | None:
    return index.make(path, row["title"], json.loads(row["metadata"]), text, embedder_of(connection))


def append(connection: sqlite3.Connection, brain: Brain, path: str, addition: bytes) -> None:
    row = find(connection, brain, path)
    if row is None:
        write(connection, brain, Draft(path, addition))
        return
    kept = Draft(
        path,
        content(connection, row["n"]) + addition,
        title=row["title"],
        source=row["source"],
        content_type=row["content_type"],
        metadata=json.loads(row["metadata"]),
    )
    write(connection, brain, kept)


def remove(connection: sqlite3.Connection, brain: Brain, path: str) -> None:
    _take_out(connection, brain, require(connection, brain, path))
    changes.note(connection, brain.n, "deleted", path)


def _take_out(connection: sqlite3.Connection, brain: Brain, row: sqlite3.Row) -> None:
    index.remove(connection, brain.n, row["n"])
    connection.execute("DELETE FROM documents WHERE n = ?", (row["n"],))


def move(connection: sqlite3.Connection, brain: Brain, path: str, to: str) -> None:
    """Rename a document. One at the new path is replaced, as in a file system."""
    row = require(connection, brain, path)
    if path == to:
        return
    replaced = find(connection, brain, to)
    if replaced is not None:
        _take_out(connection, brain, replaced)
    connection.execute("UPDATE documents SET path = ?, updated_at = ? WHERE n = ?", (to, now(), row["n"]))
    if names.is_indexed(path) != names.is_indexed(to):
        text = content(connection, row["n"]).decode("utf-8", "replace")
        index.replace(connection, brain.n, row, _make_index(connection, row, to, text))
    changes.note(connection, brain.n, "renamed", to, old_path=path)
