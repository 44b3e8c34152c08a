"""Whether the brain file can be used; if not, what is wrong and what to do."""

import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from contract.platform.database import FILE_NAME, LOCKED, SCHEMA_VERSION
from contract.platform.holding import InUse, hold

Kind = Literal["corrupt", "truncated", "too_new", "locked", "read_only", "full", "unreadable"]

# With less room than this, the next larger note may not fit.
LEAST_FREE_BYTES: Final = 16 * 1024 * 1024
_HEADER: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100

_MESSAGES: Final[dict[Kind, str]] = {
    "corrupt": "The brain file {file} is damaged.",
    "truncated": "The brain file {file} is cut off: a part of it is missing.",
    "too_new": "The brain file {file} was written by a newer version of this program.",
    "locked": "The brain file {file} is locked by another program.",
    "read_only": "The brain file {file} cannot be written to.",
    "full": "The disk of the brain file {file} is full.",
    "unreadable": "The brain file {file} cannot be read.",
}
_FROM_A_BACKUP: Final = "Put a backup in its place: brains-gateway restore FILE. What is there now is kept beside it."
_REMEDIES: Final[dict[Kind, str]] = {
    "corrupt": _FROM_A_BACKUP,
    "truncated": _FROM_A_BACKUP,
    "too_new": "Install that version, or choose another directory with BRAINS_DATA_DIR.",
    "locked": "Wait until it is done, or stop it: an SQLite shell that left a transaction open is enough.",
    "read_only": "Let this user write to the file and its directory, or choose another with BRAINS_DATA_DIR.",
    "full": "Make room there, or move the data: docs/operating.md says how.",
    "unreadable": "Let this user read and write the file and its directory, or choose another with BRAINS_DATA_DIR.",
}
_BY_CODE: Final[dict[int, Kind]] = {
    **dict.fromkeys(LOCKED, "locked"),
    sqlite3.SQLITE_CORRUPT: "corrupt",
    sqlite3.SQLITE_NOTADB: "corrupt",
    sqlite3.SQLITE_READONLY: "read_only",
    sqlite3.SQLITE_FULL: "full",
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with a brain file: a word for programs, a sentence and a remedy for people."""

    kind: Kind
    message: str
    remedy: str

    @property
    def may_pass(self) -> bool:
        """Whether the trouble may pass by itself. Until then the file can be read."""
        return self.kind in {"locked", "full"}

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}"


def check_database(data_dir: Path, *, thorough: bool = False, patience: float = 1.0) -> Trouble | None:
    """What is wrong with the brain file of a directory; None if it can be used, or can be created.

    It reads, and sees whether it could write. `thorough` reads every page and does write, so it takes as long as the
    file is large. `patience` is how many seconds it waits for a lock.
    """
    return check_file(data_dir / FILE_NAME, thorough=thorough, patience=patience)


def check_file(file: Path, *, thorough: bool = False, patience: float = 1.0, writes: bool = True) -> Trouble | None:
    """The same of any brain file; without `writes` of one that is only read, as a backup is."""
    try:
        if writes and (kind := _place(file)) is not None:
            return trouble(kind, file)
        if not file.exists() or not file.stat().st_size:
            return None
        with closing(connect(file, patience, writes=writes)) as connection:
            found = _content(connection, thorough=thorough, writes=writes)
    except OSError:
        return trouble("unreadable", file)
    except sqlite3.Error as error:
        kind = kind_of(error)
        return trouble("truncated" if kind == "corrupt" and _is_cut_off(file) else kind, file)
    return None if found is None else trouble(found, file)


def connect(file: Path, patience: float = 1.0, *, writes: bool = False) -> sqlite3.Connection:
    """A connection to a file that is there. One that only reads leaves nothing beside the file."""
    mode = "rw" if writes else "ro"
    if not writes and not file.with_name(f"{file.name}-wal").exists():
        # The file was closed properly, so SQLite need not look for other users of it.
        mode += "&immutable=1"
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode={mode}", uri=True, timeout=patience, isolation_level=None)


def was_left_open(data_dir: Path) -> bool:
    """Whether the last users of the file did not close it, and nobody uses it now."""
    log = data_dir / f"{FILE_NAME}-wal"
    try:
        if not log.exists() or not log.stat().st_size:
            return False
        hold(data_dir, alone=True).release()
    except (InUse, OSError):
        return False
    return True


def kind_of(error: sqlite3.Error) -> Kind:
    # An error of Python's own module, such as text that is no UTF-8, has no code.
    return _BY_CODE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "unreadable")


def trouble(kind: Kind, file: Path) -> Trouble:
    return Trouble(kind, _MESSAGES[kind].format(file=file), _REMEDIES[kind])


def _place(file: Path) -> Kind | None:
    """Whether there is room, and the right to use it."""
    if not file.parent.exists():
        return None
    if not os.access(file.parent, os.W_OK | os.X_OK) or (file.exists() and not os.access(file, os.R_OK | os.W_OK)):
        return "read_only"
    return "full" if shutil.disk_usage(file.parent).free < LEAST_FREE_BYTES else None


def _is_cut_off(file: Path) -> bool:
    """Whether a damaged file is shorter than it says. Never ask this of one that is sound: in a process that has it
    open, closing it here would take SQLite's locks away."""
    with file.open("rb") as opened:
        header = opened.read(_HEADER_BYTES)
    # A page size of 65,536 is written as 1; the number of pages counts only if both counters agree.
    page = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big") if header[24:28] == header[92:96] else 0
    whole = pages * (65_536 if page == 1 else page)
    return header.startswith(_HEADER) and whole > file.stat().st_size


def _content(connection: sqlite3.Connection, *, thorough: bool, writes: bool) -> Kind | None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        return "too_new"
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if thorough and connection.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
        return "corrupt"
    if writes:
        connection.execute("BEGIN IMMEDIATE")
        if thorough:
            # It is the same number again, but the page is written.
            connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT" if thorough else "ROLLBACK")
    return None
