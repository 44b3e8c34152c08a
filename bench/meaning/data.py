"""Notes, and questions of which it is known which notes answer them."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import yaml

Part: TypeAlias = Literal["choose", "report"]

# What one person has after some days: about 25 notes in each.
SMALL_BRAINS: Final = 6

_HERE: Final = Path(__file__).parent
_MARK: Final = re.compile(r" \^(\w+)$")
# The key of a question in the files -> what kind of question it is.
_KINDS: Final = {
    "same words": "same words",
    "paraphrase": "paraphrase",
    "code": "names and codes",
    "fr": "other language",
    "de": "other language",
    "es": "other language",
    "ja": "other language",
    "english": "other language",
    "own": "not English, same words",
    "own paraphrase": "not English, paraphrase",
}


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    kind: str
    answers: frozenset[str]
    """The names of the notes that answer it; none, if nothing does."""
    part: Part


@dataclass(frozen=True, slots=True)
class Collection:
    """Brains with their notes, by name. A question goes to each brain that has all its answers, or to all."""

    name: str
    brains: list[dict[str, str]]
    questions: list[Question]


def collections() -> list[Collection]:
    notes, questions = _notes()
    dealt = [dict(list(notes.items())[place::SMALL_BRAINS]) for place in range(SMALL_BRAINS)]
    return [
        Collection("notes, one brain", [notes], questions),
        Collection("notes, small brains", dealt, questions),
        _conversation(),
    ]


def _part(text: str) -> Part:
    """A fixed half: settings are chosen on the one, figures are told of the other."""
    return "report" if hashlib.sha256(text.encode()).digest()[0] % 2 else "choose"


def _read(name: str) -> Any:
    return yaml.safe_load((_HERE / name).read_text(encoding="utf-8"))


def _notes() -> tuple[dict[str, str], list[Question]]:
    notes: dict[str, str] = {}
    questions: list[Question] = []
    for file in ("everyday", "work", "technical", "languages"):
        for entry in _read(f"notes/{file}.yaml"):
            # Names say nothing, or a note would be found by its name.
            name = f"n{len(notes):03}"
            notes[name] = text = entry.pop("note")
            # By the note, so that what is asked about a note is all in one part.
            part = _part(text)
            questions += [Question(asked, _KINDS[key], frozenset({name}), part) for key, asked in entry.items()]
    questions += [Question(asked, "no answer", frozenset(), _part(asked)) for asked in _read("notes/nothing.yaml")]
    return notes, questions


def _conversation() -> Collection:
    turns = dict(_turns((_HERE / "conversation.txt").read_text(encoding="utf-8")))
    notes = {name: text for name, (text, _) in turns.items()}
    marked = {mark: name for name, (_, mark) in turns.items() if mark}
    questions = [
        Question(
            entry["asked"],
            "conversation",
            frozenset(marked[mark] for mark in entry["evidence"]),
            _part(entry["asked"]),
        )
        for entry in _read("asked.yaml")
    ]
    return Collection("conversation", [notes], questions)


def _turns(text: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Every turn as a note of its own, with the mark that questions name it by."""
    lines = [line for line in text.splitlines() if not line.startswith("[")]
    for number, line in enumerate(lines):
        mark = _MARK.search(line)
        yield f"t{number:03}", (_MARK.sub("", line), mark[1] if mark else "")
