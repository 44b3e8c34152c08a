"""When documents are erased, what the file keeps beside them is erased too, but only in their own brain."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from contract.platform import purge
from contract.platform.brains import Brain
from contract.platform.sessions import Message
from contract.platform.store import Store

PATH = "sessions/talk/000002.md"
SAID = ["Go on.", "The Secret does not work.", "Go on."]


@pytest.fixture
def brains(tmp_path: Path) -> list[Brain]:
    """Two brains, each with the same session and the same note."""
    store = Store.open(tmp_path)
    made = [store.brain("main"), store.create_brain("other", "other")]
    for brain in made:
        for said in SAID:
            store.sessions.add(brain, "talk", Message("user", said, metadata={"actor_id": "ann"}))
        store.sessions.close(brain, "talk")
        store.documents.put(brain, "memory/global/secret.md", b"Secret.")
        store.documents.delete(brain, "memory/global/secret.md")
    store.close()
    return made


def said(data_dir: Path, brain: Brain) -> list[str]:
    store = Store.open(data_dir)
    try:
        return [str(message["content"]) for message in store.sessions.messages(brain, "talk", 10)]
    finally:
        store.close()


def test_a_message_is_forgotten_in_its_brain_alone_and_the_next_one_has_the_next_number(
    tmp_path: Path, brains: list[Brain]
) -> None:
    assert purge.forget(tmp_path, brains[0].id, lambda path: path == PATH) == 1
    assert purge.forget(tmp_path, brains[0].id, lambda path: path == PATH) == 0
    assert said(tmp_path, brains[0]) == [SAID[0], "", SAID[2]]
    assert said(tmp_path, brains[1]) == SAID
    store = Store.open(tmp_path)
    store.sessions.add(brains[0], "talk", Message("user", "No more."))
    assert store.documents.read(brains[0], "sessions/talk/000004.md") == b"No more."
    store.close()


def test_the_key_of_a_message_is_forgotten_with_it_because_it_may_follow_from_its_words(
    tmp_path: Path, brains: list[Brain]
) -> None:
    def add(brain: Brain) -> str:
        store = Store.open(tmp_path)
        try:
            return str(store.sessions.add(brain, "keyed", Message("user", "Secret.", key="of-secret"))["id"])
        finally:
            store.close()

    ids = [add(brain) for brain in brains]
    purge.forget(tmp_path, brains[0].id, "sessions/keyed/000001.md".__eq__)
    with closing(sqlite3.connect(tmp_path / "brains.sqlite3")) as connection:
        assert connection.execute("SELECT key FROM message_keys").fetchall() == [("of-secret",)], "the other brain's"
    assert [add(brain) == id_ for brain, id_ in zip(brains, ids, strict=True)] == [False, True]


def test_a_reflection_that_was_forgotten_is_made_anew_when_the_session_ends_again(
    tmp_path: Path, brains: list[Brain]
) -> None:
    paths = [PATH, "reflections/talk.md"]
    purge.forget(tmp_path, brains[0].id, paths.__contains__)
    store = Store.open(tmp_path)
    again = [json.dumps(store.sessions.close(brain, "talk")) for brain in brains]
    store.close()
    assert ["Secret" in reflection for reflection in again] == [False, True]


def test_a_path_is_forgotten_in_the_log_of_changes(tmp_path: Path, brains: list[Brain]) -> None:
    purge.forget(tmp_path, brains[0].id, "memory/global/secret.md".__eq__)
    with closing(sqlite3.connect(tmp_path / "brains.sqlite3")) as connection:
        rows = connection.execute(
            "SELECT DISTINCT brain FROM changes WHERE path = 'memory/global/secret.md'"
        ).fetchall()
    assert rows == [(brains[1].n,)]


def test_what_came_of_a_session_is_named_and_its_messages_are_not(tmp_path: Path, brains: list[Brain]) -> None:
    fact, reflection = purge.derived_from(tmp_path, brains[0].id, PATH)
    assert (fact.startswith("memory/global/extracted-"), reflection) == (True, "reflections/talk.md")
    assert purge.derived_from(tmp_path, brains[0].id, "sessions/talker/000002.md") == []
