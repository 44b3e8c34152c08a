"""Limits that all workers of one gateway share, in a file that each of them maps into its memory."""

import fcntl
import mmap
import os
import secrets
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from gateway.brain.limits import Bucket

# A worker: its process, and a word that no other has, however often a number of a process is used again.
_WORKER: Final = struct.Struct("=q8s")
_MOST_WORKERS: Final = 1024
# What is counted: a hash of its name, how much is left or taken, and when it was used last.
_ROW: Final = struct.Struct("=16sdd")
_ROWS: Final = 1 << 16
_ROWS_AT: Final = _MOST_WORKERS * _WORKER.size
# A name is in one of so many rows. If all of them have other names, it takes the one that was used longest ago.
_NEAR: Final = 8
_NAMES_KEPT: Final = 30_000


def make_limits_file(path: Path) -> None:
    """A file in which nothing is counted yet."""
    with path.open("xb") as made:
        made.truncate(_ROWS_AT + _ROWS * _ROW.size)


class MachineLimits:
    """Takes from buckets and places that the other workers take from too.

    One worker at a time looks and counts, for some microseconds. The lock of one that is killed is free at once, and so
    are its places.
    """

    def __init__(self, file: Path, clock: Callable[[], float] = time.monotonic) -> None:
        # By the system's clock, which is the same in all processes.
        self._clock = clock
        self._file = file.open("r+b")
        self._map = mmap.mmap(self._file.fileno(), 0)
        self._word = secrets.token_bytes(8)
        with self._alone():
            place = next(n for n in range(_MOST_WORKERS) if not _is_alive(self._worker(n)[0]))
            _WORKER.pack_into(self._map, place * _WORKER.size, os.getpid(), self._word)

    async def take(self, bucket: str, per_second: float, holds: float, amount: float) -> float:
        """Zero when there was enough; else the seconds until there is, and nothing is taken."""
        key = _key_of(bucket)
        with self._alone():
            now, (row, is_new) = self._clock(), self._row(key)
            _, level, at = (key, holds, now) if is_new else _ROW.unpack_from(self._map, row)
            kept = Bucket(per_second, holds, at, level)
            wait = kept.take(amount, now)
            _ROW.pack_into(self._map, row, key, kept.level, now)
        return wait

    async def hold(self, name: str, most: int) -> str:
        """A place, until it is given back or this process is gone. Empty if all are taken."""
        with self._alone():
            if self._held(name, of_all=True) >= most and self._held(name, of_all=False) >= most:
                return ""
            self._count(name, 1)
        return name

    def give_back(self, place: str) -> None:
        with self._alone():
            self._count(place, -1)

    async def close(self) -> None:
        self._map.close()
        self._file.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _worker(self, n: int) -> tuple[int, bytes]:
        pid, word = _WORKER.unpack_from(self._map, n * _WORKER.size)
        return pid, word

    def _held(self, name: str, *, of_all: bool) -> float:
        """The places that workers have: those that are alive, or all. It takes longer to find out who is alive."""
        held = 0.0
        for n in range(_MOST_WORKERS):
            pid, word = self._worker(n)
            if not pid:
                break
            if of_all or _is_alive(pid):
                row, is_new = self._row(_key_of(name, word))
                held += 0 if is_new else _ROW.unpack_from(self._map, row)[1]
        return held

    def _count(self, name: str, more: int) -> None:
        key = _key_of(name, self._word)
        row, is_new = self._row(key)
        held = 0 if is_new else _ROW.unpack_from(self._map, row)[1]
        _ROW.pack_into(self._map, row, key, max(0, held + more), self._clock())

    def _row(self, key: bytes) -> tuple[int, bool]:
        """Where a name is counted, and whether it has to begin there."""
        first, longest_ago, oldest = int.from_bytes(key[:4]), float("inf"), 0
        for n in range(first, first + _NEAR):
            row = _ROWS_AT + n % _ROWS * _ROW.size
            found, _, at = _ROW.unpack_from(self._map, row)
            if found == key:
                return row, False
            if at < longest_ago:
                longest_ago, oldest = at, row
        return oldest, True


@lru_cache(_NAMES_KEPT)
def _key_of(name: str, worker: bytes = b"") -> bytes:
    return blake2b(name.encode("utf-8", "replace"), digest_size=16, salt=worker).digest()


def _is_alive(pid: int) -> bool:
    if not pid:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
