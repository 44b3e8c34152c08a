"""Search by meaning for the store: turns a query into vectors, finds chunks near it, and reports progress."""

import logging
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from contract.platform.database import Database
from contract.platform.meaning import fusion, vectors
from contract.platform.meaning.calibration import Calibration, measured
from contract.platform.meaning.embedder import Embedder, EmbeddingFailed
from contract.platform.meaning.filling import USED_SECONDS, Filler
from contract.platform.meaning.remote import RemoteEmbedder
from contract.platform.meaning.sentence import SentenceEmbedder
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
# The sentence model tells related texts from others better than most (chosen with `bench/meaning`).
SENTENCE_HALF_WAY, SENTENCE_SLOPE = 0.85, 0.35


class Meaning:
    def __init__(self, database: Database, embedders: Sequence[Embedder]) -> None:
        """The best embedder comes first. One that is not the database's own makes its vectors after the writes."""
        self._database = database
        self._matrices: Matrices | None = None
        self._used = -USED_SECONDS
        self._levels = [Level(self, database, embedder) for embedder in embedders]

    @property
    def matrices(self) -> "Matrices":
        """The vectors in memory, of all embedders."""
        from contract.platform.meaning.matrix import Matrices

        self._matrices = self._matrices or Matrices(self._database.reading)
        return self._matrices

    def models(self) -> list[Model]:
        return [level.filler.model for level in self._levels]

    def start(self) -> None:
        """Begin to fill in what is missing, if anything is; of a service, only it can say."""
        self._database.written = self._note_write
        for level in self._levels:
            if level.remote is not None or level.coverage().missing:
                level.filler.nudge()

    def _note_write(self) -> None:
        for level in self._levels:
            if level.embedder is not self._database.embedder:
                level.filler.note_write()

    def close(self) -> None:
        for level in self._levels:
            level.filler.close()
        if self._matrices is not None:
            self._matrices.close()
        for level in self._levels:
            if level.remote is not None:
                level.remote.close()

    def seek(self, text: str) -> "Sought":
        """A query that can be compared with chunks."""
        if time.monotonic() - self._used > USED_SECONDS:
            self._used = time.monotonic()
            for level in self._levels:
                level.filler.nudge()
        sought = Sought(text, self._levels)
        for level in self._levels:
            if level.remote is not None:
                # Before a transaction begins, because a service may take its time.
                sought.vector(level)
        return sought

    def status(self) -> JsonObject:
        """Which model embeds, how far it is, and whether it works; and which one serves meanwhile."""
        best, *others = (level.status() for level in self._levels)
        return {**best, "meanwhile": others[0]} if others else best


class Level:
    """One model, and what it has made."""

    def __init__(self, meaning: Meaning, database: Database, embedder: Embedder) -> None:
        self.embedder = embedder
        self.remote = embedder if isinstance(embedder, RemoteEmbedder) else None
        self.filler = Filler(database, embedder, meaning.models)
        self._meaning, self._database = meaning, database
        self._own: Calibration | None = None

    def vector(self, text: str) -> "Vectors | None":
        """The vector of a query; None if the model fails."""
        try:
            if self.remote is not None:
                return self.remote.embed_query(text)
            vector: Vectors = self.embedder.embed([text])[0]
        except EmbeddingFailed:
            return None
        except Exception:  # with any failure of the model, words find notes all the same
            log.exception("a query could not be embedded")
            return None
        return vector

    def view(self, connection: sqlite3.Connection, brain: int, number: int, live: int) -> "View | None":
        """The vectors of a brain; None while many are read in the background."""
        return self._meaning.matrices.view(connection, (brain, number), self.embedder.dimensions, live)

    def made(self, connection: sqlite3.Connection, brain: int) -> tuple[vectors.Known | None, vectors.Coverage]:
        """The model as the file knows it, and how many chunks of a brain have a vector of it."""
        known = vectors.known(connection, self.filler.model)
        covered = vectors.coverage(connection, known.number if known else None, brain)
        if covered.missing > self.filler.refused:
            self.filler.nudge()
        return known, covered

    def calibration(self, known: vectors.Known) -> Calibration:
        if known.calibration is None and self.remote is None:
            self._own = self._own or measured(self.embedder)
        found = known.calibration or self._own
        if found is None or found.related - found.unrelated < LEAST_DIFFERENCE:
            return USUAL
        if isinstance(self.embedder, SentenceEmbedder):
            return replace(found, half_way=SENTENCE_HALF_WAY, slope=SENTENCE_SLOPE)
        return found

    def status(self) -> JsonObject:
        covered = self.coverage()
        error = self.filler.error or (self.remote and self.remote.error)
        refused = min(self.filler.refused, covered.missing)
        is_building = covered.missing > refused or not self.embedder.dimensions
        told: JsonObject = {
            "name": self.embedder.name,
            "source": "endpoint" if self.remote else "offline",
            "dimensions": self.embedder.dimensions,
            "state": "failing" if error else "building" if is_building else "ready",
            "embedded": covered.embedded,
            "chunks": covered.chunks,
        }
        return {**told, **({"refused": refused} if refused else {}), **({"error": error} if error else {})}

    def coverage(self) -> vectors.Coverage:
        with self._database.reading() as connection:
            return vectors.coverage(connection, self._number(connection))

    def _number(self, connection: sqlite3.Connection) -> int | None:
        """The model's number in the file. A service that has not answered yet may have made vectors before."""
        if self.embedder.dimensions:
            return vectors.number_of(connection, self.filler.model)
        named = "SELECT n FROM models WHERE name = ? ORDER BY used_at DESC LIMIT 1"
        row = connection.execute(named, (self.embedder.name,)).fetchone()
        return None if row is None else int(row["n"])


@dataclass(frozen=True, slots=True)
class Sought:
    """A query, made a vector by each model that needs it, once."""

    text: str
    levels: Sequence[Level]
    _vectors: "dict[Level, Vectors | None]" = field(default_factory=dict)

    def vector(self, level: Level) -> "Vectors | None":
        if level not in self._vectors:
            self._vectors[level] = level.vector(self.text)
        return self._vectors[level]

    def compare(self, connection: sqlite3.Connection, brain: int) -> "Comparison | None":
        """None if too few chunks have a vector, or no model works: then only words can be compared."""
        parts: list[Part] = []
        is_enough = False
        for level in self.levels:
            known, covered = level.made(connection, brain)
            if known is None or not covered.embedded or (vector := self.vector(level)) is None:
                continue
            view = level.view(connection, brain, known.number, covered.embedded)
            if view is not None:
                parts.append(Part(view, vector, known.number, level.calibration(known)))
                is_enough |= covered.embedded >= ENOUGH * covered.chunks
            if not covered.missing:
                # The other models, which are not as good, have nothing to add.
                break
        return Comparison(parts) if is_enough else None


@dataclass(frozen=True, slots=True)
class Part:
    """A query, and the vectors of a brain by one model."""

    view: "View"
    vector: "Vectors"
    model: int
    calibration: Calibration

    def nearest(self, connection: sqlite3.Connection, wanted: int, filters: Filters) -> dict[int, float]:
        """How near the nearest chunks are that meet the filters."""
        from contract.platform.meaning import nearest

        if not self.vector.any():
            return {}
        least, related = (
            fusion.cosine_of(worth, self.calibration) for worth in (fusion.LEAST_SEMANTIC, fusion.RELATED)
        )
        return self._semantic(nearest.nearest(connection, self.view, self.vector, wanted, least, related, filters))

    def nearness(self, connection: sqlite3.Connection, chunks: Sequence[int]) -> dict[int, float]:
        """How near these chunks are, as far as they have a vector."""
        from contract.platform.meaning import nearest

        if not self.vector.any():
            return {}
        return self._semantic(nearest.cosines_of(connection, self.view, self.vector, self.model, chunks))

    def _semantic(self, cosines: dict[int, float]) -> dict[int, float]:
        near: list[float] = fusion.semantic(list(cosines.values()), self.calibration).tolist()
        return dict(zip(cosines, near, strict=True))


@dataclass(frozen=True, slots=True)
class Comparison:
    """A query, and the vectors of a brain, those of the best model first."""

    parts: Sequence[Part]

    def near(
        self, connection: sqlite3.Connection, chunks: Sequence[int], wanted: int, filters: Filters
    ) -> dict[int, float]:
        """How near these chunks are, and those that are nearest and meet the filters, each by the best model it has."""
        nearest = [part.nearest(connection, wanted, filters) for part in self.parts]
        candidates = list(dict.fromkeys([*(chunk for found in nearest for chunk in found), *chunks]))
        near: dict[int, float] = {}
        for part, found in zip(self.parts, nearest, strict=True):
            left = [chunk for chunk in candidates if chunk not in near and chunk not in found]
            near = found | part.nearness(connection, left) | near
        return {chunk: near[chunk] for chunk in candidates if chunk in near}
