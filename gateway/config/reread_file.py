"""Files that an operator may change while we run, and how we change them."""

import math
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Generic, TypeVar

import structlog

log = structlog.get_logger()
T = TypeVar("T")
_WORD = re.compile(rb"[\x21-\x7e]+")
_STATE_KEY = re.compile(rb"[0-9a-fA-F]{64}")
# We replace files whole; an editor may leave a part of one for a moment.
_WRITING_SECONDS: Final = 5.0


class RereadFile(Generic[T]):
    """The current content of a file. If it cannot be read, that is reported once, with what holds meanwhile."""

    def __init__(
        self,
        path: Path,
        parse: Callable[[bytes], T],
        *,
        without: T | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read it once.

        `without` is what holds without the file: at once if it is gone, and if it cannot be read, after the few seconds
        that somebody may need to write it. None: the old content holds until the file can be read again.

        Raises:
            OSError: it cannot be read.
            ValueError: its content is not valid.
        """
        self.path = path
        self._parse, self._without, self._clock = parse, without, clock
        self._seen = _state(path)
        self._value = parse(path.read_bytes())
        self._failure: str | None = None
        self._holds_until = math.inf

    @property
    def is_current(self) -> bool:
        """Whether the last look could read it."""
        return self._failure is None

    def value(self) -> T:
        try:
            now = _state(self.path)
            if now != self._seen:
                self._value = self._parse(self.path.read_bytes())
                self._seen, self._failure, self._holds_until = now, None, math.inf
                log.info("file.reloaded", file=self.path.name)
        except (OSError, ValueError) as error:
            self._note(error)
        return self._value if self._without is None or self._clock() < self._holds_until else self._without

    def _note(self, error: Exception) -> None:
        gone, failure = isinstance(error, FileNotFoundError), type(error).__name__
        self._holds_until = -math.inf if gone else min(self._holds_until, self._clock() + _WRITING_SECONDS)
        if self._without is None:
            meanwhile = "What it said before holds. Put a good one in its place."
        elif gone:
            meanwhile = "Nothing it said holds any more. Put it back, or make a new one."
        else:
            meanwhile = f"What it said before holds for {_WRITING_SECONDS:g} seconds. Put a good one in its place."
        if failure != self._failure:
            log.error("file.unreadable", file=self.path.name, error=failure, meanwhile=meanwhile)
        self._seen, self._failure = None, failure


def _state(path: Path) -> tuple[int, int, int] | None:
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns


def header_word(body: bytes) -> str:
    """A secret that goes into a header. Raises ValueError."""
    word = body.strip()
    if not _WORD.fullmatch(word):
        raise ValueError("not one word")
    return word.decode()


def state_keys(body: bytes) -> list[bytes]:
    """Keys of 32 bytes in hex, one a line. Raises ValueError."""
    lines = body.split()
    if not lines or not all(_STATE_KEY.fullmatch(line) for line in lines):
        raise ValueError("not keys of 64 hex digits")
    return [bytes.fromhex(line.decode()) for line in lines]


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """A lock for changes of a file: one process at a time. Makes the file's directory if necessary."""
    # Imported here, because only commands that change files need it.
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Fails if the file system has no locks: a lock that is a file would stay after its process was killed.
    with FileLock(path.with_name(path.name + ".lock"), mode=0o600, fallback_to_soft=False):
        yield


def made_key(path: Path) -> None:
    """Create a file with a first key if it does not exist, also if other processes start at the same moment."""
    with locked_file(path):
        if not path.exists():
            replace_file(path, secrets.token_hex(32).encode() + b"\n")


def replace_file(path: Path, body: bytes, mode: int = 0o600, there: os.stat_result | None = None) -> None:
    """Replace a file as a whole: a reader sees either the old file or the new one.

    The new file gets the owner and the mode of the old one, `there`.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
            if there is not None and hasattr(os, "fchown") and there.st_uid != os.geteuid():
                # If root does this for another user, it must stay that user's file.
                os.fchown(file.fileno(), there.st_uid, there.st_gid)
            if hasattr(os, "fchmod"):
                # By the open file, because the name might be another file by now.
                os.fchmod(file.fileno(), mode if there is None else there.st_mode & 0o777)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
