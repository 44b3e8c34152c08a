"""Finds sentences worth keeping, by rule, and keeps them as notes with names from their text."""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from contract.platform import documents, markdown, names, statements, words
from contract.platform.brains import Brain
from contract.platform.documents import Draft
from contract.platform.wire import Scalar

SHORTEST, LONGEST = 3, 60
LONGEST_CHARACTERS: Final = 600
# Statements without a typical form are kept only from messages that people write, not from long texts that they paste.
PLAIN_SHORTEST, PLAIN_LONGEST, PLAIN_TEXT, PLAIN_FACTS = 3, 40, 2000, 12
MOST_FACTS: Final = 200

# Kinds of sentences worth keeping, by their usual forms. The first that fits names the kind.
PATTERNS: Final = {
    "reminder": r"\b(?:remember|note|keep in mind|don'?t forget|do not forget|bear in mind)\b(?:,| that| to|:)",
    "decision": r"\b(?:we|i|the team|they)(?:'ve| have|'ll| will)? (?:decided|agreed|chose|chosen|settled)\b"
    r"|\blet'?s (?:go with|use|stick with)\b|\bthe decision (?:is|was)\b|\bwe(?:'ll| will| are going to|"
    r"'re going to) use\b"
    r"|\bwe(?:'re| are) (?:going|sticking) with\b",
    "preference": r"\b(?:i|we)(?:'d| would| do not| don'?t)?(?: really| always| usually| never| much)?"
    r" (?:prefer|like|love|enjoy|hate|dislike|avoid|favou?r|can'?t stand|cannot stand|rather)\b"
    r"|\b(?:i|we) (?:always|never|usually) \w+|\bmy (?:favou?rite|preferred)\b|\bnot (?:a|much of a) fan of\b"
    r"|\b(?:i|we) (?:can'?t|cannot|don'?t|do not) (?:eat|drink|wear)\b"
    r"|\b(?:please )?(?:don'?t|do not|never|always) (?:call|e-?mail|text|message|contact|wake|ring|disturb|"
    r"address) (?:me|us)\b",
    "health": r"\b(?:allerg(?:y|ic)|intolerant|diabet(?:ic|es)|asthma|pregnant|vegetarian|vegan|coeliac|celiac|"
    r"migraines?|"
    r"blood (?:type|group|pressure)|diagnosed with)\b|\bi take (?:\d|my \w|\w{1,30} (?:every|daily|twice|once|for))",
    "contact": r"\b(?:my|our|his|her|their|\w{1,30}'s) (?:new |work |private )?(?:phone|telephone|mobile|cell|number|"
    r"e-?mail|address|"
    r"handle|phone number)\b|\breach(?:ed)? \w{1,30} (?:at|on|by|under|via)\b|"
    r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}\.\w",
    "identity": r"\bmy \w+(?: \w+)?(?:'s name)? (?:is|are)\b|\bi(?: am|'m) (?:called|based|from|an?|the)\b"
    r"|\bi (?:live|work|was born|grew up|study|own|speak)\b|\bcall me\b|\bi(?: am|'m) \d{1,3}\b"
    r"|\bi(?:'ve| have) been (?:an?|the)\b",
    "relationship": r"\b(?:my|our) (?:\w{1,30} )?(?:wife|husband|partner|girlfriend|boyfriend|fianc[ée]e?|sons?|"
    r"daughters?|kids?|"
    r"child(?:ren)?|mother|father|mom|mum|dad|parents?|sisters?|brothers?|aunt|uncle|cousin|grand(?:mother|father|ma|"
    r"pa)|"
    r"friends?|boss|manager|colleagues?|landlord|landlady|neighbou?rs?|dogs?|cats?|doctor|dentist|lawyer|teacher)\b"
    r"|\b\w{1,30} (?:is|was|are|were) (?:my|our|his|her|their) \w|\b\w{1,30}'s (?:birthday|anniversary|wedding)\b",
    "location": r"\b(?:i|we|he|she|they|\w{1,30})(?:'ve| have| has|'s)? (?:just |recently |now )?(?:moved|relocated|"
    r"lives?|stays?) "
    r"(?:to|in|into|at|near|back|with)\b|\b(?:i|we) (?:keep|kept|put|hid|store|left|parked) (?:the|my|our|a|all)\b",
    "work": r"\b(?:works?|worked|working) (?:at|for|as|with|on)\b|\b(?:takes?|took|taking) over\b|\b(?:got|took|"
    r"found) (?:a|the) (?:new )?job\b"
    r"|\b(?:was |been |got )(?:promoted|hired|laid off|fired)\b|\b(?:leads?|manages?|runs?) the\b",
    "event": r"\b(?:i|we)(?:'ve| have)? (?:just |recently |finally |also )?(?:started|quit|stopped|gave up|bought|"
    r"sold|got|finished|joined|"
    r"left|adopted|booked|ordered|signed|learned|learnt|began|broke|lost|became|married|graduated|switched|visited|"
    r"passed|won|built)\b"
    r"|^(?:just|finally|recently) (?:started|quit|bought|sold|got|finished|joined|left|adopted|booked|moved|"
    r"switched)\b",
    "plan": r"\b(?:the )?(?:deadline|due date|launch|release) (?:is|will be|was moved)\b"
    r"|\b(?:i|we)(?:'m| am|'re| are) (?:going to|planning|flying|travell?ing|moving|meeting|launching|leaving|"
    r"starting|getting)\b"
    r"|\b(?:i|we)(?:'ll| will) (?:be|go|fly|meet|launch|move|start|visit|need)\b|\bexpires? (?:on|in|at)\b"
    r"|\bmy (?:flight|train|bus|appointment|interview|exam|lease|contract) \w|\bi have an? (?:appointment|meeting|"
    r"exam|interview)\b",
    "routine": r"\b(?:every|each) (?:other |second |\w{1,8} )?(?:day|week|month|year|morning|evening|night|mon|tues?|"
    r"wednes|thurs?|fri|satur|sun)(?:day)?s?\b"
    r"|\bon (?:mon|tues|wednes|thurs|fri|satur|sun)days\b|\b(?:i|we) meet\b",
    "setup": r"\b(?:we|i) (?:only |all |mostly |still |now )?(?:use|deploy|host|drive|own|play)\b"
    r"|\b(?:our|my) (?:[\w'’-]{1,30} ){1,4}(?:is|are|was|has|runs?|uses?|lives?|works?|belongs|costs?|sits?|stands?|"
    r"closes|opens|called)\b"
    r"|\bthe (?:[\w'’-]{1,30} ){0,4}(?:password|passcode|code|pin|wi-?fi|manager|key|address|budget|office|server|"
    r"database|repo|"
    r"repository|vault|account|meeting|landlord|caretaker|doctor) (?:\w{1,30} ){0,5}(?:is|are|runs?|lives?|was moved|"
    r"changed)\b",
}
KINDS: Final = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in PATTERNS.items()}
# Sentences in none of these forms that have a number, a name or an address, or say "my" in another language.
PLAIN: Final = "fact"
# Words after "my" and "have" that say nothing lasting.
PASSING: Final = re.compile(
    r"\b(?:my|our) (?:next |other |main |only )?(?:question|problem|issue|point|guess|bad|code|request|task)s? (?:is|"
    r"are|was)\b"
    r"|\b(?:if|imagine|suppose|pretend) (?:i|we|you)\b",
    re.IGNORECASE,
)

# How a transcript names the speaker: `user: …`, `**User:** …`, `## user`, `[user] …`.
SPEAKER: Final = re.compile(
    r"^[ \t#>*_\[-]*(user|human|assistant|system|tool)\b[ \t]*(?:[*_\]]+[ \t]*)?(?:[:>-]+|$)[*_]*",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Fact:
    kind: str
    sentence: str

    def path(self, tree: str) -> str:
        """The path for a fact: in the tree of its source, so that only people who may see the source see the fact."""
        return f"{tree or 'memory/global/'}extracted-{names.digest(sameness(self.sentence))[:12]}.md"


def sameness(sentence: str) -> str:
    """A form in which sentences are equal that differ only in case, spacing or punctuation."""
    return " ".join(words.folded(word) for word, _, _ in words.spans(sentence)) or " ".join(sentence.split())


def facts(text: str, *, with_plain: bool = True) -> Iterator[Fact]:
    """The facts of a text that may matter later, sentence by sentence, in order.

    If a model reads the text too, sentences without a typical form are left to it.
    """
    plain = PLAIN_FACTS if with_plain and len(text) <= PLAIN_TEXT else 0
    return islice(_facts(text, plain), MOST_FACTS)


def _facts(text: str, plain: int) -> Iterator[Fact]:
    for start, end in markdown.sentences(text):
        sentence = " ".join(text[start:end].split())
        if len(sentence) > LONGEST_CHARACTERS or not statements.is_of_size(sentence, SHORTEST, LONGEST):
            continue
        if not statements.is_statement(sentence) or PASSING.search(sentence):
            continue
        kind = next((kind for kind, pattern in KINDS.items() if pattern.search(sentence)), None)
        if kind is None and plain and _is_plain_fact(sentence):
            kind, plain = PLAIN, plain - 1
        if kind:
            yield Fact(kind, sentence)


def _is_plain_fact(sentence: str) -> bool:
    return statements.is_of_size(sentence, PLAIN_SHORTEST, PLAIN_LONGEST) and statements.is_telling(sentence)


def said_by_users(transcript: str) -> str:
    """The parts of a transcript that users said; all of it if it names no speakers."""
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
