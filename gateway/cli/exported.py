"""The two forms of an export: a folder with a file for each note, and one file with a line for each."""

import base64
import binascii
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from gateway.app.startup import CannotStart
from gateway.operations.names import is_plain_path

# A file in the folder that lists the files of the last export. The next export removes those whose notes are gone.
MANIFEST: Final = ".brains-export"


class Target(Protocol):
    def write(self, path: str, body: bytes) -> bool:
        """Returns whether the note was written: its path may not be possible for a file."""
        ...


class _Folder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.written: set[str] = set()

    def write(self, path: str, body: bytes) -> bool:
        # The paths come from a platform: never write outside the folder, and never over a file that has another name.
        if not is_plain_path(path) or path.casefold() in self.written:
            return False
        file = self._folder / path
        # Checked before a folder is made: a link among them must not lead to a new folder outside.
        if file.is_symlink() or not file.resolve().is_relative_to(self._folder.resolve()):
            return False
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            _write(file, body)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            # One note has the name of another note's folder. A platform can have both, but a disk cannot.
            return False
        self.written.add(path.casefold())
        return True


class _Lines:
    def __init__(self, file: int) -> None:
        self._file = file

    def write(self, path: str, body: bytes) -> bool:
        try:
            line = {"path": path, "content": body.decode()}
        except UnicodeDecodeError:
            line = {"path": path, "content_base64": base64.b64encode(body).decode()}
        left = (json.dumps(line, ensure_ascii=False) + "\n").encode()
        while left:
            left = left[os.write(self._file, left) :]
        return True


def _write(file: Path, body: bytes) -> None:
    """Write a file that nobody else may read, and not through a link."""
    with os.fdopen(
        os.open(file, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0), 0o600), "wb"
    ) as opened:
        opened.write(body)


@contextmanager
def target_at(place: str) -> Iterator[Target]:
    """Where an export goes: standard output, a new file that ends in `.jsonl`, or a folder.

    Raises: CannotStart.
    """
    path = Path(place)
    try:
        if place == "-":
            sys.stdout.flush()
            yield _Lines(sys.stdout.fileno())
        elif path.suffix == ".jsonl":
            with _new_file(path) as handle:
                yield _Lines(handle)
        else:
            before = _manifest(path)
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder = _Folder(path)
            yield folder
            _finish(path, before, folder.written)
    except OSError as error:
        raise CannotStart(f"{error.filename or place} cannot be written: {error.strerror}.") from None


@contextmanager
def _new_file(path: Path) -> Iterator[int]:
    """A file that gets its name when it is whole, and only then."""
    if path.exists():
        raise CannotStart(f"{path} is there already: choose another name.")
    part = path.with_name(f"{path.name}.part")
    # A file that a killed export has left; or a link or a file of another user, to which nothing must be written.
    part.unlink(missing_ok=True)
    handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        yield handle
        os.fsync(handle)
        os.rename(part, path)
    finally:
        os.close(handle)
        part.unlink(missing_ok=True)


def _manifest(folder: Path) -> set[str]:
    """The files of the last export to a folder.

    Raises: CannotStart: there is something else in it.
    """
    if not folder.exists() or not any(folder.iterdir()):
        return set()
    if not (folder / MANIFEST).exists():
        raise CannotStart(f"{folder} holds something else than an export: choose a new folder.")
    return set((folder / MANIFEST).read_text(encoding="utf-8").splitlines())


def _finish(folder: Path, before: set[str], written: set[str]) -> None:
    there = {path.relative_to(folder).as_posix() for path in _files(folder)}
    for gone in before & there:
        if gone.casefold() not in written:
            with suppress(OSError):
                (folder / gone).unlink()
    named = sorted(path for path in there if path.casefold() in written)
    _write(folder / MANIFEST, "".join(f"{path}\n" for path in named).encode())


def documents_at(place: str) -> Iterator[tuple[str, bytes | None]]:
    """The files of an export, one after the other: a path and its bytes, or None if it cannot be read.

    Raises: CannotStart.
    """
    path = Path(place)
    try:
        if place == "-":
            yield from _of_lines(sys.stdin.buffer)
        elif path.is_dir():
            for file in sorted(_files(path)):
                yield file.relative_to(path).as_posix(), file.read_bytes()
        else:
            with path.open("rb") as lines:
                yield from _of_lines(lines)
    except OSError as error:
        raise CannotStart(f"{error.filename or place} cannot be read: {error.strerror}.") from None


def _files(folder: Path) -> Iterator[Path]:
    """The files in a folder and below it, without hidden ones, such as those of git or an editor, and without links."""
    for directory, below, names in os.walk(folder):
        below[:] = [name for name in below if not name.startswith(".")]
        for name in names:
            file = Path(directory) / name
            if not name.startswith(".") and file.is_file() and not file.is_symlink():
                yield file


def _of_lines(lines: Iterator[bytes]) -> Iterator[tuple[str, bytes | None]]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _of_line(line) or (f"line {number}", None)


def _of_line(line: bytes) -> tuple[str, bytes] | None:
    try:
        said = json.loads(line)
        path = str(PurePosixPath(said["path"]))
        if "content_base64" in said:
            return path, base64.b64decode(said["content_base64"], validate=True)
        return path, str(said["content"]).encode()
    except (ValueError, TypeError, KeyError, RecursionError, binascii.Error):
        return None
