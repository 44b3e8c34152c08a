"""The file of the audit log: one line of JSON for each event, added whole, by any number of processes."""

import errno
import getpass
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog

from gateway.config.settings import BadSetting, Settings
from gateway.operations import audit
from gateway.operations.json_text import write_json
from gateway.operations.table import JsonObject

log = structlog.get_logger()

# If it is a pipe without a reader, this fails at once instead of waiting.
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)


class AuditFile:
    """Adds lines to a file. If it was moved, as logrotate does, the next line begins a new one."""

    def __init__(self, path: Path) -> None:
        """Raises: OSError: it cannot be written to."""
        self.path = path
        self._file, self._is_torn, self._fails = _opened(path), False, False

    def write(self, line: JsonObject) -> None:
        """Add a line. A failure is told in the log, because it cannot undo the call."""
        # After a line that broke off, the next one begins on a line of its own.
        body = b"\n" * self._is_torn + write_json(line) + b"\n"
        try:
            self._follow()
            # In one write, so that lines of several processes do not mix.
            written = os.write(self._file, body)
            self._is_torn = written < len(body)
            if self._is_torn:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            if not self._fails:
                meanwhile = "What is done is not recorded."
                log.error("audit.failed", file=str(self.path), reason=error.strerror, meanwhile=meanwhile)
            self._fails = True
            return
        if self._fails:
            log.warning("audit.kept", file=str(self.path))
        self._fails = False

    def _follow(self) -> None:
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            there = None
        ours = os.fstat(self._file)
        if there is None or (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
            now = _opened(self.path)
            os.close(self._file)
            self._file = now


def _opened(path: Path) -> int:
    file = os.open(path, _FLAGS, 0o600)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a file")
    return file


def keep_audit(settings: Settings, *, of_command: bool = False) -> None:
    """From now on, write to the file that is set, if any. For a command, with the user who gave it.

    Raises:
        BadSetting: it cannot be written to.
    """
    if settings.audit_log is None or audit.is_kept():
        return
    with _telling(settings.audit_log):
        audit.set_up(AuditFile(settings.audit_log).write, _user() if of_command else None)


def check_audit_log(settings: Settings) -> None:
    """The same check, but no file is made: it would belong to whoever asks, and the gateway could not write to it.

    Raises:
        BadSetting: it cannot be written to.
    """
    if (path := settings.audit_log) is None:
        return
    with _telling(path):
        if path.exists():
            os.close(_opened(path))
        elif not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        elif not os.access(path.parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = f"cannot be written to ({error.strerror})"
        raise BadSetting(f"BRAINS_AUDIT_LOG: {path} {why}: name another file, or unset it.") from None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
