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

# A worker: its process id, and random bytes, because the system gives the id of a dead process to a new one.
_WORKER: Final = struct.Struct("=q8s")
_MOST_WORKERS: Final = 1024
# A row of the file: the hash of a name, how much is left of a bucket or how many places are held, and the last use.
_ROW: Final = struct.Struct("=16sdd")
_ROWS: Final = 1 << 16
_ROWS_AT: Final = _MOST_WORKERS * _WORKER.size
# A name can be in any of this many rows. If all of them have other names, it takes the one unused for longest.
_NEAR: Final = 8
_NAMES_KEPT: Final = 30_000


def make_limits_file(path: Path) -> None:
    """Make a file in which nothing is counted yet. It is written in full, because a write to a mapped file that finds
    the disk full kills the process.

    Raises: OSError: there is no room for it.
    """
    path.write_bytes(bytes(_ROWS_AT + _ROWS * _ROW.size))


class MachineLimits:
    """Buckets and places that are shared with the other workers.

    Only one worker at a time reads and writes the file, for some microseconds. If a worker is killed, its lock and its
    places are free at once.
    """

    def __init__(self, file: Path, clock: Callable[[], float] = time.monotonic) -> None:
        # The default is the system's clock, which is the same in all processes.
        self._clock = clock
        self._file = file.open("r+b")
        self._map = mmap.mmap(self._file.fileno(), 0)
        self._word = secrets.token_bytes(8)
        with self._alone():
            place = next(n for n in range(_MOST_WORKERS) if not _is_alive(self._worker(n)[0]))
            _WORKER.pack_into(self._map, place * _WORKER.size, os.getpid(), self._word)

    async def take(self, bucket: str, per_second: float, holds: float, amount: float) -> float:
        """Take an amount. Returns zero if there was enough; else nothing is taken, and it returns the seconds until
        there is enough."""
        key = _key_of(bucket)
        with self._alone():
            now, (row, is_new) = self._clock(), self._row(key)
            _, level, at = (key, holds, now) if is_new else _ROW.unpack_from(self._map, row)
            kept = Bucket(per_second, holds, at, level)
            wait = kept.take(amount, now)
            _ROW.pack_into(self._map, row, key, kept.level, now)
        return wait

    async def hold(self, name: str, most: int) -> str:
        """Take a place, until it is given back or this process ends. Returns "" if all places are taken."""
        with self._alone():
            if self._held(name, of_all=True) >= most and self._held(name, of_all=False) >= most:
                return ""
            self._count(name, 1)
        return name

    def give_back(self, place: str) -> None:
        # At the end of the process, a call may still hold a place when the file is closed already.
        if self._file.closed:
            return
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
        """How many places workers hold: all of them, or only those that are alive, which takes longer to find out."""
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
        """The row in which a name is counted, and whether that row is new to it."""
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
    except (ProcessLookupError, PermissionError):
        # All workers are of one user: an id that belongs to another is no worker any more.
        return False
    return True
