"""Files and pages as documents: the injected fetch, and the paths of ingested documents."""

import hashlib
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from contract.platform import documents, index, names
from contract.platform.brains import Brain
from contract.platform.convert import Converted
from contract.platform.database import Database
from contract.platform.documents import Draft
from contract.platform.meaning import vectors
from contract.platform.refusal import Refused
from contract.platform.wire import JsonObject, Scalar


@dataclass(frozen=True, slots=True)
class Page:
    """The page that a URL led to."""

    url: str
    content_type: str
    body: bytes


class FetchRefused(Exception):
    """The page may not be fetched, or could not be."""

    def __init__(self, code: Literal["fetch_blocked", "fetch_failed"], message: str = "") -> None:
        super().__init__(message or code)
        self.code = code


Fetch: TypeAlias = Callable[[str], Awaitable[Page]]


@dataclass(frozen=True, slots=True)
class Original:
    """The bytes to ingest, and their name."""

    name: str
    content_type: str
    body: bytes
    source_url: str | None = None

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.body).hexdigest()

    @property
    def path(self) -> str:
        return f"raw/documents/{names.slug(names.stem(self.name), 'document')}-{self.sha256[:12]}.md"

    @classmethod
    def of_page(cls, page: Page) -> "Original":
        parts = urlsplit(page.url)
        name = unquote(parts.path).rstrip("/").rpartition("/")[2] or parts.hostname or "page"
        return cls(name, page.content_type, page.body, source_url=page.url)


class Intake:
    def __init__(self, database: Database) -> None:
        self._database = database

    def known(self, brain: Brain, original: Original) -> JsonObject | None:
        """The answer for bytes that were ingested before, under any name."""
        with self._database.reading() as connection:
            return _known(connection, brain, original)

    def store(self, brain: Brain, original: Original, converted: Converted, kind: str) -> JsonObject:
        prepared = documents.prepare(_draft(original, converted, kind), self._database.embedder)
        with self._database.writing() as connection:
            # Someone else may have ingested the same bytes while these were being converted.
            known = _known(connection, brain, original)
            if known:
                return known
            if documents.find(connection, brain, original.path):
                raise Refused("conflict", f"another document already exists: {original.path}")
            documents.write(connection, brain, prepared)
            row = documents.require(connection, brain, original.path)
            return _answer(connection, brain, row, original, reused=False)


def _known(connection: sqlite3.Connection, brain: Brain, original: Original) -> JsonObject | None:
    row = connection.execute(
        "SELECT * FROM documents WHERE brain = ? AND origin_sha256 = ? ORDER BY n LIMIT 1", (brain.n, original.sha256)
    ).fetchone()
    return None if row is None else _answer(connection, brain, row, original, reused=True)


def _draft(original: Original, converted: Converted, kind: str) -> Draft:
    metadata: dict[str, Scalar] = {"file_name": original.name, "ingested_as": kind}
    if original.source_url:
        metadata["source_url"] = original.source_url
    if converted.truncated:
        metadata["truncated"] = True
    return Draft(
        original.path,
        converted.text.encode(),
        title=(converted.title or "")[: names.TITLE_LIMIT] or None,
        metadata=metadata,
        origin_sha256=original.sha256,
    )


def _answer(
    connection: sqlite3.Connection, brain: Brain, row: sqlite3.Row, original: Original, *, reused: bool
) -> JsonObject:
    return {
        "status": "completed",
        "document_id": documents.document_id(brain, row["path"]),
        "path": row["path"],
        "hash": original.sha256,
        "chunk_count": index.chunk_count(connection, row["n"]),
        "embedded_count": vectors.count_of(connection, row["n"]),
        "reused": reused,
        **({"source_url": original.source_url} if original.source_url else {}),
    }
