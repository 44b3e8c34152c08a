"""The write lock is everyone's: what a session's messages say is worked out before it is taken."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.platform import database, extract, markdown
from contract.platform.extract import Fact
from contract.platform.sessions import Message
from contract.platform.store import Store
from tests.embeddings import ConceptEmbedder

SENTENCES = ("I prefer gyokuro over sencha.", "My dentist is Doctor Weber.")
SAID = " ".join(SENTENCES)


def kept(store: Store) -> set[str]:
    """What the notes say that were made of messages."""
    brain = store.brain("main")
    listed = store.documents.entries(brain, "", recursive=True, include_generated=True, glob="*.md")
    return {store.documents.read(brain, str(entry["path"])).decode().strip() for entry in listed}


@pytest.fixture
def others(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Another process, in effect, that does not wait for anybody who holds the lock."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr(database, "BUSY_ATTEMPTS", 1)
    store = Store.open(data_dir)
    yield store
    store.close()


@pytest.fixture
def written(others: Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the others wrote while a message was read for facts, or cut into chunks, or embedded."""
    moments: list[str] = []
    facts, chunks, embed = extract.facts, markdown.chunks, ConceptEmbedder.embed

    def meanwhile(moment: str) -> None:
        moments.append(moment)
        others.documents.put(others.brain("main"), f"{len(moments)}.txt", moment.encode())

    def slow_facts(text: str, **options: bool) -> Iterator[Fact]:
        meanwhile("facts")
        yield from facts(text, **options)

    def slow_chunks(text: str) -> Any:
        if text.strip() == SAID:
            meanwhile("chunks")
        return chunks(text)

    def slow_embed(embedder: ConceptEmbedder, texts: Any) -> Any:
        if any(SAID in text for text in texts):
            meanwhile("embed")
        return embed(embedder, texts)

    monkeypatch.setattr(extract, "facts", slow_facts)
    monkeypatch.setattr(markdown, "chunks", slow_chunks)
    monkeypatch.setattr(ConceptEmbedder, "embed", slow_embed)
    return moments


@pytest.fixture
def store(data_dir: Path) -> Iterator[Store]:
    opened = Store.open(data_dir, ConceptEmbedder())
    yield opened
    opened.close()


def test_others_write_while_a_message_is_read_for_facts(store: Store, written: list[str]) -> None:
    brain = store.brain("main")
    store.sessions.add(brain, "s1", Message("user", SAID))
    assert written == ["facts", "chunks", "embed"]
    assert kept(store) == {SAID, *SENTENCES}


def test_others_write_while_messages_that_were_waiting_are_read_for_facts(store: Store, written: list[str]) -> None:
    brain = store.brain("main")
    for _ in range(2):
        store.sessions.add(brain, "s1", Message("user", SAID, metadata={"skip_extract": True}))
    assert written == []
    store.sessions.add(brain, "s1", Message("user", SAID))
    assert written == ["facts", "chunks", "embed"] * 3


def test_others_write_while_a_session_is_reflected_on(store: Store, written: list[str]) -> None:
    brain = store.brain("main")
    store.sessions.add(brain, "s1", Message("user", SAID, metadata={"skip_extract": True}))
    closed = store.sessions.close(brain, "s1")
    assert written == ["facts"]
    assert closed["reflection_status"] == "completed"


def test_what_another_says_meanwhile_in_the_same_session_is_extracted_too(
    store: Store, others: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    brain = store.brain("main")
    facts = extract.facts

    def interrupted(text: str, **options: bool) -> Iterator[Fact]:
        monkeypatch.setattr(extract, "facts", facts)
        skipping = Message("user", "I never drink coffee.", metadata={"skip_extract": True})
        others.sessions.add(brain, "s1", skipping)
        yield from facts(text, **options)

    monkeypatch.setattr(extract, "facts", interrupted)
    store.sessions.add(brain, "s1", Message("user", SAID))
    said = [record["content"] for record in store.sessions.messages(brain, "s1", 10)]
    assert said == ["I never drink coffee.", SAID]
    assert kept(store) == {SAID, *SENTENCES, "I never drink coffee."}
    assert store.documents.read(brain, "sessions/s1/000002.md").decode() == SAID
