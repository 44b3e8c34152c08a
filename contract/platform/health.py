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
NEWER: Final = "the brain file was changed by a newer version"
FULL: Final = "the disk is full"
LOCKED: Final = "the brain file is locked by another program"
READ_ONLY: Final = "the brain file cannot be written to"
_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# Problems that may pass by themselves.
_PASSING: Final = {
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_BUSY: LOCKED,
    sqlite3.SQLITE_READONLY: READ_ONLY,
}
# Less than a few notes need.
_LEAST_FREE: Final = 8 * 1024 * 1024
# After this time, a full disk may have room again. If not, the next write will notice.
_PASSING_SECONDS: Final = 60.0
# How long a check, which reads the whole file, may take, and how often it is made at most.
_LOOK_SECONDS: Final = 1.0
_EVERY_SECONDS: Final = 300.0
_STEPS: Final = 10_000


class Health:
    """The state of one file. Code that gets an error notes it here."""

    def __init__(self, file: Path, version: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`version` is the format that this program knows."""
        self._file, self._version, self._clock = file, version, clock
        self._lasting: str | None = None
        self._passing: tuple[str, float] | None = None
        """A problem that may pass, and when it is forgotten."""
        self._next_look = -1.0

    def note(self, error: sqlite3.Error) -> None:
        whole = getattr(error, "sqlite_errorcode", 0)
        code = whole & 0xFF
        if code in _DAMAGE:
            self._find(DAMAGED)
        elif code in _PASSING and whole != sqlite3.SQLITE_BUSY_SNAPSHOT:
            # This writer waited for a lock until its patience ended. BUSY_SNAPSHOT is an outdated view, and no lock.
            self._passing = (_PASSING[code], self._clock() + _PASSING_SECONDS)

    def note_turn(self) -> None:
        """A writer has got the lock, so no other program holds it."""
        if self._passing is not None and self._passing[0] == LOCKED:
            self._passing = None

    def note_written(self) -> None:
        """Something was stored, so whatever may have been in the way is gone."""
        self._passing = None

    def _find(self, problem: str) -> None:
        if self._lasting is None:
            # Once: what fails because of it has lines of its own.
            log.error("%s: %s. Stop whatever uses it; `brains-gateway doctor` says what to do.", self._file, problem)
        self._lasting = problem

    def problem(self) -> str | None:
        """What is wrong with it, in a few words; None if nothing is known to be."""
        if self._lasting is None and self._clock() >= self._next_look:
            if damage(self._file, seconds=_LOOK_SECONDS) is not None:
                self._find(DAMAGED)
            elif _version_of(self._file) > self._version:
                self._find(NEWER)
            self._next_look = self._clock() + _EVERY_SECONDS
        if self._lasting is not None:
            return self._lasting
        if not os.access(self._file, os.W_OK):
            return READ_ONLY
        return self._passing_problem() or (FULL if _free(self._file) < _LEAST_FREE else None)

    def _passing_problem(self) -> str | None:
        if (found := self._passing) is None:
            return None
        what, until = found
        is_gone = not _is_locked(self._file) if what == LOCKED else self._clock() >= until
        # Meanwhile a writer may have met another.
        if is_gone and self._passing is found:
            self._passing = None
        return None if is_gone else what


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


def _version_of(file: Path) -> int:
    """The format of a file; 0 if it cannot be read now."""
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error:
        return 0


def _is_locked(file: Path) -> bool:
    """Whether somebody holds the lock for writing at this moment."""
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True, timeout=0)) as connection:
            connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
    return False


def _free(file: Path) -> float:
    """How much room there is on the disk; infinite if that is not known."""
    try:
        disk = os.statvfs(file.parent)
    except (AttributeError, OSError):
        return float("inf")
    return disk.f_bavail * disk.f_frsize
