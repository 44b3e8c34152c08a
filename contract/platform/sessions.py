"""Sessions of a brain: messages in order, how far facts were extracted, and how sessions ended.

When facts are extracted from messages, each message becomes a note, too, so that every search finds what was said.
"""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from contract.platform import documents, extract, names, reflect, words
from contract.platform.brains import Brain
from contract.platform.database import Database, quota_of
from contract.platform.documents import Draft, Prepared
from contract.platform.extract import Fact
from contract.platform.llm.backlog import ForModel
from contract.platform.meaning.service import Meaning
from contract.platform.refusal import Refused
from contract.platform.search import Folders, Found, blended, search
from contract.platform.wire import JsonObject, Scalar, now

ROLES: Final = ("system", "user", "assistant", "tool")
# Messages of users and assistants are found by searches; instructions and output of tools are not.
SAID_BY: Final = frozenset({"user", "assistant"})
# How much of the conversation recall takes into account.
RECENT_MESSAGES, RECENT_CHARACTERS, SALIENT_WORDS = 6, 4000, 12


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    content: str
    name: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    key: str | None = None
    """Names the message: one that comes again under its key is the same message."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that nothing has been extracted from yet, and its place in the session."""

    seq: int
    role: str
    content: str
    name: str | None


@dataclass(frozen=True, slots=True)
class Extracted:
    """The results of a message: its facts, and the message as a note."""

    facts: list[Fact]
    note: Prepared | None


class Sessions:
    def __init__(self, database: Database, meaning: Meaning | None = None) -> None:
        self._database = database
        self._meaning = meaning

    def add(
        self, brain: Brain, session_id: str, message: Message, tree: str = "", for_model: ForModel | None = None
    ) -> JsonObject:
        """Append a message, and make notes of what is waiting unless the message says not yet.

        A session that was closed is open again: whoever goes on with a conversation loses nothing of it.
        A session is its caller's: what is extracted goes to their own tree, where callers are told apart.
        A message that comes again under its key is answered with the one that is there.

        Raises: Refused, if another message came under its key.
        """
        extracts, with_plain = message.metadata.get("skip_extract") is not True, for_model is None
        ready = self._extracted(brain, session_id, message, with_plain) if extracts else {}
        with self._database.writing() as connection:
            session = _find_or_create(connection, brain, session_id)
            if (there := _under_key(connection, session, message)) is not None:
                return _record(brain, session_id, there)
            moment = now()
            seq = _last_seq(connection, session["n"]) + 1
            connection.execute(
                "INSERT INTO messages (session, seq, role, content, name, metadata, created_at) VALUES (?,?,?,?,?,?,?)",
                (
                    session["n"],
                    seq,
                    message.role,
                    message.content,
                    message.name,
                    json.dumps(dict(message.metadata)),
                    moment,
                ),
            )
            if message.key is not None:
                connection.execute("INSERT INTO message_keys VALUES (?, ?, ?)", (session["n"], message.key, seq))
            connection.execute(
                "UPDATE sessions SET updated_at = ?, ended_at = NULL WHERE n = ?", (moment, session["n"])
            )
            if extracts:
                all_waiting = _waiting(connection, session)
                # Before their notes are made: a message counts once towards a quota.
                connection.execute("UPDATE sessions SET extracted_up_to = ? WHERE n = ?", (seq, session["n"]))
                for waiting in all_waiting:
                    # If another call has written to the session meanwhile, its messages are not prepared yet.
                    made = ready.get(waiting) or self._extract(session_id, waiting, with_plain)
                    extract.remember(connection, brain, made.facts, _origin(session_id, message), tree)
                    if made.note is not None:
                        documents.write(connection, brain, made.note)
                if for_model is not None:
                    for_model.note(connection, brain, "session", session_id, tree, seq)
            if (quota := quota_of(connection)) is not None:
                quota.check(connection, brain.n)
            return _record(brain, session_id, _messages(connection, session["n"], 1)[0])

    def _extracted(self, brain: Brain, session_id: str, message: Message, with_plain: bool) -> dict[Waiting, Extracted]:
        """What is made of the messages that are waiting, and of a new one.

        Worked out before the write lock is taken: a text may be long, and the lock is everyone's.
        """
        with self._database.reading() as connection:
            session = _find(connection, brain, session_id)
            last = 0 if session is None else _last_seq(connection, session["n"])
            waiting = [] if session is None else _waiting(connection, session)
        waiting.append(Waiting(last + 1, message.role, message.content, message.name))
        return {one: self._extract(session_id, one, with_plain) for one in waiting}

    def _extract(self, session_id: str, message: Waiting, with_plain: bool) -> Extracted:
        is_said = message.role in SAID_BY
        facts = list(extract.facts(message.content, with_plain=with_plain)) if message.role == "user" else []
        note = documents.prepare(_note(session_id, message), self._database.embedder) if is_said else None
        return Extracted(facts, note)

    def messages(self, brain: Brain, session_id: str, limit: int) -> list[JsonObject]:
        """The newest messages in the order they came; a session nobody has written to has none."""
        with self._database.reading() as connection:
            session = _find(connection, brain, session_id)
            rows = [] if session is None else _messages(connection, session["n"], limit)
        return [_record(brain, session_id, row) for row in rows]

    def get(self, brain: Brain, session_id: str) -> JsonObject:
        with self._database.reading() as connection:
            session = _find(connection, brain, session_id)
            if session is None:
                raise Refused("not_found", f"session not found: {session_id}")
            return {
                "session_id": session_id,
                "brain_id": brain.id,
                "message_count": _last_seq(connection, session["n"]),
                "created_at": session["created_at"],
                "updated_at": session["updated_at"],
                "ended_at": session["ended_at"],
            }

    def unreflected(self, brain: Brain, session_id: str) -> list[reflect.Turn]:
        """All that was said, where a reflection would have something to say that the last one did not."""
        with self._database.reading() as connection:
            session = _find(connection, brain, session_id)
            last = 0 if session is None else _last_seq(connection, session["n"])
            if session is None or session["reflected_up_to"] >= last:
                return []
            return _turns(connection, session, last)

    def close(self, brain: Brain, session_id: str, by_model: reflect.Told | None = None) -> JsonObject:
        """End a session with a reflection on its messages; ending it again changes nothing."""
        # A session may be long, and all writers wait for the write lock.
        turns = self.unreflected(brain, session_id) if by_model is None else []
        by_rule = reflect.Told(len(turns), reflect.reflect(turns)) if turns else None
        with self._database.writing() as connection:
            session = _find(connection, brain, session_id)
            if session is None:
                return _closed(session_id, now(), None)
            last = _last_seq(connection, session["n"])
            if session["reflected_up_to"] < last:
                session = _reflect(connection, brain, session, last, by_model, by_rule)
            return _closed(session_id, session["ended_at"], json.loads(session["reflection"]))

    def recall(self, brain: Brain, session_id: str, query: str, top_k: int, folders: Folders) -> Found:
        """A search that also listens to the end of the conversation, of which only the words count."""
        sought = self._meaning.seek(query) if self._meaning is not None else None
        with self._database.reading() as connection:
            found = search(connection, brain, query, top_k, folders=folders, sought=sought)
            session = _find(connection, brain, session_id)
            context = "" if session is None else _salient(connection, session["n"])
            if not context:
                return found
            # Without its own messages: the words come from them.
            others = replace(folders, exclude=(*folders.exclude, names.session_folder(session_id)))
            return blended(found, search(connection, brain, context, top_k, folders=others), top_k)


def _find(connection: sqlite3.Connection, brain: Brain, session_id: str) -> sqlite3.Row | None:
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM sessions WHERE brain = ? AND id = ?", (brain.n, session_id)
    ).fetchone()
    return row


def _find_or_create(connection: sqlite3.Connection, brain: Brain, session_id: str) -> sqlite3.Row:
    moment = now()
    connection.execute(
        "INSERT INTO sessions (brain, id, created_at, updated_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (brain.n, session_id, moment, moment),
    )
    row = _find(connection, brain, session_id)
    assert row is not None
    return row


def _last_seq(connection: sqlite3.Connection, session: int) -> int:
    return int(
        connection.execute("SELECT ifnull(max(seq), 0) FROM messages WHERE session = ?", (session,)).fetchone()[0]
    )


def _messages(connection: sqlite3.Connection, session: int, limit: int) -> list[sqlite3.Row]:
    newest_first = connection.execute(
        "SELECT * FROM messages WHERE session = ? ORDER BY seq DESC LIMIT ?", (session, limit)
    ).fetchall()
    return newest_first[::-1]


def _under_key(connection: sqlite3.Connection, session: sqlite3.Row, message: Message) -> sqlite3.Row | None:
    """The message that came under the key of this one.

    Raises: Refused, if it is another message.
    """
    row: sqlite3.Row | None = connection.execute(
        "SELECT messages.* FROM message_keys JOIN messages USING (session, seq) WHERE session = ? AND key = ?",
        (session["n"], message.key),
    ).fetchone()
    if row is not None and (row["role"], row["content"]) != (message.role, message.content):
        raise Refused("conflict", "another message of this session has this idempotency_key")
    return row


def _record(brain: Brain, session_id: str, row: sqlite3.Row) -> JsonObject:
    """The SessionMessageRecord of the wire, which never carries metadata."""
    named = {} if row["name"] is None else {"name": row["name"]}
    return {
        "id": names.identifier("msg", brain.id, session_id, row["seq"]),
        "session_id": session_id,
        "role": row["role"],
        "content": row["content"],
        **named,
        "created_at": row["created_at"],
    }


def _waiting(connection: sqlite3.Connection, session: sqlite3.Row) -> list[Waiting]:
    rows = connection.execute(
        "SELECT seq, role, content, name FROM messages WHERE session = ? AND seq > ? ORDER BY seq",
        (session["n"], session["extracted_up_to"]),
    ).fetchall()
    return [Waiting(*row) for row in rows]


def _origin(session_id: str, message: Message) -> dict[str, Scalar]:
    actor = message.metadata.get("actor_id")
    return {"session_id": session_id, **({"actor_id": actor} if isinstance(actor, str) else {})}


def _note(session_id: str, message: Waiting) -> Draft:
    """A message as a note. Its title is its beginning, as that of every note without a heading."""
    named = {} if message.name is None else {"name": message.name}
    return Draft(
        names.said_path(session_id, message.seq),
        message.content.encode(),
        metadata={"session_id": session_id, "role": message.role, **named},
        generated=True,
    )


def _turns(connection: sqlite3.Connection, session: sqlite3.Row, last: int) -> list[reflect.Turn]:
    return [reflect.Turn(row["role"], row["content"]) for row in _messages(connection, session["n"], last)]


def _reflect(
    connection: sqlite3.Connection,
    brain: Brain,
    session: sqlite3.Row,
    last: int,
    by_model: reflect.Told | None,
    by_rule: reflect.Told | None,
) -> sqlite3.Row:
    # A reflection that does not know all messages is not used.
    known = next((told for told in (by_model, by_rule) if told is not None and told.turns == last), None)
    reflection = known.reflection if known else reflect.reflect(_turns(connection, session, last))
    method = {} if known is None or known is by_rule else {"method": "model"}
    path = names.reflection_path(session["id"])
    draft = Draft(
        path,
        reflect.written(session["id"], reflection).encode(),
        title=f"Reflection on session {session['id']}",
        source="reflect",
        metadata={"session_id": session["id"], "outcome": reflection.outcome},
        generated=True,
    )
    documents.write(connection, brain, draft)
    connection.execute(
        "UPDATE sessions SET reflected_up_to = ?, reflection = ?, ended_at = ? WHERE n = ?",
        (last, json.dumps({**reflection.record(), "path": path, **method}), now(), session["n"]),
    )
    row = _find(connection, brain, session["id"])
    assert row is not None
    return row


def _closed(session_id: str, ended_at: str, reflection: JsonObject | None) -> JsonObject:
    method = "rule-based" if reflection is None else reflection.pop("method", "rule-based")
    return {
        "session_id": session_id,
        "reflection_status": "no_result" if reflection is None else "completed",
        **({} if reflection is None else {"reflection": reflection}),
        "reflection_attempted": reflection is not None,
        "ended_at": ended_at,
        "method": method,
    }


def _salient(connection: sqlite3.Connection, session: int) -> str:
    """The telling words of the last messages, the latest words first."""
    recent = [row["content"][-RECENT_CHARACTERS:] for row in _messages(connection, session, RECENT_MESSAGES)]
    said = [word for content in recent for word, _, _ in words.spans(content) if not words.is_stop_word(word)]
    runs = [run for content in recent for run in words.UNSPACED.findall(content)]
    return " ".join([*dict.fromkeys(reversed(said))][:SALIENT_WORDS] + runs[-2:])
