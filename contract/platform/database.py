"""The SQLite file: opening, migrating, and lending connections for one transaction at a time."""

import os
import sqlite3
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, TypeVar

from contract.platform.health import Health
from contract.platform.holding import Hold, InUse, hold
from contract.platform.meaning.embedder import Embedder
from contract.platform.quota import Quota

BUSY_SECONDS: Final = 10.0
# In addition to SQLite's own waiting, because a large ingest in another process may hold the write lock for longer.
BUSY_ATTEMPTS: Final = 6
FILE_NAME: Final = "brains.sqlite3"
SCHEMA_VERSION: Final = 5
LOCKED: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

Result = TypeVar("Result")

PRAGMAS: Final = (
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA journal_size_limit = 67108864",
    # The page cache of the system serves all connections and processes; each keeps little of its own.
    "PRAGMA mmap_size = 1073741824",
    "PRAGMA cache_size = -8192",
)


class StoreUnavailable(Exception):
    """The data directory cannot be used; the message is one sentence for the person who started the server."""


class Connection(sqlite3.Connection):
    """A connection that knows the rules for what is written through it."""

    embedder: Embedder | None = None
    """What makes the vectors, if that is done at once."""
    quota: Quota | None = None
    """How much a brain may hold."""


class Database:
    """Lends pooled connections: any number read at once, one writes."""

    def __init__(self, file: Path, embedder: Embedder | None = None, quota: Quota | None = None) -> None:
        self._file = file
        self._quota = quota
        self.health = Health(file, SCHEMA_VERSION)
        self.embedder = embedder
        # Called after each transaction. Code that has work to do then sets it.
        self.written: Callable[[], None] = lambda: None
        self._idle: deque[sqlite3.Connection] = deque()
        self._impatient: deque[sqlite3.Connection] = deque()
        self._closed = False
        self._hold: Hold | None = None
        # Threads of one process queue here, so that SQLite's polling only settles what is between processes.
        self._write_turn = threading.Lock()

    @classmethod
    def open(
        cls,
        data_dir: Path,
        complete: Callable[[sqlite3.Connection, int], None],
        embedder: Embedder | None = None,
        quota: Quota | None = None,
    ) -> "Database":
        """Open or make the file; `complete` fills a new one, whose version is 0, and one of an older version.

        With an embedder, whatever is written gets its vectors in the same transaction.

        Raises: StoreUnavailable, sqlite3.Error.
        """
        file = data_dir / FILE_NAME
        database = cls(file, embedder, quota)
        try:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Before the file is opened, so that from now on nobody can put another in its place.
            database._hold = hold(data_dir)
            _make(file)
            database._prepare(complete)
        except InUse:
            raise StoreUnavailable(f"A backup is being put in the place of {file}: try again then.") from None
        except OSError as error:
            raise StoreUnavailable(f"The data directory {data_dir} cannot be used: {error.strerror}.") from error
        finally:
            if sys.exception() is not None:
                database.close()
        return database

    def _prepare(self, complete: Callable[[sqlite3.Connection, int], None]) -> None:
        with closing(self._connect()) as connection:
            # All processes wait for a migration, so vectors of the chunks that it indexes are made later.
            connection.embedder = None
            _patiently(lambda: connection.execute("PRAGMA journal_mode = WAL"))
            # A table that is made anew is dropped once, and rows that refer to it must not be deleted with it.
            connection.execute("PRAGMA foreign_keys = OFF")
            _migrate(connection, complete)
            if (quota := self._quota) is not None:
                _patiently(lambda: quota.prepare(connection))

    def close(self) -> None:
        self._closed = True
        for idle in (self._idle, self._impatient):
            while idle:
                idle.pop().close()
        if self._hold is not None:
            self._hold.release()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One consistent view of the file."""
        with self._lent() as connection:
            # A deferred BEGIN reads nothing yet. The first statement takes the view, so that is the one to repeat.
            connection.execute("BEGIN")
            _patiently(lambda: connection.execute("SELECT n FROM brains LIMIT 1").fetchone())
            yield connection

    def glance(self, read: Callable[[sqlite3.Connection], Result]) -> Result:
        """What one statement reads, for a caller that must not wait.

        Raises: sqlite3.Error, also when the statement would have had to wait.
        """
        connection = self._impatient.pop() if self._impatient else self._connect(patience=0)
        try:
            result = read(connection)
        except sqlite3.Error:
            connection.close()
            raise
        if self._closed:
            connection.close()
        else:
            self._impatient.append(connection)
        return result

    @contextmanager
    def writing(self, *, announced: bool = True) -> Iterator[sqlite3.Connection]:
        """One transaction: everything in the block is durable when it ends, or nothing is."""
        with self._write_turn, self._lent() as connection:
            _patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
            self.health.note_turn()
            yield connection
            connection.execute("COMMIT")
            self.health.note_written()
        if announced:
            self.written()

    @contextmanager
    def _lent(self) -> Iterator[sqlite3.Connection]:
        connection = self._idle.pop() if self._idle else self._connect()
        try:
            yield connection
        except sqlite3.Error as error:
            # Its state is not known any more; closing it also rolls back.
            connection.close()
            self.health.note(error)
            raise
        except BaseException:
            self._take_back(connection)
            raise
        self._take_back(connection)

    def _take_back(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if self._closed:
            connection.close()
        else:
            self._idle.append(connection)

    def _connect(self, patience: float | None = None) -> Connection:
        connection = sqlite3.connect(
            self._file,
            timeout=BUSY_SECONDS if patience is None else patience,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            factory=Connection,
        )
        connection.embedder, connection.quota = self.embedder, self._quota
        connection.row_factory = sqlite3.Row
        try:
            for pragma in PRAGMAS:
                connection.execute(pragma)
        except sqlite3.Error:
            connection.close()
            raise
        return connection


def _make(file: Path) -> None:
    """A file that only its owner can read. One that can be opened is left alone: closing it would take the locks away
    that this process has on it."""
    if not file.exists() or not os.access(file, os.R_OK | os.W_OK):
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    file.chmod(0o600)


def embedder_of(connection: sqlite3.Connection) -> Embedder | None:
    return connection.embedder if isinstance(connection, Connection) else None


def quota_of(connection: sqlite3.Connection) -> Quota | None:
    return connection.quota if isinstance(connection, Connection) else None


def _patiently(step: Callable[[], object]) -> None:
    """Repeat a step that found the file locked, a bounded number of times."""
    for attempt in range(1, BUSY_ATTEMPTS + 1):
        try:
            step()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in LOCKED or attempt == BUSY_ATTEMPTS:
                raise
            # Switching a new file to WAL is refused at once, without SQLite's own waiting.
            time.sleep(0.05 * attempt)


def _migrate(connection: sqlite3.Connection, complete: Callable[[sqlite3.Connection, int], None]) -> None:
    """Bring the file to this version, while every other process that opens it waits."""
    _patiently(lambda: connection.execute("BEGIN EXCLUSIVE"))
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise StoreUnavailable(f"The brain file was written by a newer version of this program (format {version}).")
    if version < 1:
        _execute(connection, "schema.sql")
    if version < 2:
        _execute(connection, "changes.sql")
    if version < 3:
        _execute(connection, "visibility.sql")
    if version < 5:
        _execute(connection, "meaning.sql")
    if version < SCHEMA_VERSION:
        complete(connection, version)
    # They change no existing table, so a file with them does not need another version.
    _execute(connection, "work.sql")
    _execute(connection, "keys.sql")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _execute(connection: sqlite3.Connection, name: str) -> None:
    for statement in Path(__file__).with_name(name).read_text(encoding="utf-8").split(";\n"):
        connection.execute(statement)
