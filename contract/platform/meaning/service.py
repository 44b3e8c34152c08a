"""Search by meaning for the store: turns a query into a vector, finds chunks near it, and reports progress."""

import logging
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from contract.platform.database import Database
from contract.platform.meaning import fusion, vectors
from contract.platform.meaning.calibration import Calibration, measured
from contract.platform.meaning.embedder import Embedder
from contract.platform.meaning.filling import USED_SECONDS, Filler
from contract.platform.meaning.remote import EmbeddingFailed, RemoteEmbedder
from contract.platform.meaning.vectors import Model
from contract.platform.query import Filters
from contract.platform.wire import JsonObject

if TYPE_CHECKING:
    from contract.platform.meaning.embedder import Vectors
    from contract.platform.meaning.matrix import Matrices, View

log = logging.getLogger(__name__)

# With fewer vectors than this, what has none would be hidden behind what has one: then words decide alone.
ENOUGH: Final = 0.9
# A service whose model hardly tells related texts from others is taken at its word, as if it were like most.
LEAST_DIFFERENCE: Final = 0.05
USUAL: Final = Calibration(unrelated=0.0, related=0.3)


@dataclass(frozen=True, slots=True)
class Near:
    """Chunks with their cosines, and the calibration of the model."""

    cosines: Mapping[int, float]
    calibration: Calibration


class Meaning:
    def __init__(self, database: Database, embedder: Embedder) -> None:
        self._database, self._embedder = database, embedder
        self._filler = Filler(database, embedder)
        self._matrices: Matrices | None = None
        self._own: Calibration | None = None
        self._used = -USED_SECONDS

    def start(self) -> None:
        """Begin to fill in what is missing, if anything is; of a service, only it can say."""
        if isinstance(self._embedder, RemoteEmbedder):
            self._database.written = self._filler.nudge
            self._filler.nudge()
        elif self._coverage().missing:
            self._filler.nudge()

    def close(self) -> None:
        self._filler.close()
        if self._matrices is not None:
            self._matrices.close()
        if isinstance(self._embedder, RemoteEmbedder):
            self._embedder.close()

    def seek(self, text: str) -> "Sought | None":
        """A query that can be compared with chunks; None if only words can be, for the time being."""
        if time.monotonic() - self._used > USED_SECONDS:
            self._used = time.monotonic()
            self._filler.nudge()
        try:
            vector = self._vector(text)
        except EmbeddingFailed:
            return None
        except Exception:  # with any failure of the model, words find notes all the same
            log.exception("a query could not be embedded")
            return None
        return Sought(self, vector)

    def _vector(self, text: str) -> "Vectors":
        if isinstance(self._embedder, RemoteEmbedder):
            return self._embedder.embed_query(text)
        # Of a service's model, the file knows it.
        self._own = self._own or measured(self._embedder)
        vector: Vectors = self._embedder.embed([text])[0]
        return vector

    def compare(self, connection: sqlite3.Connection, brain: int, vector: "Vectors") -> "Comparison | None":
        """A query with all chunks of a brain that it can be compared with; None without vectors."""
        from contract.platform.meaning.matrix import Matrices

        known = vectors.known(connection, Model(self._embedder.name, len(vector)))
        covered = vectors.coverage(connection, known.number if known else None, brain)
        if covered.missing > self._filler.refused:
            self._filler.nudge()
        if known is None or not covered.embedded or covered.embedded < ENOUGH * covered.chunks:
            return None
        self._matrices = self._matrices or Matrices(self._database.reading)
        view = self._matrices.view(connection, (brain, known.number), len(vector), covered.embedded)
        return None if view is None else Comparison(view, vector, known.number, self._calibration(known))

    def _calibration(self, known: vectors.Known) -> Calibration:
        found = self._own or known.calibration
        return found if found is not None and found.related - found.unrelated >= LEAST_DIFFERENCE else USUAL

    def status(self) -> JsonObject:
        """Which model embeds, how far it is, and whether it works."""
        covered = self._coverage()
        remote = self._embedder if isinstance(self._embedder, RemoteEmbedder) else None
        error = self._filler.error or (remote and remote.error)
        is_unknown = not self._embedder.dimensions
        told: JsonObject = {
            "name": self._embedder.name,
            "source": "endpoint" if remote else "offline",
            "dimensions": self._embedder.dimensions,
            "state": "failing" if error else "building" if covered.missing or is_unknown else "ready",
            "embedded": covered.embedded,
            "chunks": covered.chunks,
        }
        return {**told, "error": error} if error else told

    def _coverage(self) -> vectors.Coverage:
        with self._database.reading() as connection:
            model = Model(self._embedder.name, self._embedder.dimensions)
            return vectors.coverage(connection, vectors.number_of(connection, model))


@dataclass(frozen=True, slots=True)
class Sought:
    """A query, made a vector before a transaction began: a service may take its time."""

    meaning: Meaning
    vector: "Vectors"

    def compare(self, connection: sqlite3.Connection, brain: int) -> "Comparison | None":
        return self.meaning.compare(connection, brain, self.vector)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A query, and the vectors of a brain."""

    view: "View"
    vector: "Vectors"
    model: int
    calibration: Calibration

    def near(self, connection: sqlite3.Connection, chunks: Sequence[int], wanted: int, filters: Filters) -> Near:
        """These chunks, and those that are nearest and meet the filters."""
        from contract.platform.meaning import nearest

        found: dict[int, float] = {}
        if self.vector.any():
            least, related = (
                fusion.cosine_of(worth, self.calibration) for worth in (fusion.LEAST_SEMANTIC, fusion.RELATED)
            )
            found = nearest.nearest(connection, self.view, self.vector, wanted, least, related, filters)
            others = [n for n in chunks if n not in found]
            found |= nearest.cosines_of(connection, self.view, self.vector, self.model, others)
        return Near(found, self.calibration)
