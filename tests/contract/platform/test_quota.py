"""A brain holds no more than its quota, and can always be made smaller."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.platform.brains import Brain
from contract.platform.library import Operation
from contract.platform.quota import Quota
from contract.platform.refusal import Refused
from contract.platform.sessions import Message
from contract.platform.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path, quota=Quota(notes=3, bytes=1000))
    yield opened
    opened.close()


@pytest.fixture
def brain(store: Store) -> Brain:
    return store.brain("main")


def paths(store: Store, brain: Brain) -> list[str]:
    with store._database.reading() as connection:
        return [row["path"] for row in connection.execute("SELECT path FROM documents WHERE brain = ?", (brain.n,))]


def test_one_note_too_many_is_refused_and_not_stored(store: Store, brain: Brain) -> None:
    for n in range(3):
        store.documents.put(brain, f"{n}.md", b"x")
    with pytest.raises(Refused, match="3 documents") as refused:
        store.documents.put(brain, "3.md", b"x")
    assert refused.value.code == "quota_exceeded"
    assert len(paths(store, brain)) == 3


def test_one_byte_too_many_is_refused_however_it_is_written(store: Store, brain: Brain) -> None:
    store.documents.put(brain, "a.md", b"x" * 600)
    store.documents.put(brain, "b.md", b"x" * 400)
    for write in (
        lambda: store.documents.put(brain, "b.md", b"x" * 401),
        lambda: store.documents.append(brain, "b.md", b"x"),
        lambda: store.documents.batch(brain, [Operation("write", "b.md", b"x" * 401)]),
    ):
        with pytest.raises(Refused, match="1000 bytes"):
            write()
    assert store.documents.read(brain, "b.md") == b"x" * 400


def test_what_is_full_can_be_written_again_made_smaller_moved_and_emptied(store: Store, brain: Brain) -> None:
    for n in range(3):
        store.documents.put(brain, f"{n}.md", b"x" * 300)
    store.documents.put(brain, "0.md", b"y" * 300)
    store.documents.put(brain, "0.md", b"y")
    store.documents.rename(brain, "1.md", "moved.md")
    store.documents.delete(brain, "2.md")
    store.documents.put(brain, "new.md", b"x")
    assert sorted(paths(store, brain)) == ["0.md", "moved.md", "new.md"]


def test_a_batch_is_stored_whole_or_not_at_all(store: Store, brain: Brain) -> None:
    with pytest.raises(Refused):
        store.documents.batch(brain, [Operation("write", f"{n}.md", b"x") for n in range(4)])
    assert paths(store, brain) == []


def test_messages_of_a_session_count_as_the_notes_they_are(store: Store, brain: Brain) -> None:
    with pytest.raises(Refused, match="bytes"):
        store.sessions.add(brain, "s", Message("user", "word " * 300))
    assert paths(store, brain) == []


def test_a_message_and_its_note_count_once(store: Store, brain: Brain) -> None:
    store.sessions.add(brain, "s", Message("user", "x" * 400, metadata={"skip_extract": True}))
    store.sessions.add(brain, "s", Message("user", "x" * 400))
    assert len(paths(store, brain)) == 2


def test_messages_that_are_not_looked_at_yet_count_too(store: Store, brain: Brain) -> None:
    later = {"skip_extract": True}
    store.sessions.add(brain, "s", Message("user", "x" * 900, metadata=later))
    with pytest.raises(Refused, match="bytes"):
        store.sessions.add(brain, "s", Message("user", "x" * 101, metadata=later))
    with pytest.raises(Refused, match="bytes"):
        store.documents.put(brain, "a.md", b"x" * 101)
    assert len(store.sessions.messages(brain, "s", 10)) == 1


def test_each_brain_has_a_quota_of_its_own(store: Store, brain: Brain) -> None:
    other = store.create_brain("Other")
    for n in range(3):
        store.documents.put(brain, f"{n}.md", b"x")
        store.documents.put(other, f"{n}.md", b"x")


def test_a_brain_that_holds_more_since_before_can_be_tidied(tmp_path: Path) -> None:
    before = Store.open(tmp_path)
    for n in range(5):
        before.documents.put(before.brain("main"), f"{n}.md", b"x" * 10)
    before.close()
    store = Store.open(tmp_path, quota=Quota(notes=3))
    try:
        brain = store.brain("main")
        store.documents.put(brain, "0.md", b"x")
        with pytest.raises(Refused):
            store.documents.put(brain, "0.md", b"x" * 11)
        store.stages.compile(brain)
    finally:
        store.close()


@pytest.mark.parametrize("role", ["tool", "system"])
def test_messages_that_become_no_notes_count_too(store: Store, brain: Brain, role: str) -> None:
    store.sessions.add(brain, "s", Message(role, "x" * 600))
    with pytest.raises(Refused, match="1000 bytes"):
        store.sessions.add(brain, "s", Message(role, "x" * 600))
