"""The vectors of a brain in memory, kept in step with a file that other processes write to as well."""

import logging
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from contract.platform.meaning import vectors

if TYPE_CHECKING:
    from contract.platform.meaning.embedder import Vectors

log = logging.getLogger(__name__)

Numbers: TypeAlias = NDArray[np.int64]
# A brain and a model.
Key: TypeAlias = tuple[int, int]
Reading: TypeAlias = Callable[[], AbstractContextManager[sqlite3.Connection]]

# The limit for all brains together. The brain that is searched is always held, however large it is.
BUDGET: Final = 512 * 1024 * 1024
# More would keep a search waiting for longer than a tenth of a second.
READ_IN_SEARCH: Final = 10_000
# So few that they fit into the processor's cache.
READ_AT_ONCE: Final = 256
# A matrix is made anew when more than this share of its rows are of chunks that are gone.
STALE_SHARE, STALE_ROWS = 0.1, 256
GROWTH: Final = 1.5


@dataclass(frozen=True, slots=True)
class View:
    """Some rows of `vectors`, in the order of their numbers. It does not change: what is read later comes behind it."""

    numbers: Numbers
    rows: "Vectors"

    def place(self, number: int) -> int | None:
        """The place of the row with this number, if it was read."""
        place = int(np.searchsorted(self.numbers, number))
        return place if place < len(self.numbers) and self.numbers[place] == number else None


class Matrix:
    """All vectors of one brain by one model that were in the file at the last look."""

    def __init__(self, brain: int, model: int, dimensions: int) -> None:
        self._brain, self._model, self._dimensions = brain, model, dimensions
        self._numbers: Numbers = np.empty(0, dtype=np.int64)
        self._rows: Vectors = np.empty((0, dimensions), dtype=np.float32)
        self._count = 0
        self._turn = threading.Lock()

    @property
    def size(self) -> int:
        return int(self._rows.nbytes + self._numbers.nbytes)

    def is_stale(self, live: int) -> bool:
        """Whether much of it is of chunks that are gone."""
        return self._count - live > max(STALE_ROWS, STALE_SHARE * self._count)

    def view(self, connection: sqlite3.Connection, live: int) -> View:
        """What this connection sees, of which `live` are in the file, and perhaps some more.

        More are rows that another connection saw earlier and that are gone, or later and that are not there yet.
        """
        with self._turn:
            if not self._count:
                self._reserve(live, keep=0)
            self._read(connection)
            return View(self._numbers[: self._count], self._rows[: self._count])

    def _read(self, connection: sqlite3.Connection) -> None:
        last = int(self._numbers[self._count - 1]) if self._count else 0
        cursor = vectors.after(connection, self._brain, self._model, last)
        while some := cursor.fetchmany(READ_AT_ONCE):
            end = self._count + len(some)
            if end > len(self._numbers):
                self._reserve(max(end, int(GROWTH * end)), keep=self._count)
            numbers, encoded = zip(*some, strict=True)
            rows = vectors.decoded(b"".join(encoded))
            self._rows[self._count : end] = rows.reshape(len(some), self._dimensions)
            self._numbers[self._count : end] = numbers
            self._count = end

    def _reserve(self, rows: int, *, keep: int) -> None:
        numbers, space = np.empty(rows, dtype=np.int64), np.empty((rows, self._dimensions), dtype=np.float32)
        numbers[:keep], space[:keep] = self._numbers[:keep], self._rows[:keep]
        self._numbers, self._rows = numbers, space


class Matrices:
    """Those of the brains that were searched last."""

    def __init__(self, reading: Reading, budget: int = BUDGET) -> None:
        self.budget = budget
        self._reading = reading
        self._held: OrderedDict[Key, Matrix] = OrderedDict()
        self._makers: dict[Key, threading.Thread] = {}
        self._turn = threading.Lock()

    def close(self) -> None:
        for maker in list(self._makers.values()):
            maker.join()

    def view(self, connection: sqlite3.Connection, key: Key, dimensions: int, live: int) -> View | None:
        """None while a large one is read in the background: no search waits for that."""
        matrix = self._held.get(key)
        if matrix is None or matrix.is_stale(live):
            if live > READ_IN_SEARCH:
                self._make_behind(key, dimensions, live)
            else:
                matrix = Matrix(*key, dimensions)
        if matrix is None:
            return None
        view = matrix.view(connection, live)
        self._hold(key, matrix)
        return view

    def _make_behind(self, key: Key, dimensions: int, live: int) -> None:
        with self._turn:
            if key not in self._makers:
                maker = threading.Thread(target=self._make, args=(key, dimensions, live), name="matrix", daemon=True)
                self._makers[key] = maker
                maker.start()

    def _make(self, key: Key, dimensions: int, live: int) -> None:
        try:
            matrix = Matrix(*key, dimensions)
            with self._reading() as connection:
                matrix.view(connection, live)
            self._hold(key, matrix)
        except Exception:  # the next search tries again, and words find notes meanwhile
            log.exception("vectors could not be read")
        finally:
            with self._turn:
                del self._makers[key]

    def _hold(self, key: Key, matrix: Matrix) -> None:
        with self._turn:
            self._held[key] = matrix
            self._held.move_to_end(key)
            while sum(held.size for held in self._held.values()) > self.budget and len(self._held) > 1:
                self._held.popitem(last=False)
