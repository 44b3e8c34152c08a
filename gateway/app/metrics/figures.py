"""Figures of one process, in a file that others can read: they outlive it, and those of all processes add up.

It is known beforehand what can be counted, so each figure has a place of its own in the file, and counting is one
addition. No label can have an unexpected value.
"""

import math
import mmap
import os
import secrets
import shutil
import struct
import tempfile
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self

from filelock import FileLock, Timeout

Labels = tuple[str, ...]

_BYTES: Final = 8
# The exemplar of a bucket: the trace of one of its last traced calls, how long that took, and when it was.
_EXEMPLAR: Final = struct.Struct("=16sdd")
_EXEMPLAR_SECONDS: Final = 1.0
_LOCK, _ENDED = "lock", "ended"
_FIGURES, _ALIVE = ".figures", ".alive"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its name, its labels, and every combination of their values."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: Labels = ()
    rows: tuple[Labels, ...] = ((),)
    buckets: tuple[float, ...] = ()
    is_largest: bool = False
    """Whether the largest value of several processes counts, and not their sum."""

    @property
    def width(self) -> int:
        """How many figures a row has. A histogram has its buckets, the last of which has no upper end, and the sum."""
        return len(self.buckets) + 2 if self.kind == "histogram" else 1


class Exemplar(NamedTuple):
    """A call that is one of those in a bucket, and can be looked up."""

    trace_id: str
    value: float
    timestamp: float


class MetricsPlace(NamedTuple):
    """Where the figures of one gateway and its workers are, and the data of its embedded brain, if it has one."""

    directory: Path
    embedded: Path | None

    @classmethod
    def new(cls, embedded: Path | None) -> Self:
        return cls(Path(tempfile.mkdtemp(prefix="brains-gateway-metrics-")), embedded)

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


class Layout:
    """Where each figure is."""

    def __init__(self, families: Sequence[Family]) -> None:
        self.families = families
        self._places: dict[tuple[str, Labels], int] = {}
        self.size = 0
        for family in families:
            for row in family.rows:
                self._places[family.name, row] = self.size
                self.size += family.width
        self.exemplars_at = self.size * _BYTES

    @property
    def file_size(self) -> int:
        return self.exemplars_at + self.size * _EXEMPLAR.size

    def place(self, name: str, *labels: str) -> int:
        return self._places[name, labels]


class Figures:
    """Those of this process. It is alive as long as it holds the lock on its file."""

    def __init__(self, directory: Path, layout: Layout) -> None:
        self.layout = layout
        path = directory / f"{os.getpid()}-{secrets.token_hex(4)}{_FIGURES}"
        self._alive = FileLock(path.with_suffix(_ALIVE))
        # Meanwhile no reader may run, which would take a file without a lock for that of a dead process.
        with FileLock(directory / _LOCK), path.open("xb+") as file:
            self._alive.acquire()
            file.truncate(layout.file_size)
            self._map = mmap.mmap(file.fileno(), layout.file_size)
        self.values = memoryview(self._map).cast("d")
        # When each bucket got its exemplar.
        self._exemplified = [0.0] * layout.size

    def observe(self, place: int, buckets: Sequence[float], value: float, trace_id: bytes | None = None) -> None:
        """Count a value in the histogram at a place; with a trace, it is an example of its bucket."""
        bucket = place + bisect_left(buckets, value)
        self.values[bucket] += 1
        self.values[place + len(buckets) + 1] += value
        # Writing one takes longer than all the rest, and nobody looks more often than this.
        if trace_id is not None and abs((now := time.time()) - self._exemplified[bucket]) >= _EXEMPLAR_SECONDS:
            self._exemplified[bucket] = now
            at = self.layout.exemplars_at + bucket * _EXEMPLAR.size
            _EXEMPLAR.pack_into(self._map, at, trace_id, value, now)

    def close(self) -> None:
        self.values.release()
        self._map.close()
        self._alive.release()


class Totals:
    """The figures of all processes at one moment."""

    def __init__(self, layout: Layout, values: Sequence[float], exemplars: Mapping[int, Exemplar], alive: int) -> None:
        self._layout, self._values, self._exemplars, self.alive = layout, values, exemplars, alive

    def rows(self, family: Family) -> Iterator[tuple[Labels, list[float], list[Exemplar | None]]]:
        """Each combination of labels that was ever used, with its figures. A tool without calls has none. A tool with
        calls has a row for each outcome, so that the first failure shows as an increase from zero."""
        whole = len(family.labels) if family.kind == "histogram" else len(family.labels) - 1
        used = {row[:whole] for row in family.rows if any(self._at(family, row))}
        for row in family.rows:
            if row[:whole] in used or not row[:whole]:
                place = self._layout.place(family.name, *row)
                examples = [self._exemplars.get(place + n) for n in range(family.width)]
                yield row, self._at(family, row), examples

    def _at(self, family: Family, row: Labels) -> list[float]:
        place = self._layout.place(family.name, *row)
        return list(self._values[place : place + family.width])


def read_all(directory: Path, layout: Layout) -> Totals:
    """The figures of all processes. Counts of dead processes are kept, their measurements are not."""
    values = [0.0] * layout.size
    exemplars: dict[int, Exemplar] = {}
    alive = 0
    with FileLock(directory / _LOCK):
        ended = directory / _ENDED
        for path in sorted(directory.glob(f"*{_FIGURES}")):
            if _is_alive(path):
                alive += 1
                _add(layout, values, exemplars, path.read_bytes(), is_alive=True)
            else:
                before = ended.read_bytes() if ended.exists() else bytes(layout.file_size)
                _replace(ended, _sum_of(layout, before, path.read_bytes()))
                path.unlink()
                path.with_suffix(_ALIVE).unlink(missing_ok=True)
        if ended.exists():
            _add(layout, values, exemplars, ended.read_bytes(), is_alive=False)
    return Totals(layout, values, exemplars, alive)


def _add(layout: Layout, values: list[float], exemplars: dict[int, Exemplar], body: bytes, *, is_alive: bool) -> None:
    theirs = memoryview(body)[: layout.exemplars_at].cast("d")
    for family in layout.families:
        first = layout.place(family.name, *family.rows[0]) if family.rows else 0
        for place in range(first, first + len(family.rows) * family.width):
            if family.kind != "gauge":
                values[place] += theirs[place]
            elif is_alive and family.is_largest:
                values[place] = max(values[place], theirs[place])
            elif is_alive:
                values[place] += theirs[place]
            if family.kind == "histogram" and theirs[place]:
                _newer(exemplars, place, _EXEMPLAR.unpack_from(body, layout.exemplars_at + place * _EXEMPLAR.size))


def _newer(exemplars: dict[int, Exemplar], place: int, found: tuple[bytes, float, float]) -> None:
    trace_id, value, at = found
    if any(trace_id) and math.isfinite(value) and (place not in exemplars or exemplars[place].timestamp < at):
        exemplars[place] = Exemplar(trace_id.hex(), value, at)


def _sum_of(layout: Layout, before: bytes, body: bytes) -> bytes:
    """Two files added up, with the exemplars of the later."""
    summed = bytearray(body)
    mine, theirs = (memoryview(file)[: layout.exemplars_at].cast("d") for file in (summed, before))
    for place in range(layout.size):
        mine[place] += theirs[place]
    mine.release()
    return bytes(summed)


def _replace(path: Path, body: bytes) -> None:
    made = path.with_suffix(".new")
    made.write_bytes(body)
    made.replace(path)


def _is_alive(path: Path) -> bool:
    lock = FileLock(path.with_suffix(_ALIVE))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False
