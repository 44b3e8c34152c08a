"""Chooses quotes from the notes that were found: sentences if they are enough, else a list, code, or a whole note."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from math import fsum
from operator import itemgetter
from pathlib import Path
from typing import Final

from contract.platform import words
from contract.platform.meaning.fusion import RELATED
from contract.platform.passages import Passage, passages
from contract.platform.query import Term
from contract.platform.question import Question
from contract.platform.quotes import LONGEST_WHOLE, Quote, Unit, body, opening, quote_of, quoted
from contract.platform.search import Found, Hit

# Chosen by `python -m bench.answers`. A hit below the first score has next to nothing to do with the query. Up to the
# second, a note must have this share of what the question is about, or that share if some of it is in its title, if it
# is a single sentence, or if more than one thing is asked.
WEAK, STRONG, ON_THE_SUBJECT, IN_THE_TITLE = 0.12, 0.45, 0.45, 0.33
# A note without any word of the subject is quoted if its meaning is at least as near as the first number, and by the
# second number nearer than every other note: if several are about as near, none is meant (chosen with `bench/meaning`).
MEANT, STANDS_OUT = 0.55, 0.25
# If no note answers, the nearest notes are quoted as such: those whose meaning is at least as near as the first number,
# and at least this share as near as that of the nearest one. But if that one has some words of the question, it is
# probably about something else, so it must be nearer than every other note by the last number (chosen with
# `bench/meaning` and `bench/answers`).
NEAREST, ABOUT_AS_NEAR, AHEAD_WITH_WORDS = 0.4, 0.7, 0.3
NEAREST_NOTES: Final = 3
# Words that a question asks with, or pairs of their characters, that say little about its subject, in some languages.
ASKING_WORDS: Final = frozenset(
    word if words.UNSPACED.match(word) else words.stem_of(word)
    for word in Path(__file__).with_name("asking_words.txt").read_text(encoding="utf-8").split()
)
# How many chunks are looked at, each with at least a share of the best score.
CHUNKS, NEAR = 6, 0.4
# How many sentences an answer quotes at most, each with at least a share of the best score.
SENTENCES, WORTHWHILE = 3, 0.34
# The longest text that is quoted whole if it has matched only by its title or its meaning.
SHORT_NOTE: Final = 700
# The weight of a word in a heading, beside one in the sentence; and of a time in a sentence, for "when".
OF_HEADINGS, FIT = 0.5, 0.3
# Parts of a note that cover this share of what the best part covers are quoted together.
ALIKE: Final = 0.95
TITLE_SHARE, WANTED_SHARE = 0.4, 0.3
SAME_WORDS, SAME_OPENING = 0.4, 3
DATED: Final = re.compile(r"\b(?:19|20)\d\d-[01]\d(?:-[0-3]\d)?\b")
HOW_TO: Final = re.compile(r"how[ -]to\b|run-?book|recipe|guide|comment ", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Part:
    """A passage, and the terms in it and in its headings."""

    hit: Hit
    passage: Passage
    keys: frozenset[str]
    weight: float


@dataclass(frozen=True, slots=True)
class Draft:
    """The quotes of one note for the question."""

    hit: Hit
    quotes: list[Quote]
    keys: frozenset[str]
    rank: float


@dataclass(slots=True)
class Note:
    """The chunks of one document that were found, in their order, and their best one."""

    best: Hit
    hits: list[Hit]
    parts: list[Part] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    title: frozenset[str] = frozenset()


def choose(found: Found, question: Question | None = None) -> list[Quote]:
    """The pieces of an answer, in order; none if no hit is good enough."""
    if not found.hits or found.hits[0].score < WEAK:
        return []
    reader = Reader(found.terms, question or Question.read(""), _meant(found.hits, MEANT, STANDS_OUT))
    notes = [note for note in _notes(found.hits) if not _is_astray(note.best)]
    drafts = [draft for note in notes if (draft := reader.draft(note)) is not None]
    if not drafts:
        return []
    # max() takes the first of equals: the better note.
    lead = _newest(max(drafts, key=lambda draft: draft.rank), drafts)
    return [*lead.quotes, *reader.others(lead, drafts)]


def nearest(found: Found, question: Question | None = None) -> list[Quote]:
    """Quotes of the notes that are nearest in meaning to a question without an answer; none if no note is near."""
    near = _nearness(found.hits)
    first, nearness = next(iter(near.items()), ("", 0.0))
    has_words = any(hit.keyword for hit in found.hits if hit.document_id == first)
    if nearness < NEAREST or (has_words and _meant(found.hits, NEAREST, AHEAD_WITH_WORDS) is None):
        return []
    told = [document for document in near if near[document] >= max(NEAREST, ABOUT_AS_NEAR * nearness)]
    reader = Reader(found.terms, question or Question.read(""), first)
    notes = [_notes([hit for hit in found.hits if hit.document_id == document])[0] for document in told[:NEAREST_NOTES]]
    return [quote for note in notes for quote in reader.quotes(note)]


def _is_astray(hit: Hit) -> bool:
    """Whether a hit has only some words of the question, and is known to be about something else."""
    return max(hit.score, hit.keyword) < STRONG and hit.semantic is not None and hit.semantic < RELATED


def _meant(hits: Sequence[Hit], least: float, ahead: float) -> str | None:
    """The document that is meant, whatever its words, if one is nearer than all others by so much."""
    near = _nearness(hits)
    first, second = (*near.values(), 0.0, 0.0)[:2]
    return next(iter(near)) if first >= least and first - second >= ahead else None


def _nearness(hits: Sequence[Hit]) -> dict[str, float]:
    """How near each document is in meaning, by its nearest chunk; the nearest document comes first."""
    near: dict[str, float] = {}
    for hit in hits:
        near[hit.document_id] = max(near.get(hit.document_id, 0.0), hit.semantic or 0.0)
    return dict(sorted(near.items(), key=itemgetter(1), reverse=True))


def _notes(hits: Sequence[Hit]) -> list[Note]:
    notes: dict[str, Note] = {}
    for hit in hits[:CHUNKS]:
        if hit.score >= NEAR * hits[0].score:
            notes.setdefault(hit.document_id, Note(hit, [])).hits.append(hit)
    for note in notes.values():
        note.hits.sort(key=lambda hit: hit.ordinal)
    return list(notes.values())


class Reader:
    """Reads notes for one question."""

    def __init__(self, terms: Sequence[Term], question: Question, meant: str | None) -> None:
        self._terms, self._question, self._meant = terms, question, meant
        self._keys = frozenset(term.key for term in terms)
        self._weights: Mapping[str, float] = {term.key: term.weight for term in terms}
        self._total = sum(self._weights.values()) or 1.0
        self._grams = {term.key for term in terms if term.is_gram}
        self._subject = frozenset(self._keys - ASKING_WORDS or self._keys)

    def draft(self, note: Note) -> Draft | None:
        self._read(note)
        if not note.parts or not self._is_on_the_subject(note):
            return None
        quotes, keys = self._told(note)
        title = TITLE_SHARE * self._weigh(note.title) / self._total
        rank = note.best.score * (1 + WANTED_SHARE * self._is_wanted(note)) + title
        return Draft(note.best, quotes, keys, rank) if quotes else None

    def quotes(self, note: Note) -> list[Quote]:
        """The quotes of a note, on the subject or not; none if it cannot have the kind of thing that is asked for."""
        self._read(note)
        return self._told(note)[0] if note.parts and not self._lacks_what_is_named(note) else []

    def others(self, lead: Draft, drafts: Sequence[Draft]) -> Iterator[Quote]:
        """Quotes of other notes, if the question asks for more than one thing."""
        covered, room = lead.keys, SENTENCES - len(lead.quotes)
        for draft in drafts if self._question.is_several and self._question.wanted is None else ():
            gain = self._weigh(draft.keys - covered)
            if draft is not lead and room > 0 and gain > WORTHWHILE * self._weigh(lead.keys):
                yield from draft.quotes[:room]
                covered, room = covered | draft.keys, room - len(draft.quotes)

    def _read(self, note: Note) -> None:
        # A title that is only the first line counts as a line.
        if not any(hit.text.startswith(hit.title) for hit in note.hits):
            note.title = self._covered(note.best.title) | self._compounds(note.best.title)
        for hit in note.hits:
            for passage in passages(hit.text):
                lead = hit.text[slice(*passage.lead)] if passage.lead else ""
                above = note.title | self._covered(f"{passage.heading}\n{lead}")
                keys = above | self._covered(hit.text[passage.start : passage.end])
                note.parts.append(Part(hit, passage, keys, self._weigh(keys)))
                note.units += self._units(hit, passage, above)

    def _units(self, hit: Hit, passage: Passage, above: frozenset[str]) -> list[Unit]:
        # Code is quoted whole. So is text after a line that answers by itself and introduces it, except the head of a
        # table.
        spans = [(passage.start, passage.end)] if passage.kind == "code" else list(passage.units)
        spans += [passage.lead] if passage.lead and passage.kind == "list" else []
        texts = [" ".join(hit.text[slice(*span)].split()) for span in spans]
        made = []
        for span, text in zip(spans, texts, strict=True):
            own = self._covered(text)
            value = self._weigh(own) + OF_HEADINGS * self._weigh(above - own)
            value += self._total * FIT * self._question.is_fit(text)
            if text:
                made.append(Unit(hit, passage, span, text, own, above, value))
        return made

    def _is_on_the_subject(self, note: Note) -> bool:
        """Whether a note is about the subject of the question, and not only about the words that it asks with."""
        if self._lacks_what_is_named(note):
            return False
        keys = frozenset[str]().union(*(part.keys for part in note.parts))
        # A note with only some of the words is probably about something else. Grams do not count as words: in other
        # scripts, many notes have some grams of any question.
        is_meant = note.best.document_id == self._meant and not keys & self._subject - self._grams
        if note.best.score >= STRONG or is_meant or not self._subject:
            return True
        share = IN_THE_TITLE if len(note.units) == 1 or note.title & self._subject else ON_THE_SUBJECT
        if self._question.is_several and keys & self._subject:
            # If a question asks for several things, a note may know one of them, by a word that questions ask with.
            return any(self._has_share(keys, wanted, IN_THE_TITLE) for wanted in (self._subject, self._keys))
        return self._has_share(keys, self._subject, share)

    def _lacks_what_is_named(self, note: Note) -> bool:
        """Whether an address is asked for and the note has none, or about an invoice or ticket of another number."""
        if self._question.needs_address and not any(self._question.is_fit(hit.text) for hit in note.hits):
            return True
        codes = [code & self._keys for code in self._question.codes]
        return bool(codes) and not any(code <= part.keys for code in codes for part in note.parts)

    def _has_share(self, keys: Set[str], wanted: Set[str], share: float) -> bool:
        return self._weigh(keys & wanted) >= share * self._weigh(wanted)

    def _is_wanted(self, note: Note) -> bool:
        """Whether a note has the kind of thing that the question asks for."""
        kinds = {part.passage.kind for part in note.parts}
        if self._question.wanted == "whole":
            return bool(kinds & {"list", "code"}) or HOW_TO.search(note.best.title) is not None
        return bool(kinds & self._wanted_kinds(None))

    def _told(self, note: Note) -> tuple[list[Quote], frozenset[str]]:
        unit = max(note.units, key=lambda unit: unit.value, default=None)
        kinds = self._wanted_kinds(unit)
        parts = [part for part in note.parts if part.passage.kind in kinds]
        best = max((part.weight for part in parts), default=0.0)
        if parts and (unit is None or best >= self._weigh(unit.own | unit.about) or unit.passage.kind in kinds):
            return self._parts_told([part for part in parts if part.weight >= ALIKE * best])
        if unit is None or not unit.own or self._question.wanted == "whole":
            return self._whole(note)
        return self._sentences(note, unit)

    def _wanted_kinds(self, unit: Unit | None) -> set[str]:
        """The kind of thing that the question asks for, beside the best sentence or item."""
        if self._question.wanted == "code":
            return {"code"}
        # A question for some of a kind gets a list, unless it names the item that it means.
        is_list = self._question.is_plural and (unit is None or not (unit.own - unit.about) & self._subject)
        return {"list", "table"} if is_list or self._question.wanted == "list" else set()

    def _whole(self, note: Note) -> tuple[list[Quote], frozenset[str]]:
        """The note, or the parts of it that are meant, or its beginning."""
        best = max(part.weight for part in note.parts)
        parts = [part for part in note.parts if part.weight >= ALIKE * best]
        is_whole = len(parts) == len(note.parts) or self._weigh(note.title) >= best / 2
        length = sum(len(hit.text) for hit in note.hits)
        if is_whole and length <= (LONGEST_WHOLE if self._question.wanted else SHORT_NOTE):
            keys = frozenset[str]().union(*(part.keys for part in note.parts))
            return [quote for hit in note.hits for quote in body(hit)], keys
        fitting = [
            part for part in parts if self._question.is_fit(part.hit.text[part.passage.start : part.passage.end])
        ]
        return self._parts_told(fitting or parts)

    def _parts_told(self, parts: Sequence[Part]) -> tuple[list[Quote], frozenset[str]]:
        """As many of these as there is room for, at least one."""
        quotes: list[Quote] = []
        keys: frozenset[str] = frozenset()
        room = LONGEST_WHOLE if self._question.wanted else SHORT_NOTE
        for part in parts:
            quote = quoted(part.hit, part.passage, opening(part.passage, room))
            room -= len(quote.said)
            if quotes and room < 0:
                break
            quotes.append(quote)
            keys |= part.keys
        return quotes, keys

    def _sentences(self, note: Note, first: Unit) -> tuple[list[Quote], frozenset[str]]:
        """The best sentence, and those that add something to it."""
        chosen, missing = [first], self._keys - first.own
        while len(chosen) < SENTENCES:
            unit = max(note.units, key=lambda unit: self._weigh(unit.own & missing))
            gain = self._weigh(unit.own & missing)
            if gain <= WORTHWHILE * self._weigh(first.own) or unit in chosen:
                break
            chosen.append(unit)
            missing -= unit.own
        if self._question.types and not any(self._question.is_fit(unit.text) for unit in chosen):
            beside = [u for u in note.units if u.passage is first.passage and self._question.is_fit(u.text)]
            chosen += sorted(beside, key=lambda unit: abs(unit.span[0] - first.span[0]))[:1]
        chosen.sort(key=lambda unit: (unit.hit.ordinal, unit.span))
        quotes = {quote.said: quote for quote in map(quote_of, chosen)}
        return list(quotes.values()), frozenset[str]().union(*(unit.own | unit.about for unit in chosen))

    def _covered(self, text: str) -> frozenset[str]:
        stems, _ = words.tally(text, self._keys)
        return frozenset(term.key for term in self._terms if term.count_in(text, stems))

    def _compounds(self, title: str) -> frozenset[str]:
        """Terms that a title writes as two words, as in "roll back"."""
        said = [word for word, _, _ in words.spans(title)]
        return frozenset(key for one, two in pairwise(said) if (key := words.stem_of(one + two)) in self._keys)

    def _weigh(self, keys: Iterable[str]) -> float:
        # fsum() gives the same sum in any order, and a set has no order.
        return fsum(self._weights[key] for key in keys)


def _newest(lead: Draft, drafts: Sequence[Draft]) -> Draft:
    """The newest note about the subject of the best note."""
    for draft in drafts:
        if lead.keys <= draft.keys and _is_newer(draft.hit, lead.hit) and _speak_of_the_same(draft, lead):
            lead = draft
    return lead


def _is_newer(one: Hit, other: Hit) -> bool:
    """Compares the dates in names or titles if both have one, else the times of writing."""
    dates: list[list[str]] = [DATED.findall(f"{hit.path} {hit.title}") for hit in (one, other)]
    if dates[0] and dates[1] and max(dates[0]) != max(dates[1]):
        return max(dates[0]) > max(dates[1])
    return one.updated_at > other.updated_at


def _speak_of_the_same(one: Draft, other: Draft) -> bool:
    titles = [set(words.stems(draft.hit.title)) for draft in (one, other)]
    if titles[0] and titles[1] and (titles[0] <= titles[1] or titles[1] <= titles[0]):
        return True
    texts = [words.stems(" ".join(quote.said for quote in draft.quotes)) for draft in (one, other)]
    shared = {stem for stem in texts[0] if stem in texts[1] and not words.is_stop_word(stem)}
    every = {stem for stem in [*texts[0], *texts[1]] if not words.is_stop_word(stem)}
    is_alike = len(shared) >= SAME_WORDS * len(every) and len(shared) > 1
    return is_alike or texts[0][:SAME_OPENING] == texts[1][:SAME_OPENING]
