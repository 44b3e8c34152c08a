"""What a finished session was about and how it went, told by rule from its messages."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from contract.platform import extract, markdown, words
from contract.platform.wire import JsonObject

Outcome = Literal["success", "partial", "failure", "unknown"]

WENT_WELL: Final = re.compile(
    r"\b(?:thanks|thank you|perfect|great|solved|fixed|works now|working now|it works|done|resolved|that worked)\b",
    re.I,
)
WENT_WRONG: Final = re.compile(
    r"\b(?:fail(?:s|ed|ing|ure)?|errors?|broken|does(?:n'?t| not) work|did(?:n'?t| not) work|not working|wrong|stuck|"
    r"crash(?:es|ed)?|still (?:the same|happens|happening))\b",
    re.I,
)
# The end of a session shows how it went.
TELLING_TURNS: Final = 4
LONGEST_QUOTE: Final = 300
POINTS: Final = 8


@dataclass(frozen=True, slots=True)
class Turn:
    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Reflection:
    outcome: Outcome
    should_record_episode: bool
    retry_feedback: str | None
    asked: list[str]
    answered: str
    learned: list[str]

    def record(self) -> JsonObject:
        feedback = {} if self.retry_feedback is None else {"retry_feedback": self.retry_feedback}
        return {"outcome": self.outcome, "should_record_episode": self.should_record_episode, **feedback}


@dataclass(frozen=True, slots=True)
class Told:
    """The reflection on so many turns, by a model or by rule."""

    turns: int
    reflection: Reflection


def reflect(turns: Sequence[Turn]) -> Reflection:
    users = [turn.content for turn in turns if turn.role == "user"]
    replies = [turn.content for turn in turns if turn.role == "assistant"]
    outcome, complaint = _outcome(turns)
    learned = list(dict.fromkeys(fact.sentence for content in users for fact in extract.facts(content)))
    return Reflection(
        outcome=outcome,
        should_record_episode=bool(learned) or (len(users) > 0 and len(replies) > 0),
        retry_feedback=complaint if outcome in ("failure", "partial") else None,
        asked=[first for content in users if (first := _first_sentence(content))][:POINTS],
        answered=_first_sentence(replies[-1]) if replies else "",
        learned=learned[:POINTS],
    )


def _outcome(turns: Sequence[Turn]) -> tuple[Outcome, str | None]:
    """The last sign, good or bad, decides; signs of both kinds make it partial."""
    outcome: Outcome = "unknown"
    complaint = None
    for turn in turns[-TELLING_TURNS:]:
        if turn.role not in ("user", "assistant"):
            continue
        bad, good = WENT_WRONG.search(turn.content), WENT_WELL.search(turn.content)
        if bad:
            complaint = _sentence_around(turn.content, bad.start())
        if bad or good:
            outcome = "partial" if bad and good else "failure" if bad else "success"
    return outcome, complaint


def _sentence_around(text: str, place: int) -> str:
    for start, end in markdown.sentences(text):
        if start <= place < end:
            return " ".join(text[start:end].split())[:LONGEST_QUOTE]
    return " ".join(text.split())[:LONGEST_QUOTE]


def _first_sentence(text: str) -> str:
    for start, end in markdown.sentences(text):
        sentence = " ".join(text[start:end].split())
        if words.count(sentence):
            return sentence[:LONGEST_QUOTE]
    return ""


def written(session_id: str, reflection: Reflection) -> str:
    """The reflection as a markdown note."""
    parts = [f"# Reflection on session {session_id}", f"Outcome: {reflection.outcome}."]
    if reflection.asked:
        parts += ["## What was asked", _bullets(reflection.asked)]
    if reflection.answered:
        parts += ["## Where it ended", reflection.answered]
    if reflection.learned:
        parts += ["## What was learned", _bullets(reflection.learned)]
    if reflection.retry_feedback:
        parts += ["## Next time", reflection.retry_feedback]
    return "\n\n".join(parts) + "\n"


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
