"""Files that an operator may change while we run, and how we change them."""

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import structlog

log = structlog.get_logger()
T = TypeVar("T")
_WORD = re.compile(rb"[\x21-\x7e]+")
_STATE_KEY = re.compile(rb"[0-9a-fA-F]{64}")


class RereadFile(Generic[T]):
    """What a file says now. A change that cannot be read is reported once, and what was said before holds."""

    def __init__(self, path: Path, parse: Callable[[bytes], T]) -> None:
        """Read it once.

        Raises:
            OSError: it cannot be read.
            ValueError: it does not say what it should.
        """
        self.path = path
        self._parse = parse
        self._seen = _state(path)
        self._value = parse(path.read_bytes())
        self.is_current = True

    def value(self) -> T:
        try:
            now = _state(self.path)
            if now != self._seen:
                self._seen = now
                self._value, self.is_current = self._parse(self.path.read_bytes()), True
                log.info("file.reloaded", file=self.path.name)
        except (OSError, ValueError) as error:
            if self.is_current:
                log.error("file.unreadable", file=self.path.name, error=type(error).__name__)
            self._seen, self.is_current = None, False
        return self._value


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


def replace_file(path: Path, body: bytes) -> None:
    """All of it or nothing, mode 0600: whoever reads meanwhile sees the old file or the new one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
