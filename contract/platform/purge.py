"""Erases for good: no deleted text stays in the bytes of the file."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from contract.platform import names
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


def forget(data_dir: Path, brain: str, is_meant: Callable[[str], bool]) -> int:
    """Erase what is kept beside documents that are gone: their paths in the log of changes and in the list of work for
    a model, messages of a session, and its reflection. `brain` is an id.

    Returns how many messages were erased. Their numbers are not used again.
    """
    with closing(connect(data_dir / FILE_NAME, _PATIENCE_SECONDS, writes=True)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        (found,) = connection.execute("SELECT min(n) FROM brains WHERE id = ?", (brain,)).fetchone()
        changes = connection.execute("SELECT n, path, ifnull(old_path, path) FROM changes WHERE brain = ?", (found,))
        gone = [(n,) for n, *paths in changes if any(map(is_meant, paths))]
        connection.executemany("DELETE FROM changes WHERE n = ?", gone)
        work = connection.execute("SELECT subject FROM model_work WHERE brain = ? AND kind = 'transcript'", (found,))
        connection.executemany(
            "DELETE FROM model_work WHERE brain = ? AND kind = 'transcript' AND subject = ?",
            [(found, subject) for (subject,) in work if is_meant(subject)],
        )
        erased = _forget_said(connection, found, is_meant)
        connection.execute("COMMIT")
    return erased


def _forget_said(connection: sqlite3.Connection, brain: int, is_meant: Callable[[str], bool]) -> int:
    erased = 0
    for n, session in connection.execute("SELECT n, id FROM sessions WHERE brain = ?", (brain,)).fetchall():
        said = connection.execute("SELECT seq FROM messages WHERE session = ? AND content != ''", (n,))
        meant = [(n, seq) for (seq,) in said if is_meant(names.said_path(session, seq))]
        # A key may follow from the words of its message.
        connection.executemany("DELETE FROM message_keys WHERE session = ? AND seq = ?", meant)
        connection.executemany(
            "UPDATE messages SET content = '', name = NULL, metadata = '{}' WHERE session = ? AND seq = ?", meant
        )
        erased += len(meant)
        if is_meant(names.reflection_path(session)):
            connection.execute("UPDATE sessions SET reflection = NULL, reflected_up_to = 0 WHERE n = ?", (n,))
    return erased


def derived_from(data_dir: Path, brain: str, path: str) -> list[str]:
    """The notes whose own fields say that they were made from this note, or from its session."""
    asked = """
        SELECT path, json_extract(metadata, '$.extracted_from'), json_extract(metadata, '$.session_id') FROM documents
        WHERE brain = (SELECT n FROM brains WHERE id = ?) ORDER BY path
    """
    with closing(connect(data_dir / FILE_NAME, _PATIENCE_SECONDS, writes=True)) as connection:
        return [
            str(derived)
            for derived, origin, session in connection.execute(asked, (brain,))
            if origin == path
            or (session and path.startswith(names.session_folder(str(session))) and not names.is_said(derived))
        ]


def holds(backup: Path, is_meant: Callable[[str], bool]) -> bool:
    """Whether a backup has a document at a path that is meant; one that cannot be read may have it."""
    try:
        with closing(connect(backup)) as connection:
            return any(is_meant(str(row[0])) for row in connection.execute("SELECT path FROM documents"))
    except sqlite3.Error:
        return True
