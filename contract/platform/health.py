"""The state of the file: errors that occurred while it was used, and the result of a short check."""

import logging
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

DAMAGED: Final = "the brain file is damaged"
FULL: Final = "the disk is full"
_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# Less than a few notes need.
_LEAST_FREE: Final = 8 * 1024 * 1024
# A disk that was full may have room again. If not, the next write will notice.
_FULL_SECONDS: Final = 60.0
# How long a check, which reads the whole file, may take, and how often it is made at most.
_LOOK_SECONDS: Final = 1.0
_EVERY_SECONDS: Final = 300.0
_STEPS: Final = 10_000


class Health:
    """The state of one file. Code that gets an error notes it here."""

    def __init__(self, file: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._file, self._clock = file, clock
        self._is_damaged = False
        self._full_until = -1.0
        self._next_look = -1.0

    def note(self, error: sqlite3.Error) -> None:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGE:
            self._find_damaged()
        elif code == sqlite3.SQLITE_FULL:
            self._full_until = self._clock() + _FULL_SECONDS

    def _find_damaged(self) -> None:
        if not self._is_damaged:
            # Once: what fails because of it has lines of its own.
            log.error("The brain file %s is damaged. Stop whatever uses it, and put a backup in its place.", self._file)
        self._is_damaged = True

    def problem(self) -> str | None:
        """What is wrong with it, in a few words; None if nothing is known to be."""
        if not self._is_damaged and self._clock() >= self._next_look:
            if damage(self._file, seconds=_LOOK_SECONDS) is not None:
                self._find_damaged()
            self._next_look = self._clock() + _EVERY_SECONDS
        if self._is_damaged:
            return DAMAGED
        return FULL if self._clock() < self._full_until or _free(self._file) < _LEAST_FREE else None


def damage(file: Path, *, seconds: float | None = None) -> str | None:
    """What SQLite finds wrong with a file, in its words; None if it is whole, or could not be read through in time."""
    ends = None if seconds is None else time.monotonic() + seconds
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            if ends is not None:
                connection.set_progress_handler(lambda: time.monotonic() > ends, _STEPS)
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        return str(error) if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE else None
    return None if found == "ok" else str(found)


def _free(file: Path) -> float:
    """How much room there is on the disk; infinite if that is not known."""
    try:
        disk = os.statvfs(file.parent)
    except (AttributeError, OSError):
        return float("inf")
    return disk.f_bavail * disk.f_frsize
