"""Opening a local file for ingest: inside a root, no links followed, no more bytes than allowed."""

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from gateway.errors import GatewayError

FILE_BYTES: Final = 26_214_400
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_MISSING: Final = "There is no file of that name."


class Roots:
    """The directories files may be ingested from."""

    def __init__(self, roots: Sequence[Path]) -> None:
        # Asked for by either spelling, opened by the real one: a root may itself be behind a link.
        self._roots = [(Path(os.path.abspath(root)), root.resolve()) for root in roots]

    def of(self, caller: str) -> "Roots":
        """The part of each root that is one caller's."""
        return Roots([real / caller for _, real in self._roots])

    def read(self, path: str) -> bytes:
        """The bytes of a regular file below a root. A relative path is relative to the first root.

        Raises:
            GatewayError: file_not_allowed outside the roots (whether or not the file exists), not_found,
                file_too_large, or validation_error for what is not a file with something in it.
        """
        root, parts = self._locate(path)
        try:
            return _read_below(root, parts)
        except OSError as error:
            raise _from_os_error(error) from None
        except UnicodeEncodeError:
            raise GatewayError("not_found", _MISSING) from None

    def _locate(self, path: str) -> tuple[Path, tuple[str, ...]]:
        if "\0" in path or not self._roots:
            raise GatewayError("file_not_allowed")
        asked = Path(os.path.normpath(self._roots[0][0] / path))
        for spelled, real in sorted(self._roots, key=lambda root: -len(root[0].parts)):
            for prefix in (spelled, real):
                if asked.is_relative_to(prefix) and asked != prefix:
                    return real, asked.relative_to(prefix).parts
        raise GatewayError("file_not_allowed")


def _read_below(root: Path, parts: tuple[str, ...]) -> bytes:
    """Walk down from the root, each directory held open: no name is looked up twice, so no link can be swapped in."""
    with ExitStack() as opened:

        def below(name: str | Path, flags: int, directory: int | None) -> int:
            fd = os.open(name, flags, dir_fd=directory)
            opened.callback(os.close, fd)
            return fd

        directory = below(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, None)
        device = os.fstat(directory).st_dev
        for part in parts[:-1]:
            directory = below(part, _FLAGS, directory)
        return _read_regular(below(parts[-1], _FLAGS, directory), device)


def _from_os_error(error: OSError) -> GatewayError:
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return GatewayError("not_found", _MISSING)
    if error.errno == errno.ELOOP:
        return GatewayError("file_not_allowed", "Symbolic links are not followed.")
    if error.errno == errno.ENAMETOOLONG:
        return GatewayError("validation_error", "path is longer than a file name can be.")
    return GatewayError("file_not_allowed", "That file cannot be opened.")


def _read_regular(fd: int, device: int) -> bytes:
    status = os.fstat(fd)
    if stat.S_ISDIR(status.st_mode):
        raise GatewayError("validation_error", "path names a directory; name a file in it.")
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_dev != device:
        raise GatewayError("file_not_allowed", "Only regular files, with no other hard link, are ingested.")
    if status.st_size > FILE_BYTES:
        raise GatewayError("file_too_large")
    # The size is what it was a moment ago: read on, but never past the limit.
    with os.fdopen(os.dup(fd), "rb") as file:
        content = file.read(FILE_BYTES + 1)
    if len(content) > FILE_BYTES:
        raise GatewayError("file_too_large")
    if not content:
        raise GatewayError("validation_error", "The file is empty.")
    return content
