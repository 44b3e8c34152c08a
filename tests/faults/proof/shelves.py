"""What a platform holds, read from its own storage: never through the gateway, never over HTTP."""

import json
import os
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.faults.proof.ledger import Write

# In every document, brain and message of ours; small letters and digits, so that it survives being made a slug.
MARK = re.compile(r"zq[0-9a-f]{10}")
_INDEXED = frozenset({".md", ".txt", ".json", ".html"})


def mark(run: int, n: int) -> str:
    return f"zq{run & 0xFFF:03x}{n:07x}"


def message_key(session: str, content: str) -> str:
    return f"{session} {content}"


class Shelf(Protocol):
    """The storage of one platform. May be looked at while it is written to."""

    def documents(self, brain: str = "") -> Counter[str]:
        """How many documents hold each mark, now; of one brain at least."""

    def brains(self) -> Counter[str]:
        """How many brains have each mark in their name, now."""

    def log(self, session: str, brain: str = "") -> list[str]:
        """The keys of the messages of a session, in order."""


def copies(shelf: Shelf, write: Write) -> list[int]:
    """How often each thing of a write is there, now."""
    if write.session:
        there = Counter(shelf.log(write.session, write.arguments["brain"]))
    elif write.tool == "memory_create_brain":
        there = shelf.brains()
    else:
        there = shelf.documents(write.arguments["brain"])
    return [there[key] for key in write.keys]


def held(shelf: Shelf, sessions: Sequence[str]) -> tuple[Counter[str], dict[str, list[str]]]:
    """Everything there is, counted by key; and the sessions' logs."""
    logs = {session: shelf.log(session) for session in sessions}
    counted = shelf.documents() + shelf.brains()
    for log in logs.values():
        counted.update(log)
    return counted, logs


class PlatformShelf:
    """The reference platform's SQLite file. Its documents are only ever added to here, so new rows are enough."""

    def __init__(self, file: Path) -> None:
        self._connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=10, isolation_level=None)
        self._seen = 0
        self._documents: Counter[str] = Counter()

    def documents(self, brain: str = "") -> Counter[str]:
        new = self._rows(
            "SELECT d.n, d.generated, b.content FROM documents d JOIN bodies b ON b.document = d.n"
            " WHERE d.n > ? ORDER BY d.n",
            self._seen,
        )
        for n, generated, content in new:
            self._seen = n
            # What the platform extracted by itself is no write of a client.
            if not generated:
                self._documents.update(set(MARK.findall(bytes(content).decode("utf-8", "replace"))))
        return self._documents

    def brains(self) -> Counter[str]:
        return Counter(found for (name,) in self._rows("SELECT name FROM brains") for found in MARK.findall(name))

    def log(self, session: str, brain: str = "") -> list[str]:
        rows = self._rows(
            "SELECT m.content FROM messages m JOIN sessions s ON s.n = m.session WHERE s.id = ? ORDER BY m.seq", session
        )
        return [message_key(session, content) for (content,) in rows]

    def _rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(query, parameters).fetchall()

    def close(self) -> None:
        self._connection.close()


class DaemonShelf:
    """The files of a daemon: a directory for each brain, a file for each document, a log for each session."""

    def __init__(self, brains: Path) -> None:
        self._brains = brains
        self._marks: dict[Path, set[str]] = {}
        self._logs: dict[str, list[Path]] = defaultdict(list)
        self._known_logs: set[Path] = set()

    def documents(self, brain: str = "") -> Counter[str]:
        for file in _files(self._brains / brain, _INDEXED):
            # A file that says nothing yet may be half written.
            if not self._marks.get(file) and not file.name.startswith("_"):
                self._marks[file] = _marks_in(file)
        return Counter(found for marks in self._marks.values() for found in marks)

    def brains(self) -> Counter[str]:
        """By the names of their directories, which are made of the names of the brains here."""
        return Counter(found for entry in self._brains.iterdir() for found in set(MARK.findall(entry.name)))

    def log(self, session: str, brain: str = "") -> list[str]:
        for file in _files(self._brains / brain, frozenset({".jsonl"})):
            if file not in self._known_logs and (name := _session_of(file)):
                self._known_logs.add(file)
                self._logs[name].append(file)
        return [
            message_key(session, entry["content"])
            for file in self._logs[session]
            for entry in _entries(file)
            if entry.get("kind") == "message"
        ]


def _files(directory: Path, suffixes: frozenset[str]) -> Iterator[Path]:
    for path, directories, names in os.walk(directory):
        directories[:] = [name for name in directories if name != ".git"]
        yield from (Path(path, name) for name in names if Path(name).suffix in suffixes)


def _marks_in(file: Path) -> set[str]:
    try:
        return set(MARK.findall(file.read_text(encoding="utf-8", errors="replace")))
    except FileNotFoundError:
        # It was there under a passing name, while it was being written.
        return set()


def _session_of(file: Path) -> str:
    return next((str(entry["session_id"]) for entry in _entries(file) if "session_id" in entry), "")


def _entries(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            entry = json.loads(line) if line else None
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry
