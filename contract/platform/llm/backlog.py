"""What a model has yet to extract from: noted with the write that it comes from, and how far it is."""

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from contract.platform import brains, documents, extract, markdown, words
from contract.platform.brains import Brain
from contract.platform.database import Database
from contract.platform.extract import Fact
from contract.platform.llm.prompt import NOTE_CHARACTERS, NOTES_CHARACTERS, Source, clean

Kind: TypeAlias = Literal["transcript", "session"]

# A process that has taken work and says nothing for so long is gone.
CLAIM_SECONDS: Final = 600.0
# What a model cannot do so often is left alone, until something is added to it.
MOST_ATTEMPTS: Final = 6
# Of a fact, so much must stand in what it was found in.
GROUNDED: Final = 0.6


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to extract from: a transcript by its path, or a session by its id."""

    brain: int
    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class Item:
    """A subject that this process works on, and how far it is done."""

    subject: Subject
    tree: str
    done: int


@dataclass(frozen=True, slots=True)
class Part:
    """The next part of it, as a model is shown it; and how far it is done with that."""

    sources: list[Source]
    done: int


@dataclass(slots=True)
class ForModel:
    """What a call has left for a model to do; empty where that is nothing."""

    subject: Subject | None = None
    up_to: int = 0

    def note(self, connection: sqlite3.Connection, brain: Brain, kind: Kind, name: str, tree: str, up_to: int) -> None:
        """Note it in the transaction that wrote what there is to look at."""
        connection.execute(
            """
            INSERT INTO model_work (brain, kind, subject, tree) VALUES (?, ?, ?, ?)
            ON CONFLICT DO UPDATE SET waiting = 1, attempts = 0
            """,
            (brain.n, kind, name, tree),
        )
        self.subject, self.up_to = Subject(brain.n, kind, name), up_to


class Backlog:
    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(self, subject: Subject | None = None) -> Item | None:
        """Take this piece of work, or whichever is next; None where there is none, or somebody else has it."""
        moment = time.time()
        chosen = "" if subject is None else "AND brain = ? AND kind = ? AND subject = ?"
        with self._database.writing() as connection:
            # What has failed before comes last, so that it holds up nothing.
            row = connection.execute(
                f"SELECT * FROM model_work WHERE waiting AND attempts < ? AND claimed_at < ? {chosen} "
                "ORDER BY attempts LIMIT 1",
                (MOST_ATTEMPTS, moment - CLAIM_SECONDS, *([] if subject is None else _key(subject))),
            ).fetchone()
            if row is None:
                return None
            found = Subject(row["brain"], row["kind"], row["subject"])
            _update(connection, found, claimed_at=moment)
        return Item(found, row["tree"], row["done"])

    def next_part(self, item: Item, up_to: int | None = None) -> Part | None:
        """What is to be looked at next, up to some place; None where nothing is left."""
        with self._database.reading() as connection:
            return _next(connection, item, up_to)

    def keep(self, item: Item, part: Part, found: Sequence[Fact]) -> Item:
        """Write down what was found, and that this part is done."""
        subject = item.subject
        with self._database.writing() as connection:
            brain = brains.numbered(connection, subject.brain)
            if brain is not None:
                said = " ".join(source.text for source in part.sources)
                origin = "session_id" if subject.kind == "session" else "extracted_from"
                facts = [fact for fact in found if is_grounded(fact.sentence, said)]
                extract.remember(connection, brain, facts, {origin: subject.name, "method": "model"}, item.tree)
            _update(connection, subject, done=part.done, attempts=0, claimed_at=time.time())
        return Item(subject, item.tree, part.done)

    def finish(self, item: Item) -> bool:
        """Give it back as done, unless something was added to it meanwhile."""
        with self._database.writing() as connection:
            is_done = _next(connection, item, None) is None
            if is_done:
                _update(connection, item.subject, waiting=0, claimed_at=0)
        return is_done

    def give_back(self, item: Item, *, failed: bool) -> None:
        """Leave the rest for later; if it failed, and not the model as such, that counts."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE model_work SET attempts = attempts + ?, claimed_at = 0"
                " WHERE brain = ? AND kind = ? AND subject = ?",
                (int(failed), *_key(item.subject)),
            )


def _key(subject: Subject) -> tuple[int, str, str]:
    return subject.brain, subject.kind, subject.name


def _update(connection: sqlite3.Connection, subject: Subject, **values: float) -> None:
    columns = ", ".join(f"{column} = ?" for column in values)
    connection.execute(
        f"UPDATE model_work SET {columns} WHERE brain = ? AND kind = ? AND subject = ?",
        (*values.values(), *_key(subject)),
    )


def _next(connection: sqlite3.Connection, item: Item, up_to: int | None) -> Part | None:
    if item.subject.kind == "session":
        return _of_session(connection, item, up_to)
    return _of_transcript(connection, item)


def _of_transcript(connection: sqlite3.Connection, item: Item) -> Part | None:
    row = connection.execute(
        "SELECT n FROM documents WHERE brain = ? AND path = ?", (item.subject.brain, item.subject.name)
    ).fetchone()
    if row is None:
        return None
    text = documents.content(connection, row["n"]).decode("utf-8", "replace")
    body = markdown.read(text).body[item.done : item.done + NOTE_CHARACTERS]
    return Part([Source("A part of a transcript", body)], item.done + len(body)) if body.strip() else None


def _of_session(connection: sqlite3.Connection, item: Item, up_to: int | None) -> Part | None:
    rows = connection.execute(
        """
        SELECT seq, role, content, m.created_at FROM messages m JOIN sessions s ON s.n = m.session
        WHERE s.brain = ? AND s.id = ? AND seq > ? AND seq <= ifnull(?, seq) ORDER BY seq LIMIT 100
        """,
        (item.subject.brain, item.subject.name, item.done, up_to),
    ).fetchall()
    sources: list[Source] = []
    room, done = NOTES_CHARACTERS, item.done
    for row in rows:
        text = row["content"][:NOTE_CHARACTERS]
        room -= len(text) + 200
        if sources and room < 0:
            break
        sources.append(Source(row["role"], text, row["created_at"]))
        done = row["seq"]
    return Part(sources, done) if sources else None


def is_grounded(sentence: str, said: str) -> bool:
    """Whether a sentence is made of what was said, and not of what a model knows or was talked into."""
    telling = {stem for stem in words.stems(clean(sentence)) if not words.is_stop_word(stem)}
    telling |= set(words.grams(sentence).split())
    known = {*words.stems(said), *words.grams(said).split()}
    return bool(telling) and len(telling & known) >= GROUNDED * len(telling)
