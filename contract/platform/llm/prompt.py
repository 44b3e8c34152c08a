"""What a model is told: instructions out of files, and notes as data behind a fence that no note can know."""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from contract.platform.llm.client import Message

FOLDER: Final = Path(__file__).with_name("prompts")
# About three thousand tokens: what small models have room for, beside the instructions.
NOTES_CHARACTERS: Final = 12_000
NOTE_CHARACTERS: Final = 6_000
# What people do not see and a model reads all the same: tags, directions, and signs of no width.
INVISIBLE: Final = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e007f]")


@dataclass(frozen=True, slots=True)
class Source:
    """A note, or a piece of one, as a model is shown it."""

    title: str
    text: str
    date: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The messages of one call."""

    name: str
    fence: str = field(default_factory=lambda: secrets.token_hex(8))

    def messages(self, sources: Sequence[Source], question: str = "") -> list[Message]:
        asked = f"\n\nThe question is: {clean(question)}" if question else ""
        parts = [text(self.name), text("data").replace("{fence}", self.fence), *([] if question else [text("json")])]
        pieces = [self._fenced(n, source) for n, source in enumerate(fitting(sources), start=1)]
        return [
            {"role": "system", "content": "\n\n".join(parts)},
            {"role": "user", "content": "\n\n".join(pieces) + asked},
        ]

    def _fenced(self, number: int, source: Source) -> str:
        # In one line, or a title could begin a line of its own.
        title = " ".join(clean(source.title).split())[:200]
        dated = f", of {source.date[:10]}" if source.date else ""
        # Nobody can guess it; if a note holds it all the same, the note is not shown it.
        inside = f"{title}{dated}\n{clean(source.text)}".replace(self.fence, "")
        return f"<<< {self.fence} piece {number}\n{inside}\n>>> {self.fence} end of piece {number}"


@cache
def text(name: str) -> str:
    """What a file of prompts says."""
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8").strip()


def fitting(sources: Sequence[Source]) -> list[Source]:
    """As many of the first sources as there is room for; a long one is cut."""
    room, kept = NOTES_CHARACTERS, []
    for source in sources:
        text = source.text[: min(NOTE_CHARACTERS, room)]
        room -= len(text) + len(source.title[:200])
        if not text and source.text:
            break
        kept.append(Source(source.title, text, source.date))
    return kept


def batches(sources: Sequence[Source]) -> list[list[Source]]:
    """All of the sources, in as many calls as that takes; a long one in parts."""
    parts = [
        Source(source.title, source.text[at : at + NOTE_CHARACTERS], source.date)
        for source in sources
        for at in range(0, len(source.text), NOTE_CHARACTERS)
    ]
    made: list[list[Source]] = []
    while parts:
        count = len(fitting(parts)) or 1
        # What was cut to fit goes whole into the next call.
        while count > 1 and sum(len(part.text) + 200 for part in parts[:count]) > NOTES_CHARACTERS:
            count -= 1
        made.append(parts[:count])
        parts = parts[count:]
    return made


def clean(said: str) -> str:
    return INVISIBLE.sub("", said)
