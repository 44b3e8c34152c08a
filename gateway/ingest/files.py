"""Opening a local file for ingest: inside a root, no links followed, no more bytes than allowed."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gateway.ingest import openat2
from gateway.operations.errors import GatewayError

FILE_BYTES: Final = 26_214_400


def _flags(*names: str) -> int:
    """Flags of `os.open`, as far as this system has them."""
    flags = 0
    for name in names:
        flags |= getattr(os, name, 0)
    return flags


# So that opening neither waits for the writer of a pipe nor makes a terminal ours.
_FLAGS: Final = _flags("O_RDONLY", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY")
# A root is opened by its real name, so a link there was made after the start.
_ROOT_FLAGS: Final = _flags("O_RDONLY", "O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY")
# Windows has neither a flag against following links nor a way to open below a directory.
_IS_POSSIBLE: Final = hasattr(os, "O_NOFOLLOW") and os.open in os.supports_dir_fd
_NOT_HERE: Final = (
    "Files are not ingested on this system, which cannot open one without following links: send their text."
)
_NO_ROOT: Final = "No directory is open to this tool. Set BRAINS_INGEST_ROOTS to the directories it may read."
_MISSING: Final = "There is no file of that name."
# The walk can do what openat2 cannot: take paths that are too long for one call, and continue after a signal.
_LEFT_TO_THE_WALK: Final = frozenset({errno.ENAMETOOLONG, errno.EINTR, errno.EAGAIN})


class Roots:
    """The directories files may be ingested from."""

    def __init__(self, roots: Sequence[Path]) -> None:
        # Both spellings are accepted, and the real one is opened, because a root may itself be behind a link.
        self._roots = [(Path(os.path.abspath(root)), root.resolve()) for root in roots]
        self._part: tuple[str, ...] = ()

    def of(self, caller: str) -> "Roots":
        """The part of each root that is one caller's. It is opened below the root, so it is no link itself."""
        own = Roots([])
        own._roots, own._part = self._roots, (*self._part, caller)
        return own

    def read(self, path: str) -> bytes:
        """The bytes of a regular file below a root. A relative path is relative to the first root.

        Raises:
            GatewayError: file_not_allowed outside the roots (whether or not the file exists), not_found,
                file_too_large, or validation_error for anything that is not a file with content. not_implemented, if
                the system cannot keep files outside the roots closed.
        """
        if not _IS_POSSIBLE:
            raise GatewayError("not_implemented", _NOT_HERE)
        root, parts = self._locate(path)
        try:
            return _read_below(root, parts)
        except OSError as error:
            raise _from_os_error(error) from None
        except UnicodeEncodeError:
            raise GatewayError("not_found", _MISSING) from None

    def _locate(self, path: str) -> tuple[Path, tuple[str, ...]]:
        if not self._roots:
            raise GatewayError("file_not_allowed", _NO_ROOT)
        if "\0" in path:
            raise GatewayError("file_not_allowed")
        asked = Path(os.path.normpath(self._roots[0][0].joinpath(*self._part, path)))
        for spelled, real in sorted(self._roots, key=lambda root: -len(root[0].parts)):
            for prefix in (spelled.joinpath(*self._part), real.joinpath(*self._part)):
                if asked.is_relative_to(prefix) and asked != prefix:
                    return real, (*self._part, *asked.relative_to(prefix).parts)
        raise GatewayError("file_not_allowed")


def _read_below(root: Path, parts: tuple[str, ...]) -> bytes:
    with _closed_again(os.open(root, _ROOT_FLAGS)) as directory:
        device = os.fstat(directory).st_dev
        with _closed_again(_open_below(directory, parts)) as fd:
            return _read_regular(fd, device)


def _open_below(directory: int, parts: tuple[str, ...]) -> int:
    if openat2.is_available():
        try:
            return openat2.open_below(directory, "/".join(parts), _FLAGS)
        except OSError as error:
            if error.errno not in _LEFT_TO_THE_WALK:
                raise
    return _walk_below(directory, parts)


def _walk_below(directory: int, parts: tuple[str, ...]) -> int:
    """Go down name by name, each directory held open: none is looked up twice, so no link can be swapped in."""
    device, fd = os.fstat(directory).st_dev, os.dup(directory)
    for part in parts:
        with _closed_again(fd) as above:
            if os.fstat(above).st_dev != device:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            fd = os.open(part, _FLAGS, dir_fd=above)
    return fd


@contextmanager
def _closed_again(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


def _from_os_error(error: OSError) -> GatewayError:
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return GatewayError("not_found", _MISSING)
    if error.errno == errno.ELOOP:
        return GatewayError("file_not_allowed", "Symbolic links are not followed.")
    if error.errno == errno.EXDEV:
        return GatewayError("file_not_allowed", "Files on another file system than their directory are not ingested.")
    if error.errno == errno.ENAMETOOLONG:
        return GatewayError("validation_error", "path is longer than a file name can be.")
    return GatewayError("file_not_allowed", "That file cannot be opened.")


def _read_regular(fd: int, device: int) -> bytes:
    status = os.fstat(fd)
    if status.st_dev != device:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    if stat.S_ISDIR(status.st_mode):
        raise GatewayError("validation_error", "path names a directory; name a file in it.")
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        raise GatewayError("file_not_allowed", "Only regular files, with no other hard link, are ingested.")
    if status.st_size > FILE_BYTES:
        raise GatewayError("file_too_large")
    # The file may have grown since its size was read: read on, but never past the limit.
    with os.fdopen(fd, "rb", closefd=False) as file:
        content = file.read(FILE_BYTES + 1)
    # Some files of the kernel have no data yet, for which `read` returns None.
    if not content:
        raise GatewayError("validation_error", "The file is empty.")
    if len(content) > FILE_BYTES:
        raise GatewayError("file_too_large")
    return content
