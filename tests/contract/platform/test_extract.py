"""Extraction: memorable sentences of users become notes, each once."""

from collections.abc import Callable

import httpx
import pytest

from contract.platform import extract
from tests.contract.platform.conftest import Json

Paths = Callable[..., list[str]]


def say(client: httpx.Client, brain: str, content: str, *, skip: bool = False, role: str = "user") -> None:
    body = {"role": role, "content": content, "metadata": {"skip_extract": skip, "actor_id": "ada"}}
    assert client.post(f"{brain}/sessions/s1/messages", json=body).status_code == 201


def notes(client: httpx.Client, brain: str, paths: Paths) -> dict[str, Json]:
    """Extracted notes by what they say."""
    found = [path for path in paths() if path.startswith("memory/global/extracted-")]
    return {
        client.get(f"{brain}/documents/read", params={"path": path}).text: client.get(
            f"{brain}/documents/stat", params={"path": path}
        ).json()["document"]
        for path in found
    }


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("I prefer tea over coffee.", "preference"),
        ("I don't like olives.", "preference"),
        ("We always deploy on Tuesdays.", "preference"),
        ("My favourite colour is green.", "preference"),
        ("My name is Ada Lovelace.", "identity"),
        ("I live in Turin with two cats.", "identity"),
        ("We decided to use Postgres for billing.", "decision"),
        ("Let's go with the blue logo.", "decision"),
        ("Remember that the door code changes in May.", "reminder"),
        ("Please don't forget to water the fig.", "reminder"),
        ("The deadline is the third of June.", "plan"),
    ],
)
def test_memorable_sentences_are_recognised(sentence: str, kind: str) -> None:
    assert list(extract.facts(f"Hello there. {sentence} Bye.")) == [extract.Fact(kind, sentence)]


@pytest.mark.parametrize(
    "text",
    [
        "Do you remember that I like tea?",
        "The weather is mild today.",
        "I like",
        "I like " + "very " * 100 + "much.",
        "",
    ],
)
def test_other_sentences_are_not(text: str) -> None:
    assert list(extract.facts(text)) == []


def test_a_fact_becomes_a_note_with_its_origin(client: httpx.Client, brain: str, paths: Paths) -> None:
    say(client, brain, "Hi. I prefer tea over coffee. Do you?")
    found = notes(client, brain, paths)
    assert list(found) == ["I prefer tea over coffee.\n"]
    record = found["I prefer tea over coffee.\n"]
    assert (record["source"], record["title"]) == ("extract", "I prefer tea over coffee.")
    assert record["metadata"] == {"session_id": "s1", "actor_id": "ada", "kind": "preference"}
    hits = client.get(f"{brain}/search", params={"q": "tea or coffee", "scope": "global"}).json()["hits"]
    assert hits[0]["document_id"] == record["id"]


def test_skipped_messages_wait_for_one_that_does_not_skip(client: httpx.Client, brain: str, paths: Paths) -> None:
    say(client, brain, "I like figs.", skip=True)
    say(client, brain, "I like to invent preferences.", skip=True, role="assistant")
    assert notes(client, brain, paths) == {}
    say(client, brain, "Understood.", role="assistant")
    assert list(notes(client, brain, paths)) == ["I like figs.\n"]


def test_saying_it_again_adds_nothing(client: httpx.Client, brain: str, paths: Paths) -> None:
    say(client, brain, "I like figs.")
    before = notes(client, brain, paths)
    say(client, brain, "i LIKE  figs!")
    assert notes(client, brain, paths) == before


def test_a_note_that_was_edited_is_left_alone(client: httpx.Client, brain: str, paths: Paths) -> None:
    say(client, brain, "I like figs.")
    path = paths()[0]
    client.put(f"{brain}/documents", params={"path": path}, content="Not any more.")
    say(client, brain, "I like figs.")
    assert client.get(f"{brain}/documents/read", params={"path": path}).text == "Not any more."


@pytest.mark.parametrize(
    "transcript",
    [
        "user: I like figs.\nassistant: I like nothing at all.\n",
        "**User:** I like figs.\n\n**Assistant:** I like nothing at all.\n",
        "## user\n\nI like figs.\n\n## assistant\n\nI like nothing at all.\n",
        "[assistant] I like nothing at all.\n[user] I like figs.\n".replace("] ", "]: "),
        "# Transcript\n\nI like figs.\n",
    ],
)
def test_a_transcript_is_read_for_what_users_said(
    client: httpx.Client, brain: str, paths: Paths, transcript: str
) -> None:
    body = {"content": transcript, "source": "extract", "path": "raw/documents/transcript-1.md"}
    made = client.post(f"{brain}/documents", json=body)
    assert (made.status_code, made.json()["source"]) == (201, "extract")
    found = notes(client, brain, paths)
    assert list(found) == ["I like figs.\n"]
    assert found["I like figs.\n"]["metadata"]["extracted_from"] == "raw/documents/transcript-1.md"


def test_other_documents_are_not_read_for_facts(client: httpx.Client, brain: str, paths: Paths) -> None:
    client.post(f"{brain}/documents", json={"content": "user: I like figs.", "path": "a.md"})
    assert paths() == ["a.md"]
