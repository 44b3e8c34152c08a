"""Vectors for chunks that have none yet, made in the background: slowly, in small transactions, again after a stop."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from contract.platform.database import Database
from contract.platform.meaning import vectors
from contract.platform.meaning.calibration import measured
from contract.platform.meaning.embedder import Embedder, EmbeddingFailed
from contract.platform.meaning.remote import RemoteEmbedder
from contract.platform.meaning.sentence import SentenceEmbedder
from contract.platform.meaning.vectors import Model, Unembedded

log = logging.getLogger(__name__)

# What services take at once at the least; more would save nothing here.
AT_ONCE: Final = 32
# The sentence model takes up to a twentieth of a second for a text, and gains nothing by having several at once.
SENTENCES_AT_ONCE: Final = 4
# The share of the time in which filling works. The rest is for calls that wait for an answer. While notes are written
# one after the other, the sentence model takes less of it: it would compete with each write for the interpreter.
BUSY_SHARE, WRITING_SHARE = 0.5, 0.1
# So long after a write or a start, the sentence model begins to read. A process that answers a call and ends needs no
# sentence model, and one that has just begun, or is written to again and again, has other things to do.
PATIENCE_SECONDS: Final = 0.5
FORGOTTEN_AT_ONCE: Final = 500
# A process says this often that it uses its model, and the vectors of one that nobody used for so long are removed.
USED_SECONDS, UNUSED_SECONDS = 600.0, 3600.0
STOP_SECONDS: Final = 1.0
# A text that a service does not take is cut, but not to less than this.
SHORTEST_CUT: Final = 250
BEYOND: Final = 2**62


@dataclass(slots=True)
class Passed:
    """The chunks of a brain between these numbers were gone through, from the newest to the oldest."""

    oldest: int = BEYOND
    newest: int = BEYOND
    looks_back: bool = False
    """Whether the last look was for older ones, and not for what was written since."""

    def look(self) -> tuple[int, int]:
        """The numbers to look between, the other way round each time: new notes are searched for first, but many
        writes must not keep the older ones waiting for ever."""
        self.looks_back = not self.looks_back
        return (-1, self.oldest) if self.looks_back else (self.newest, BEYOND)

    def note(self, chunks: Sequence[int]) -> None:
        """What was found, in the order in which it was looked for."""
        if self.looks_back:
            self.newest = chunks[0] if self.newest == BEYOND else self.newest
            self.oldest = chunks[-1]
        else:
            self.newest = chunks[-1]


class Filler:
    """One thread, which starts with the first chunk without a vector."""

    def __init__(self, database: Database, embedder: Embedder, in_use: Callable[[], Sequence[Model]]) -> None:
        """`in_use` are all models of this process."""
        self._database, self._embedder, self._in_use = database, embedder, in_use
        self._needed, self._stopping = threading.Event(), threading.Event()
        self._turn = threading.Lock()
        self._thread: threading.Thread | None = None
        is_slow = isinstance(embedder, SentenceEmbedder)
        self._at_once, self._patience = (SENTENCES_AT_ONCE, PATIENCE_SECONDS) if is_slow else (AT_ONCE, 0.0)
        self._written = -PATIENCE_SECONDS
        # Chunks that the service refuses, by what they say: tried again by the next process.
        self._refused: set[Unembedded] = set()
        self._is_known = False
        self.error: str | None = None

    def note_write(self) -> None:
        """Say that something was written, and may need vectors."""
        self._written = time.monotonic()
        self.nudge()

    def nudge(self) -> None:
        """Say that there may be something to do."""
        if not self._needed.is_set():
            self._needed.set()
        if self._thread is None:
            with self._turn:
                if self._thread is None and not self._stopping.is_set():
                    self._thread = threading.Thread(target=self._run, name="embedding-fill", daemon=True)
                    self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._needed.set()
        with self._turn:
            if self._thread is not None:
                # It may be waiting for a service; then it ends by itself, and writes nothing any more.
                self._thread.join(STOP_SECONDS)

    @property
    def refused(self) -> int:
        """How many chunks the service would not embed."""
        return len(self._refused)

    @property
    def model(self) -> Model:
        return Model(self._embedder.name, self._embedder.dimensions)

    def _run(self) -> None:
        while not self._stopping.wait(self._patience):
            self._needed.clear()
            try:
                while self._fill():
                    # What was written meanwhile, elsewhere or under a number that was passed already, has none yet.
                    pass
                self.error = None
                self._remove_unused()
            except EmbeddingFailed as failure:
                self._pause(str(failure))
                continue
            except Exception as failure:  # the next round may succeed, and only the log can report this
                log.exception("filling in vectors failed")
                self._pause(type(failure).__name__)
                continue
            # Whoever closes sets both, and nobody sets the other one again if it was cleared since.
            is_idle = not self._stopping.is_set() and not self._needed.wait(USED_SECONDS)
            if is_idle and isinstance(self._embedder, SentenceEmbedder):
                self._embedder.rest()

    def _pause(self, reason: str) -> None:
        if reason != self.error:
            log.warning("the embedding model %s %s", self._embedder.name, reason)
        self.error = reason
        seconds = self._embedder.pause() if isinstance(self._embedder, RemoteEmbedder) else USED_SECONDS
        self._needed.set()
        self._stopping.wait(max(seconds, 0.1))

    def _fill(self) -> bool:
        """Go through all brains once, by turns. Returns whether there was anything to do.

        Raises: EmbeddingFailed.
        """
        passed = {brain: Passed() for brain in self._incomplete()}
        if isinstance(self._embedder, RemoteEmbedder) or (passed and isinstance(self._embedder, SentenceEmbedder)):
            self._get_to_know()
        found = False
        while passed and not self._stopping.is_set():
            for brain in [*passed]:
                began = time.monotonic()
                some = self._next(brain, passed[brain])
                if not some:
                    del passed[brain]
                    continue
                wanted = [item for item in some if item not in self._refused]
                found |= bool(wanted)
                self._embed(wanted)
                self._pause_after(time.monotonic() - began)
            if self._needed.is_set():
                self._needed.clear()
                passed = {brain: Passed() for brain in self._incomplete()} | passed
        return found and not self._stopping.is_set()

    def _pause_after(self, worked: float) -> None:
        share = WRITING_SHARE if time.monotonic() - self._written < self._patience else BUSY_SHARE
        self._stopping.wait(worked * (1 - share) / share)

    def _get_to_know(self) -> None:
        """How long the vectors of a model are and what its cosines mean: a service may serve another one by now."""
        if self._is_known:
            return
        calibration = measured(self._embedder)
        with self._database.writing(announced=False) as connection:
            vectors.register(connection, self.model, calibration)
        self._is_known = True

    def _incomplete(self) -> list[int]:
        with self._database.reading() as connection:
            return vectors.incomplete(connection, vectors.number_of(connection, self.model))

    def _next(self, brain: int, passed: Passed) -> list[Unembedded]:
        """Some chunks without a vector, by turns of what was written meanwhile and the newest that are left."""
        with self._database.reading() as connection:
            model = vectors.number_of(connection, self.model)
            # When nothing is missing any more, the rest need not be looked through.
            if vectors.coverage(connection, model, brain).missing == 0:
                return []
            for _ in range(2):
                between = passed.look()
                some = vectors.unembedded(connection, brain, model, between, self._at_once, newest=passed.looks_back)
                if some:
                    passed.note([item.chunk for item in some])
                    return some
            return []

    def _embed(self, some: list[Unembedded]) -> None:
        """Raises: EmbeddingFailed."""
        if not some:
            return
        try:
            rows = vectors.encoded(self._embedder.embed([item.text for item in some]))
        except EmbeddingFailed as failure:
            if not failure.too_much:
                raise
            self._embed_less(some, failure)
            return
        self._store(some, rows)

    def _embed_less(self, some: list[Unembedded], failure: EmbeddingFailed) -> None:
        """Half as many texts; of one that is refused alone, the beginning."""
        if len(some) > 1:
            self._embed(some[: len(some) // 2])
            self._embed(some[len(some) // 2 :])
            return
        text = some[0].text
        while len(text) > 2 * SHORTEST_CUT:
            text = text[: len(text) // 2]
            try:
                self._store(some, vectors.encoded(self._embedder.embed([text])))
                return
            except EmbeddingFailed as again:
                if not again.too_much:
                    raise
        if not self._embedder.dimensions:
            # The service has accepted no text so far, so this text is not the reason.
            raise failure
        self._refused.add(some[0])

    def _store(self, some: list[Unembedded], rows: list[bytes]) -> None:
        if self._stopping.is_set():
            return
        with self._database.writing(announced=False) as connection:
            model = vectors.register(connection, self.model)
            vectors.use(connection, model)
            kept = vectors.still_there(connection, some)
            pairs = [(item.chunk, row) for item, row in zip(some, rows, strict=True) if item.chunk in kept]
            vectors.add(connection, some[0].brain, model, pairs)

    def _remove_unused(self) -> None:
        """Note that the model is in use, and remove vectors of models that are not."""
        with self._database.writing(announced=False) as connection:
            model = vectors.number_of(connection, self.model)
            if model is None or vectors.coverage(connection, model).missing > self.refused:
                return
            vectors.use(connection, model)
            unused = vectors.unused(connection, self._in_use(), time.time() - UNUSED_SECONDS)
        for other in unused:
            while not self._stopping.is_set():
                with self._database.writing(announced=False) as connection:
                    if vectors.forget(connection, other, FORGOTTEN_AT_ONCE):
                        break
                self._stopping.wait(0.01)
