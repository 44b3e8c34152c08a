"""Consolidation by a model: notes that were extracted are merged, promoted or taken out, and each change can be undone.

Notes of callers are never changed. A note that is taken out is kept beside its old place, where no search looks; a log
in the same tree says what was done, and why.
"""

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from anyio import to_thread

from contract.platform import documents, extract, names, words
from contract.platform.brains import Brain
from contract.platform.database import Database
from contract.platform.documents import Draft
from contract.platform.extract import Fact
from contract.platform.llm.backlog import is_grounded
from contract.platform.llm.client import Chat
from contract.platform.llm.deriving import derive_as
from contract.platform.llm.outcome import Failed
from contract.platform.llm.prompt import Source
from contract.platform.llm.tasks import Action, Consolidation
from contract.platform.wire import JsonObject, now

# How many notes are shown at once, and how many times a model is asked in one consolidation.
AT_ONCE: Final = 40
MOST_CALLS: Final = 5
SECONDS: Final = 200.0
LOG: Final = "_consolidated.jsonl"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A note that was extracted, as it was when the model was shown it."""

    path: str
    checksum: str
    kind: str
    text: str
    created: str

    def source(self) -> Source:
        return Source(self.kind, self.text, self.created)

    @property
    def aside(self) -> str:
        """Its path after it is taken out."""
        folder, _, name = self.path.rpartition("/")
        return f"{folder}/_deleted/{names.stem(name)}-{self.checksum[:12]}.txt"


class Tidying:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def run(self, chat: Chat, brain: Brain, key: str | None) -> tuple[Counter[str], Failed | None]:
        """What was done, by kind; and, if the model failed, why no more was done."""
        until = time.monotonic() + SECONDS
        done: Counter[str] = Counter()
        groups = await to_thread.run_sync(self._groups, brain)
        for group in groups[:MOST_CALLS]:
            if time.monotonic() > until:
                break
            told = await derive_as(Consolidation, chat, "consolidate", [one.source() for one in group], key)
            if isinstance(told, Failed):
                return done, told
            done += await to_thread.run_sync(self.apply, brain, group, told.actions)
        return done, None

    def _groups(self, brain: Brain) -> list[list[Candidate]]:
        """Notes of one tree in each, the oldest first: what is derived stays where its sources are."""
        with self._database.reading() as connection:
            rows = connection.execute(
                """
                SELECT path, checksum_sha256, metadata, created_at, content FROM documents JOIN bodies ON document = n
                WHERE brain = ? AND generated AND source = 'extract' AND path LIKE '%.md' ORDER BY created_at, path
                """,
                (brain.n,),
            ).fetchall()
        by_tree: dict[str, list[Candidate]] = {}
        for row in rows:
            kind = str(json.loads(row["metadata"]).get("kind", "fact"))
            text = bytes(row["content"]).decode("utf-8", "replace").strip()
            found = Candidate(row["path"], row["checksum_sha256"], kind, text, row["created_at"])
            by_tree.setdefault(names.tree(found.path), []).append(found)
        groups = [notes[at : at + AT_ONCE] for notes in by_tree.values() for at in range(0, len(notes), AT_ONCE)]
        return [group for group in groups if len(group) > 1]

    def apply(self, brain: Brain, group: Sequence[Candidate], actions: Sequence[Action]) -> Counter[str]:
        """Make the valid changes, not those of notes that changed meanwhile or with text that its notes do not back."""
        done: Counter[str] = Counter()
        used: set[int] = set()
        with self._database.writing() as connection:
            for action in actions:
                numbers = list(dict.fromkeys(action.notes))
                if used & set(numbers) or not all(1 <= number <= len(group) for number in numbers):
                    continue
                notes = [group[number - 1] for number in numbers]
                if not all(_is_unchanged(connection, brain, note) for note in notes):
                    continue
                if (wrote := _make(connection, brain, group, action, notes)) is not None:
                    used |= set(numbers)
                    done[action.action] += 1
                    _log(connection, brain, action, notes, wrote)
        return done


def _is_unchanged(connection: sqlite3.Connection, brain: Brain, note: Candidate) -> bool:
    row = documents.find(connection, brain, note.path)
    return row is not None and bool(row["generated"]) and row["checksum_sha256"] == note.checksum


def _make(
    connection: sqlite3.Connection,
    brain: Brain,
    group: Sequence[Candidate],
    action: Action,
    notes: Sequence[Candidate],
) -> str | None:
    """The path that an action wrote, empty where it only took something out; None where it does not hold."""
    match action.action:
        case "merge":
            return _merge(connection, brain, action.text or "", notes)
        case "prune" if all(_has_newer(note, group) for note in notes):
            _take_out(connection, brain, notes)
            return ""
        case "promote" if len(notes) == 1:
            return _promote(connection, brain, notes[0])
    return None


def _merge(connection: sqlite3.Connection, brain: Brain, text: str, notes: Sequence[Candidate]) -> str | None:
    if len(notes) < 2 or not is_grounded(text, " ".join(note.text for note in notes)):
        return None
    tree = names.tree(notes[0].path)
    fact = Fact(notes[-1].kind, text)
    path = fact.path(tree)
    # One of them may say it in these very words: then that one stays.
    _take_out(connection, brain, [note for note in notes if note.path != path])
    extract.remember(connection, brain, [fact], {"method": "model", "merged": len(notes)}, tree)
    return path


def _promote(connection: sqlite3.Connection, brain: Brain, note: Candidate) -> str | None:
    row = documents.require(connection, brain, note.path)
    metadata = json.loads(row["metadata"])
    if metadata.get("promoted"):
        return None
    kept = {**metadata, "promoted": True}
    body = documents.content(connection, row["n"])
    draft = Draft(note.path, body, title=row["title"], source="extract", metadata=kept, generated=True)
    documents.write(connection, brain, draft)
    return note.path


def _has_newer(note: Candidate, group: Sequence[Candidate]) -> bool:
    """Whether a newer note is about the same, so that this one can be out of date."""
    about = _telling(note.text)
    return any(other.created > note.created and about & _telling(other.text) for other in group)


def _telling(text: str) -> set[str]:
    return {stem for stem in words.stems(text) if not words.is_stop_word(stem)} | set(words.grams(text).split())


def _take_out(connection: sqlite3.Connection, brain: Brain, notes: Sequence[Candidate]) -> None:
    for note in notes:
        documents.move(connection, brain, note.path, note.aside)


def _log(connection: sqlite3.Connection, brain: Brain, action: Action, notes: Sequence[Candidate], wrote: str) -> None:
    is_out = action.action != "promote"
    moved = {note.path: note.aside for note in notes if is_out and note.path != wrote}
    entry: JsonObject = {"at": now(), "action": action.action, "reason": action.reason, "moved": moved, "wrote": wrote}
    folder = names.tree(notes[0].path) or "memory/global/"
    documents.append(connection, brain, f"{folder}{LOG}", f"{json.dumps(entry, ensure_ascii=False)}\n".encode())
