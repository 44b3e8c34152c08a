"""Marks of sources, taken out of an answer while it streams: what is said without them, and which claim each cites."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from contract.platform import markdown

# `[1]`, `[1, 2]`, `[1-3]`, `[^1]`, `[note 1]`, `【1】`.
MARK: Final = re.compile(
    r"[\[【] ?\^?(?:notes? |sources? )?(\d{1,3}(?: ?(?:,|;|-|–|and) ?\d{1,3}){0,20}) ?[\]】]", re.IGNORECASE
)
# What may become a mark when more is said.
BEGUN: Final = re.compile(r"[\[【][\w ,;^–-]{0,100}\Z")
RANGE: Final = re.compile(r"(\d+)(?: ?[-–] ?(\d+))?")


# What a model thinks aloud before it answers, and how it begins to repeat what it was told.
THINKING, THOUGHT, REPEATING = "<think>", "</think>", "<<<"


@dataclass(slots=True)
class Opening:
    """The beginning of an answer, held back as long as it may be something that is no part of it."""

    _held: str = ""
    _is_over: bool = False

    def feed(self, piece: str) -> str | None:
        """What is sure to be of the answer; None where the model only repeats what it was told."""
        if self._is_over:
            return piece
        self._held = (self._held + piece).lstrip()
        if self._held.startswith(THINKING):
            thought, ended, rest = self._held.partition(THOUGHT)
            self._held = rest.lstrip() if ended else thought
            if not ended:
                return ""
        if self._held.startswith(REPEATING):
            return None
        if any(mark.startswith(self._held) for mark in (THINKING, REPEATING)):
            return ""
        self._is_over = True
        return self._held


@dataclass(frozen=True, slots=True)
class Said:
    text: str


@dataclass(frozen=True, slots=True)
class Cited:
    """A claim of the answer, and the number of the source it cites."""

    number: int
    start: int
    end: int


@dataclass(slots=True)
class Marks:
    """What a model says, parted into words and citations.

    Most models put a mark behind a claim; those that begin with one put it before.
    """

    answer: str = ""
    _held: str = ""
    _leads: bool | None = None
    _claim: tuple[int, int] = (0, 0)
    """The last claim that was cited."""
    _waiting: list[int] = field(default_factory=list)
    """Numbers of marks that stand before their claim, which begins where the last one ended."""

    @property
    def is_holding(self) -> bool:
        return bool(self._held.strip())

    def feed(self, piece: str) -> Iterator[Said | Cited]:
        text = self._held + piece
        at = 0
        for mark in MARK.finditer(text):
            yield from self._say(text[at : mark.start()], before_mark=True)
            if self._is_code():
                yield from self._say(mark[0])
            else:
                yield from self._cite(_numbers(mark[1]))
            at = mark.end()
        rest = text[at:]
        begun = BEGUN.search(rest)
        # Spaces before a mark go with it, so they wait for what comes next.
        sure = rest[: begun.start()] if begun else rest
        sure = sure.rstrip()
        self._held = rest[len(sure) :]
        yield from self._say(sure)

    def finish(self) -> Iterator[Said | Cited]:
        """What was held back until it was clear that it is no mark."""
        yield from self._say(self._held.rstrip())
        self._held = ""
        yield from self._cite_waiting()

    def _say(self, text: str, *, before_mark: bool = False) -> Iterator[Said]:
        if before_mark and not self._leads and not self._is_code_after(text):
            text = text.rstrip()
        if not self.answer:
            text = text.lstrip()
        if text:
            self.answer += text
            yield Said(text)

    def _is_code(self) -> bool:
        """Whether what comes next stands in backticks, where brackets are no marks."""
        return self.answer.count("`") % 2 == 1

    def _is_code_after(self, text: str) -> bool:
        return (self.answer + text).count("`") % 2 == 1

    def _cite(self, numbers: list[int]) -> Iterator[Said | Cited]:
        if self._leads is None:
            self._leads = not self.answer
        if self._leads:
            yield from self._cite_waiting()
            self._waiting = numbers
            return
        end = len(self.answer)
        # Several marks in a row are about the same claim.
        if end > self._claim[1]:
            self._claim = (self._start_of_claim(end), end)
        yield from (Cited(number, *self._claim) for number in numbers if self._claim[0] < self._claim[1])

    def _cite_waiting(self) -> Iterator[Cited]:
        begun = self._claim[1]
        told = self.answer[begun:]
        start, end = begun + len(told) - len(told.lstrip()), begun + len(told.rstrip())
        if start < end:
            self._claim = (start, end)
            yield from (Cited(number, start, end) for number in self._waiting)

    def _start_of_claim(self, end: int) -> int:
        """Where the sentence begins that is cited, or the part of it since the last mark."""
        since = self._claim[1]
        spans = [*markdown.sentences(self.answer[since:end])]
        return since + spans[-1][0] if spans else since


def _numbers(text: str) -> list[int]:
    found: dict[int, None] = {}
    for first, last in RANGE.findall(text):
        found |= dict.fromkeys(range(int(first), min(int(last or first), int(first) + 20) + 1))
    return list(found)
