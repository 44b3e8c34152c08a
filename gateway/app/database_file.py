"""The file of the embedded brain: whether it is sound, and its backups."""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog

from contract.platform import backup, purge
from contract.platform.backup import BackupFailed, Copied
from contract.platform.database import FILE_NAME
from contract.platform.integrity import Trouble, check_database, connect, was_left_open
from gateway.app.startup import CannotStart, check_data_dir
from gateway.brain.notebook import hits_path
from gateway.brain.shelf import is_version
from gateway.config.reread_file import replace_file
from gateway.config.settings import BadSetting, Settings

log = structlog.get_logger()

_LOOK_SECONDS: Final = 600.0
# Backups are made once a day. If there is none for this long, something prevents them.
_OVERDUE_SECONDS: Final = 2 * 24 * 3600
_LOOK_PATIENCE: Final = 0.2
_COUNTED: Final = {"notes": "documents", "chunks": "chunks", "vectors": "vectors"}
_ELSEWHERE: Final = (
    "BRAINS_UPSTREAM_URL is set, and this command is for the embedded brain alone: its platform has backups of its own."
)


def trouble_of(settings: Settings, *, thorough: bool = False) -> Trouble | None:
    """What is wrong with the file of the embedded brain; None also if a platform is used instead."""
    return None if settings.upstream_url is not None else check_database(settings.data_dir, thorough=thorough)


def trouble_at_start(settings: Settings) -> Trouble | None:
    """A trouble of the file that may be over soon; None if there is none.

    Raises: CannotStart: there is a trouble that does not pass by itself.
    """
    if settings.upstream_url is not None:
        return None
    check_data_dir(settings.data_dir)
    # A file that its last users left open is read in full. It must be now: looking at the file closes it, and after
    # that nobody can see that it was left open.
    trouble = trouble_of(settings, thorough=was_left_open(settings.data_dir))
    if trouble is not None and not trouble.may_pass:
        raise CannotStart(str(trouble))
    return trouble


def sizes_of(data_dir: Path) -> dict[str, int]:
    """How large the embedded brain is: bytes, and how much is in it. Fewer figures if it cannot be read now."""
    file = data_dir / FILE_NAME
    if not file.exists():
        return {}
    log = file.with_name(f"{FILE_NAME}-wal")
    sizes = {"file_bytes": file.stat().st_size, "wal_bytes": log.stat().st_size if log.exists() else 0}
    try:
        with closing(connect(file, _LOOK_PATIENCE)) as connection:
            for what, table in _COUNTED.items():
                ((sizes[what],),) = connection.execute(f"SELECT count(*) FROM {table}")
    except sqlite3.Error:
        pass
    return sizes


def back_up(settings: Settings, target: Path, *, with_secrets: bool) -> Copied:
    """Raises: CannotStart, BadSetting."""
    _require_embedded(settings)
    secrets = {name: path.read_bytes() for name, path in _secret_files(settings).items() if path.exists()}
    if target.is_dir():
        target = target / f"brains-{datetime.now(UTC):%Y-%m-%dT%H%M%S}.sqlite3"
    try:
        return backup.back_up(settings.data_dir, target, secrets if with_secrets else None)
    except BackupFailed as error:
        raise CannotStart(str(error)) from None


def restore(settings: Settings, source: Path, *, with_secrets: bool) -> tuple[Copied, list[Path]]:
    """Restore the backup. Returns it, and the files of tokens and keys that were restored with it.

    Raises: CannotStart, BadSetting.
    """
    _require_embedded(settings)
    try:
        restored = backup.restore(settings.data_dir, source)
    except BackupFailed as error:
        raise CannotStart(str(error)) from None
    return restored, _put_secrets(settings, restored.secrets) if with_secrets else []


def backup_state(settings: Settings) -> tuple[str, str | None]:
    """The daily backups that exist, and what is wrong with them, each in a sentence."""
    directory, now = settings.backup_dir, datetime.now(UTC).timestamp()
    if settings.upstream_url is not None:
        return "", None
    if directory is None:
        return "none are made by themselves: set BRAINS_BACKUP_DIR", None
    made = backup.daily_backups(directory)
    if not made:
        return f"none yet in {directory}", None
    told = f"{len(made)} in {directory}, the newest {made[0].name}"
    overdue = now - made[0].stat().st_mtime > _OVERDUE_SECONDS
    return told, f"The newest backup in {directory} is more than two days old." if overdue else None


def forget(settings: Settings, brain: str, path: str) -> int:
    """Erase what the embedded brain keeps beside a document that is gone. Returns how many messages were erased.

    Raises: CannotStart.
    """
    with _erasing("it is still in the log of changes"):
        return purge.forget(settings.data_dir, brain, _copies_of(path))


def left_of(settings: Settings, brain: str, path: str) -> tuple[list[str], list[Path]]:
    """Which notes were made of the erased one at this path, and which backups still have it or a version of it: daily
    ones, and what `restore` has put aside.

    Raises: CannotStart.
    """
    with _erasing("the file could not be read"):
        derived = purge.derived_from(settings.data_dir, brain, path)
    kept = [] if settings.backup_dir is None else backup.daily_backups(settings.backup_dir)
    kept += backup.kept_aside(settings.data_dir)
    return derived, [file for file in kept if purge.holds(file, _copies_of(path))]


def _copies_of(path: str) -> Callable[[str], bool]:
    return lambda other: other in (path, hits_path(path)) or is_version(other, path)


def rewrite(settings: Settings) -> None:
    """Write the file of the embedded brain anew, without the bytes of deleted notes.

    Raises: CannotStart.
    """
    try:
        with _erasing("the file could not be rewritten"):
            purge.scrub(settings.data_dir)
    except purge.StillRead:
        raise CannotStart(
            "It is erased, but another gateway reads the file: repeat this when it has stopped."
        ) from None


@contextmanager
def _erasing(failed: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise CannotStart(f"It is erased, but {failed}: {error}. Repeat this.") from None


class DailyBackups:
    """Makes a backup a day while the embedded brain runs, in a thread of its own."""

    def __init__(self, data_dir: Path, directory: Path, keep: int) -> None:
        self._places = (data_dir, directory, keep)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="daily-backups", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                made = backup.back_up_daily(*self._places)
                if made is not None:
                    log.info("backup.made", file=str(made))
            except (BackupFailed, OSError) as error:
                log.error("backup.failed", reason=str(error))
            self._stopped.wait(_LOOK_SECONDS)


def _require_embedded(settings: Settings) -> None:
    if settings.upstream_url is not None:
        raise BadSetting(_ELSEWHERE)


def _secret_files(settings: Settings) -> dict[str, Path]:
    """The files of tokens and keys, by the setting that names them."""
    files = {
        "BRAINS_TOKENS_FILE": settings.tokens_path,
        "BRAINS_SIGNING_KEYS_FILE": settings.signing_keys_file,
        "BRAINS_INTERNAL_KEY_FILE": settings.internal_key_file,
        "BRAINS_STATE_KEYS_FILE": settings.state_keys_file,
        "BRAINS_USERS_FILE": settings.users_path,
        "BRAINS_LOGIN_KEYS_FILE": settings.login_keys_path,
    }
    return {name: path for name, path in files.items() if path is not None}


def _put_secrets(settings: Settings, secrets: Mapping[str, bytes]) -> list[Path]:
    """Restore those files whose path is known. The old file is kept beside each."""
    written = []
    for name, path in _secret_files(settings).items():
        if name in secrets:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if path.exists():
                os.replace(path, path.with_name(f"{path.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"))
            replace_file(path, secrets[name])
            written.append(path)
    return written
