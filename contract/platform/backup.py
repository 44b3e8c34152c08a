"""Backups of the brain file: made while it is in use, and checked before they count."""

import os
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from contract.platform.database import FILE_NAME
from contract.platform.holding import InUse, hold
from contract.platform.integrity import check_file, connect, kind_of, trouble

# What SQLite keeps beside a file.
BESIDE: Final = ("-wal", "-shm", "-journal")
# Daily backups are named by their day, so that only one of several processes makes it.
_DAILY: Final = "brains-[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9].sqlite3"
_BUSY_SECONDS: Final = 10.0


class BackupFailed(Exception):
    """Why a backup was not made or not put back, in one sentence with its fix."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What is in a backup."""

    file: Path
    brains: int
    documents: int
    size: int
    kept: tuple[Path, ...] = ()
    """The paths of the old files that a restored backup has replaced."""
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)


def back_up(data_dir: Path, target: Path, secrets: Mapping[str, bytes] | None = None) -> Copied:
    """Copy the brain file of a directory, as it is at this moment, whoever writes to it meanwhile.

    `secrets` are files that go along, by name. Only the owner can read the copy.

    Raises: BackupFailed.
    """
    source = data_dir / FILE_NAME
    if not source.exists():
        raise BackupFailed(f"There is no brain file in {data_dir}: name its directory with BRAINS_DATA_DIR.")
    if target.exists():
        raise BackupFailed(f"{target} is there already: choose another name.")
    part = target.with_name(f"{target.name}.part-{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _copy(source, part, in_use=True)
        with closing(sqlite3.connect(part, isolation_level=None)) as copy:
            _put_secrets(copy, secrets or {})
        made = _inspect(part, of=source)
        _name(part, target)
    except sqlite3.Error as error:
        raise BackupFailed(str(trouble(kind_of(error), source))) from None
    except OSError as error:
        raise BackupFailed(f"{error.filename or target} cannot be written: {error.strerror}.") from None
    finally:
        _remove(part)
    _sync(target.parent)
    return Copied(target, made.brains, made.documents, target.stat().st_size)


def restore(data_dir: Path, source: Path) -> Copied:
    """Put a backup in the place of the brain file. The old file is kept beside it.

    Raises: BackupFailed: it cannot be used, or the directory is in use; then nothing was changed.
    """
    if not source.is_file():
        raise BackupFailed(f"There is no file {source}.")
    target, part = data_dir / FILE_NAME, data_dir / f"{FILE_NAME}.restoring"
    _inspect(source)
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = hold(data_dir, alone=True)
    except InUse:
        raise _in_use(data_dir) from None
    except OSError as error:
        raise BackupFailed(f"The data directory {data_dir} cannot be used: {error.strerror}.") from None
    try:
        _require_unused(target)
        _copy(source, part, in_use=False)
        with closing(sqlite3.connect(part, isolation_level=None)) as copy:
            secrets = _take_secrets(copy)
        restored = _inspect(part)
        kept = _put_aside(target)
        os.replace(part, target)
        _sync(data_dir)
    except OSError as error:
        raise BackupFailed(f"{error.filename or target} cannot be written: {error.strerror}.") from None
    except sqlite3.Error as error:
        raise BackupFailed(f"{source} could not be copied to {data_dir}: {error}.") from None
    finally:
        _remove(part)
        held.release()
    return Copied(target, restored.brains, restored.documents, target.stat().st_size, kept, secrets)


def back_up_daily(data_dir: Path, directory: Path, keep: int) -> Path | None:
    """Make today's backup, unless it exists, and keep only so many of the earlier ones.

    Raises: BackupFailed.
    """
    file = directory / f"brains-{datetime.now(UTC).date().isoformat()}.sqlite3"
    made = None
    if not file.exists():
        _forget_parts(directory)
        try:
            made = back_up(data_dir, file).file
        except BackupFailed:
            # Another process was faster.
            if not file.exists():
                raise
    for old in daily_backups(directory)[keep:]:
        with suppress(OSError):
            old.unlink()
    return made


def daily_backups(directory: Path) -> list[Path]:
    """The newest first."""
    return sorted(directory.glob(_DAILY), reverse=True)


def kept_aside(data_dir: Path) -> list[Path]:
    """The old files of a directory that restored backups have replaced."""
    return sorted(file for file in data_dir.glob(f"{FILE_NAME}.before-*") if not file.name.endswith(BESIDE))


def _copy(source: Path, target: Path, *, in_use: bool) -> None:
    """Copies with SQLite's own function, in one view of the file, and into one file."""
    _remove(target)
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with (
        closing(connect(source, _BUSY_SECONDS, writes=in_use)) as old,
        closing(sqlite3.connect(target, isolation_level=None)) as new,
    ):
        old.backup(new)
        new.execute("PRAGMA journal_mode = DELETE")
    with target.open("rb") as copied:
        os.fsync(copied.fileno())


def _name(part: Path, target: Path) -> None:
    """Give a finished file its name. A link, which not every disk has, replaces no file that came there meanwhile."""
    try:
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError:
        os.rename(part, target)


def _inspect(file: Path, *, of: Path | None = None) -> Copied:
    """The contents of a file that could take the place of a brain file, or that is a copy of one.

    Raises: BackupFailed.
    """
    if (found := check_file(file, thorough=True, writes=False)) is not None:
        # A copy has the pages of the brain file. So that one is damaged, and the copy is gone in a moment.
        raise BackupFailed(f"{found.message} It was not used." if of is None else str(trouble(found.kind, of)))
    try:
        with closing(connect(file)) as connection:
            brains, documents = (
                connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("brains", "documents")
            )
    except sqlite3.Error:
        raise BackupFailed(f"{file} is no backup of a brain: it has no brains in it.") from None
    return Copied(file, brains, documents, file.stat().st_size)


def _require_unused(file: Path) -> None:
    """Check that no program without our lock has the file open, such as an older version.

    Raises: BackupFailed.
    """
    if not file.exists():
        return
    try:
        with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as connection:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
            # The contents of its log go into the file, so that one file holds everything.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error as error:
        if kind_of(error) == "locked":
            raise _in_use(file.parent) from None
        # The old file may be damaged, which may be the reason to replace it.


def _in_use(data_dir: Path) -> BackupFailed:
    return BackupFailed(f"{data_dir} is in use: stop every gateway that uses it, also those that clients started.")


def _put_aside(file: Path) -> tuple[Path, ...]:
    """Give the file and those beside it other names. Until another takes its place, the file keeps its name too."""
    if not file.exists():
        return ()
    aside = file.with_name(f"{file.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}")
    for ending in BESIDE:
        with suppress(FileNotFoundError):
            os.replace(f"{file}{ending}", f"{aside}{ending}")
    try:
        os.link(file, aside)
    except OSError:
        shutil.copy2(file, aside)
    return tuple(path for path in (aside, *(Path(f"{aside}{ending}") for ending in BESIDE)) if path.exists())


def _put_secrets(copy: sqlite3.Connection, secrets: Mapping[str, bytes]) -> None:
    if secrets:
        copy.execute("CREATE TABLE secrets (name TEXT PRIMARY KEY, content BLOB NOT NULL)")
        copy.executemany("INSERT INTO secrets VALUES (?, ?)", secrets.items())


def _take_secrets(copy: sqlite3.Connection) -> dict[str, bytes]:
    """Those of a copy, which has none of them afterwards."""
    if not copy.execute("SELECT 1 FROM sqlite_master WHERE name = 'secrets'").fetchone():
        return {}
    found = dict(copy.execute("SELECT name, content FROM secrets"))
    copy.execute("PRAGMA secure_delete = ON")
    copy.execute("DROP TABLE secrets")
    return found


def _forget_parts(directory: Path) -> None:
    """Remove files that killed processes have left. Files that are being written now are newer, and stay."""
    for part in directory.glob(f"{_DAILY}.part*"):
        with suppress(OSError):
            if datetime.now(UTC).timestamp() - part.stat().st_mtime > 3600:
                part.unlink()


def _remove(file: Path) -> None:
    for name in (str(file), *(f"{file}{ending}" for ending in BESIDE)):
        with suppress(FileNotFoundError):
            os.unlink(name)


def _sync(directory: Path) -> None:
    """Write the directory to the disk, because only then a new name is safe."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
