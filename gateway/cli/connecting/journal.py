"""The changes in the files of clients, and the old files, so that a change can be taken back byte for byte."""

import hashlib
import json
import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from gateway.cli.connecting.config_file import ConfigFile
from gateway.cli.connecting.entry import Refused
from gateway.config.reread_file import replace_file


@dataclass(frozen=True)
class Change:
    """One change of a file, with everything that is needed to take it back."""

    name: str
    """The name of the entry."""
    after: str
    """The SHA-256 of the file after the change."""
    backup: str | None
    """The copy of the old file, beside the journal; None if there was no file."""


class Journal:
    """The changes of each file. Only this user may read it, because it holds copies of their files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, key: str, file: ConfigFile, name: str, after: bytes, new_mode: int = 0o600) -> Path | None:
        """Change a file, and keep a copy of the old one. Returns the path of the copy; None if there was no file.

        Raises:
            Refused: it cannot be changed.
        """
        backup = self._back_up(key, file)
        try:
            file.write(after, new_mode)
        except Refused:
            if backup is not None:
                backup.unlink(missing_ok=True)
            raise
        with self._changes(file.path) as changes:
            changes.append(Change(name, _digest(after), backup.name if backup else None))
        return backup

    def without(self, file: ConfigFile, names: Collection[str]) -> bytes | None:
        """The old file; if somebody else has changed it since, the file as it is, without these entries.

        Raises:
            Refused: they cannot be taken out.
        """
        content, left = self._unwound(file, names)
        for name in left if content is not None else []:
            content = ConfigFile(file.client, file.path, content).without_entry(name)
        return content

    def names(self, path: Path) -> list[str]:
        """The entries that were written into a file."""
        with self._changes(path) as changes:
            return list(dict.fromkeys(change.name for change in changes))

    def forget(self, path: Path, names: Collection[str]) -> None:
        """Forget these entries, which were taken out, with the copies that were kept for them."""
        with self._changes(path) as changes:
            for change in [change for change in changes if change.name in names]:
                changes.remove(change)
                if change.backup is not None:
                    (self._folder / change.backup).unlink(missing_ok=True)

    def _back_up(self, key: str, file: ConfigFile) -> Path | None:
        if file.before is None:
            return None
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        moment = time.strftime("%Y%m%dT%H%M%S")
        backup = self._folder / f"{key}-{moment}-{os.urandom(3).hex()}-{file.path.name}"
        replace_file(backup, file.before)
        return backup

    def _unwound(self, file: ConfigFile, names: Collection[str]) -> tuple[bytes | None, list[str]]:
        """The file before our last changes, if nobody else has written since and the changes are of these entries.

        Also returns the entries that are still in it, because somebody else has written, or we did not write them.
        """
        content = file.before
        with self._changes(file.path) as changes:
            left = list(changes)
        while left and content is not None and left[-1].name in names and _digest(content) == left[-1].after:
            backup = left[-1].backup
            try:
                content = None if backup is None else (self._folder / backup).read_bytes()
            except OSError:
                break
            left.pop()
        known = {change.name for change in changes}
        return content, [name for name in names if name not in known or name in {change.name for change in left}]

    @contextmanager
    def _changes(self, path: Path) -> Iterator[list[Change]]:
        """The changes of a file, the newest last, to be changed in place."""
        from filelock import FileLock

        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        journal = self._folder / "journal.json"
        with FileLock(self._folder / "journal.lock", mode=0o600, fallback_to_soft=False):
            every = json.loads(journal.read_bytes()) if journal.exists() else {}
            changes = [Change(**one) for one in every.get(str(path), [])]
            before = list(changes)
            yield changes
            if changes != before:
                every[str(path)] = [asdict(one) for one in changes]
                kept = {file: changed for file, changed in every.items() if changed}
                replace_file(journal, json.dumps(kept, indent=2).encode() + b"\n")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
