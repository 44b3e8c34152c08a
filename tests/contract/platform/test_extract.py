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
        ("I'd rather have bullet points than prose.", "preference"),
        ("Please don't call me before ten.", "preference"),
        ("I'm allergic to shellfish.", "health"),
        ("I've been vegetarian for years.", "health"),
        ("My dentist is Dr. Weiss.", "identity"),
        ("You can reach Marta under marta@solaris.example.", "contact"),
        ("My phone number is 0171 5550123.", "contact"),
        ("Tom is our manager.", "relationship"),
        ("Anna's birthday is in March.", "relationship"),
        ("My wife sings in a choir.", "relationship"),
        ("We moved to Porto last month.", "location"),
        ("I keep the spare key under the flowerpot.", "location"),
        ("Priya takes over the payments team.", "work"),
        ("Her brother works at a bakery.", "work"),
        ("I quit smoking.", "event"),
        ("Just bought a used bicycle.", "event"),
        ("We're going to launch in June.", "plan"),
        ("We meet every Tuesday.", "routine"),
        ("Our staging server runs on Debian.", "setup"),
        ("The password manager is called Bitwarden.", "setup"),
        ("The wifi at the cabin is called moose-lodge.", "setup"),
    ],
)
def test_memorable_sentences_are_recognised(sentence: str, kind: str) -> None:
    assert list(extract.facts(f"Hello there. {sentence} Bye.")) == [extract.Fact(kind, sentence)]


@pytest.mark.parametrize(
    "sentence",
    [
        "Je m'appelle Camille et j'habite à Lyon.",
        "Nous avons choisi le papier peint vert.",
        "Ich vertrage keine Laktose.",
        "Mi hermano vive en una ciudad pequeña.",
        "Il mio medico parla francese.",
        "Mijn fiets staat in de kelder.",
        "Minha irmã mora longe daqui.",
        "Mój brat lubi herbatę.",
        "Моя сестра живёт далеко.",
        "私の誕生日は五月三日です。",
        "我的车是红色的。",
        "The parcel weighs 12 kilos.",
        "The workshop was cancelled by Priya.",
        "Invoices go to billing@solaris.example.",
    ],
)
def test_a_plain_statement_is_a_fact(sentence: str) -> None:
    assert [fact.sentence for fact in extract.facts(f"OK. {sentence}")] == [sentence]


@pytest.mark.parametrize(
    "text",
    [
        "what is my name",
        "Tell me what my name is.",
        "Can you translate my letter into 3 languages",
        "Please write a mail to Priya.",
        "Thanks for the help with Django!",
        "Hello Priya, nice to meet you.",
        "Peux-tu traduire ma lettre en 3 langues",
        "Schreib mir bitte ein Gedicht.",
        "Où est ma clé",
        "私の誕生日はいつですか",
        "我的车在哪里？",
        "My question is how to do it.",
        "If I were rich I would like that.",
        "```\nmy name is = 5\nI like figs.\n```",
        "import os; print(5)",
        "x = {a: 1}; y = [2]",
        "That did not work.",
        "You are right.",
    ],
)
def test_questions_greetings_commands_and_code_are_no_facts(text: str) -> None:
    assert list(extract.facts(text)) == []


def test_what_a_model_reads_too_is_kept_by_its_form_alone() -> None:
    text = "The parcel weighs 12 kilos. I like figs."
    assert [fact.sentence for fact in extract.facts(text, with_plain=False)] == ["I like figs."]


def test_a_text_that_was_pasted_is_not_taken_for_facts() -> None:
    log = "".join(f"Worker {n} of Alder finished in {n} seconds.\n\n" for n in range(100))
    assert list(extract.facts(log)) == []
    told = list(extract.facts(f"{log} I prefer tea over coffee."))
    assert told == [extract.Fact("preference", "I prefer tea over coffee.")]
    assert len(list(extract.facts("Alder took 5 seconds for this. " * 20))) == extract.PLAIN_FACTS


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
