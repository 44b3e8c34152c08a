"""Erases for good: no deleted text stays in the bytes of the file."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from contract.platform.database import FILE_NAME
from contract.platform.integrity import connect

_PATIENCE_SECONDS: Final = 10.0
_ATTEMPTS: Final = 20


class StillRead(Exception):
    """Another process reads the file, so its log could not be emptied."""


def scrub(data_dir: Path) -> None:
    """Rewrite the file and its index, and empty its log.

    SQLite leaves deleted bytes in free pages, in old pieces of the index and in the log, until it needs the room for
    something else.

    Raises: StillRead, sqlite3.Error.
    """
    with closing(connect(data_dir / FILE_NAME, _PATIENCE_SECONDS, writes=True)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%fts5%'")
        for (name,) in tables.fetchall():
            connection.execute(f'INSERT INTO "{name}" ("{name}") VALUES (\'rebuild\')')
        connection.execute("VACUUM")
        for _ in range(_ATTEMPTS):
            if not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                return
            time.sleep(0.1)
    raise StillRead


def derived_from(data_dir: Path, path: str) -> list[str]:
    """The notes whose own fields say that they were made from this one."""
    asked = "SELECT path FROM documents WHERE json_extract(metadata, '$.extracted_from') = ? ORDER BY path"
    with closing(connect(data_dir / FILE_NAME, _PATIENCE_SECONDS, writes=True)) as connection:
        return [str(row[0]) for row in connection.execute(asked, (path,))]


def holds(backup: Path, is_meant: Callable[[str], bool]) -> bool:
    """Whether a backup has a document at a path that is meant; one that cannot be read may have it."""
    try:
        with closing(connect(backup)) as connection:
            return any(is_meant(str(row[0])) for row in connection.execute("SELECT path FROM documents"))
    except sqlite3.Error:
        return True
