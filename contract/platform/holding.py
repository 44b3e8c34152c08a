"""Locks a data directory: processes that serve it share the lock, and one that replaces the file needs it alone.

The system lets go of the lock when a process ends, however it ends.
"""

import errno
import os
import sys
import time
from pathlib import Path
from typing import Final

LOCK_NAME: Final = "brains.lock"
# How long a process that wants to serve waits for one that replaces the file.
_PATIENCE_SECONDS: Final = 10.0
_UNSUPPORTED: Final = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


class InUse(Exception):
    """Another process uses the directory."""


class Hold:
    """A lock on a data directory, until it is let go."""

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def hold(data_dir: Path, *, alone: bool = False) -> Hold:
    """Take the lock of a directory: shared with others that serve it, or alone, without waiting.

    Raises:
        InUse: another process holds it in a way that excludes this.
        OSError: the directory cannot be used.
    """
    handle = os.open(data_dir / LOCK_NAME, os.O_CREAT | os.O_RDWR, 0o600)
    ends = time.monotonic() + (0 if alone else _PATIENCE_SECONDS)
    while not _lock(handle, alone=alone):
        if time.monotonic() > ends:
            os.close(handle)
            raise InUse
        time.sleep(0.05)
    return Hold(handle)


def _lock(handle: int, *, alone: bool) -> bool:
    if sys.platform == "win32":
        # There, a file that is open cannot be replaced anyway.
        return True
    import fcntl

    try:
        fcntl.flock(handle, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError as error:
        # If the file system has no such locks, only SQLite's own remain.
        return error.errno in _UNSUPPORTED
    return True
