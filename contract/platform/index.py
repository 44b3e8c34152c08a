"""The full-text index of a brain: one FTS5 table per brain, kept in step with its documents."""

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contract.platform import markdown, names, words
from contract.platform.meaning import vectors
from contract.platform.meaning.embedder import Embedder
from contract.platform.meaning.vectors import Model
from contract.platform.wire import Scalar

log = logging.getLogger(__name__)

# Some memory is needed for each text.
EMBEDDED_AT_ONCE = 256

# Title, tags, text, grams: a word in the title says more about a chunk than one in its text.
COLUMN_WEIGHTS = (4.0, 2.0, 1.0, 1.0)


def table(brain: int) -> str:
    return f"words_{brain:d}"


def create(connection: sqlite3.Connection, brain: int) -> None:
    name = table(brain)
    weights = ", ".join(map(str, COLUMN_WEIGHTS))
    connection.execute(
        f"CREATE VIRTUAL TABLE {name} USING fts5"
        "(title, tags, text, grams, tokenize = 'porter unicode61 remove_diacritics 2')"
    )
    connection.execute(f"INSERT INTO {name} ({name}, rank) VALUES ('rank', 'bm25({weights})')")


def drop(connection: sqlite3.Connection, brain: int) -> None:
    connection.execute(f"DROP TABLE {table(brain)}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One chunk of a document, as it is indexed."""

    title: str
    tags: str
    text: str
    grams: str


@dataclass(frozen=True, slots=True)
class Made:
    """The index entry of a document; for a dead one, only its expiry."""

    expires: int | None
    entries: Sequence[Entry]
    model: Model | None = None
    vectors: Sequence[bytes] = ()
    """One for each entry, if there is a model."""


def make(
    path: str, title: str, metadata: Mapping[str, Scalar], text: str, embedder: Embedder | None = None
) -> Made | None:
    """None for a document that search does not cover. Without an embedder, vectors are made later."""
    if not names.is_indexed(path):
        return None
    note = markdown.read(text)
    if note.is_dead:
        return Made(note.expires, ())
    tags = f"{note.tags} {metadata.get('tags') or ''}".strip()
    entries = [
        Entry(_heading(title, piece), tags, piece, words.grams(f"{title}\n{tags}\n{piece}"))
        for piece in markdown.chunks(note.body)
    ]
    return Made(note.expires, entries, *_embed(entries, embedder))


def _embed(entries: Sequence[Entry], embedder: Embedder | None) -> tuple[Model | None, Sequence[bytes]]:
    if embedder is None:
        return None, ()
    texts = [vectors.text_of(entry.title, entry.text) for entry in entries]
    made: list[bytes] = []
    try:
        for at in range(0, len(texts), EMBEDDED_AT_ONCE):
            made += vectors.encoded(embedder.embed(texts[at : at + EMBEDDED_AT_ONCE]))
    except Exception:  # with any failure of the model, the note is stored, and found by its words
        log.exception("no vectors could be made of a document")
        return None, ()
    return Model(embedder.name, embedder.dimensions), made


def replace(connection: sqlite3.Connection, brain: int, document: sqlite3.Row, made: Made | None) -> None:
    """Index the document anew. If search does not cover it, or it is dead, it is only removed from the index."""
    remove(connection, brain, document["n"])
    add(connection, brain, document["n"], document["expires"], made)


def add(connection: sqlite3.Connection, brain: int, document: int, expires: int | None, made: Made | None) -> None:
    """Index a document that is not in the index. `expires` is what its row says so far."""
    if made is None:
        return
    if made.expires != expires:
        connection.execute("UPDATE documents SET expires = ? WHERE n = ?", (made.expires, document))
    chunks: list[int] = []
    for ordinal, entry in enumerate(made.entries):
        chunk = connection.execute(
            "INSERT INTO chunks (document, ordinal) VALUES (?, ?)", (document, ordinal)
        ).lastrowid
        assert chunk is not None
        chunks.append(chunk)
        connection.execute(
            f"INSERT INTO {table(brain)} (rowid, title, tags, text, grams) VALUES (?, ?, ?, ?, ?)",
            (chunk, entry.title, entry.tags, entry.text, entry.grams),
        )
    connection.execute("UPDATE brains SET chunks = chunks + ? WHERE n = ?", (len(made.entries), brain))
    if made.model is not None:
        model = vectors.register(connection, made.model)
        vectors.add(connection, brain, model, list(zip(chunks, made.vectors, strict=True)))


def _heading(title: str, piece: str) -> str:
    """The title, unless it is only the first line of the piece, which must not count twice."""
    return "" if piece.startswith(title) else title


def remove(connection: sqlite3.Connection, brain: int, document: int) -> None:
    rows = connection.execute("SELECT n FROM chunks WHERE document = ?", (document,)).fetchall()
    if rows:
        vectors.remove(connection, brain, document)
        connection.executemany(f"DELETE FROM {table(brain)} WHERE rowid = ?", [(row["n"],) for row in rows])
        connection.execute("DELETE FROM chunks WHERE document = ?", (document,))
        connection.execute("UPDATE brains SET chunks = chunks - ? WHERE n = ?", (len(rows), brain))


def chunk_count(connection: sqlite3.Connection, document: int) -> int:
    return int(connection.execute("SELECT count(*) FROM chunks WHERE document = ?", (document,)).fetchone()[0])
