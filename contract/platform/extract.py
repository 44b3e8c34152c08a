"""Memorable sentences, found by rule, kept as notes whose names come from what they say."""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from contract.platform import documents, markdown, names, words
from contract.platform.brains import Brain
from contract.platform.documents import Draft
from contract.platform.wire import Scalar

SHORTEST, LONGEST = 3, 60
LONGEST_CHARACTERS: Final = 600

# Kinds of sentence worth keeping, by how people put them. The first that fits names the kind.
PATTERNS: Final = {
    "reminder": r"\b(?:remember|note|keep in mind|don'?t forget|do not forget|bear in mind)\b(?:,| that| to|:)",
    "decision": r"\b(?:we|i|the team|they)(?:'ve| have|'ll| will)? (?:decided|agreed|chose|chosen|settled)\b"
    r"|\blet'?s (?:go with|use|stick with)\b|\bthe decision (?:is|was)\b|\bwe(?:'ll| will| are going to) use\b",
    "preference": r"\b(?:i|we)(?:'d| would| do not| don'?t)?(?: really| always| usually| never| much)?"
    r" (?:prefer|like|love|enjoy|hate|dislike|avoid|favou?r|can'?t stand)\b"
    r"|\b(?:i|we) (?:always|never|usually) \w+|\bmy (?:favou?rite|preferred)\b",
    "identity": r"\bmy \w+(?: \w+)?(?:'s name)? (?:is|are)\b|\bi(?: am|'m) (?:called|based|from|an?|the)\b"
    r"|\bi (?:live|work|was born|grew up|study|own|speak)\b|\bcall me\b|\bi(?: am|'m) allergic\b",
    "plan": r"\b(?:the )?(?:deadline|due date|launch|release) (?:is|will be|was moved)\b",
}
KINDS: Final = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in PATTERNS.items()}

# How a transcript says who is speaking: `user: …`, `**User:** …`, `## user`, `[user] …`.
SPEAKER: Final = re.compile(
    r"^[ \t#>*_\[-]*(user|human|assistant|system|tool)\b[ \t]*(?:[*_\]]+[ \t]*)?(?:[:>-]+|$)[*_]*",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Fact:
    kind: str
    sentence: str

    def path(self, tree: str) -> str:
        """Where it is kept: in the tree of what it was found in, so that nobody sees it who may not see that."""
        return f"{tree or 'memory/global/'}extracted-{names.digest(sameness(self.sentence))[:12]}.md"


def sameness(sentence: str) -> str:
    """Sentences that differ in case, spacing or punctuation only say the same."""
    return " ".join(words.folded(word) for word, _, _ in words.spans(sentence)) or " ".join(sentence.split())


def facts(text: str) -> Iterator[Fact]:
    for start, end in markdown.sentences(text):
        sentence = " ".join(text[start:end].split())
        if len(sentence) > LONGEST_CHARACTERS or sentence.endswith(("?", "？")):
            continue
        if not SHORTEST <= words.count(sentence) <= LONGEST:
            continue
        kind = next((kind for kind, pattern in KINDS.items() if pattern.search(sentence)), None)
        if kind:
            yield Fact(kind, sentence)


def said_by_users(transcript: str) -> str:
    """The parts of a transcript that users said; all of it, when it does not say who speaks."""
    spoken: list[str] = []
    begun, is_user, says_who = 0, False, False
    for turn in SPEAKER.finditer(transcript):
        if is_user:
            spoken.append(transcript[begun : turn.start()])
        begun, is_user, says_who = turn.end(), _is_user(turn[1]), True
    if is_user:
        spoken.append(transcript[begun:])
    return "\n\n".join(spoken) if says_who else transcript


def _is_user(speaker: str) -> bool:
    return speaker.lower() in {"user", "human"}


def remember(
    connection: sqlite3.Connection,
    brain: Brain,
    found: Iterable[Fact],
    metadata: Mapping[str, Scalar],
    tree: str = "",
) -> None:
    """Write a note for each fact that has none yet in that tree."""
    for fact in found:
        path = fact.path(tree)
        if documents.find(connection, brain, path) is None:
            documents.write(connection, brain, _note(path, fact, metadata))


def _note(path: str, fact: Fact, metadata: Mapping[str, Scalar]) -> Draft:
    return Draft(
        path,
        f"{fact.sentence}\n".encode(),
        title=fact.sentence[: names.TITLE_LIMIT],
        source="extract",
        metadata={**metadata, "kind": fact.kind},
        generated=True,
    )
