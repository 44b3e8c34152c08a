"""Pieces of notes, as an answer quotes them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from contract.platform.passages import Passage, Span, passages
from contract.platform.search import Hit

LONGEST_SENTENCE: Final = 400
# The longest text that is quoted whole.
LONGEST_WHOLE: Final = 1600


@dataclass(frozen=True, slots=True)
class Quote:
    """A piece of the answer, and the stretch of the chunk it was taken from."""

    hit: Hit
    text: str
    said: str


@dataclass(frozen=True, slots=True)
class Unit:
    """What can be quoted alone."""

    hit: Hit
    passage: Passage
    span: Span
    text: str
    own: frozenset[str]
    """The terms in it,"""
    about: frozenset[str]
    """and those in what stands above it."""
    value: float


def quote_of(unit: Unit) -> Quote:
    """A unit as it is quoted: a line that introduces something, with the text after it."""
    is_lead = unit.span == unit.passage.lead
    return quoted(unit.hit, unit.passage, (unit.passage.start, unit.passage.end) if is_lead else unit.span)


def quoted(hit: Hit, passage: Passage, span: Span) -> Quote:
    """Prose on one line, and all other text in its own lines."""
    if passage.kind == "prose" or span in passage.units:
        text = _cut(hit.text[slice(*span)], LONGEST_SENTENCE if span in passage.units else LONGEST_WHOLE)
        return Quote(hit, text, " ".join(text.split()))
    text = _cut(hit.text[slice(*span)], LONGEST_WHOLE)
    return Quote(hit, text, text)


def opening(passage: Passage, room: int) -> Span:
    """As much of a passage as there is room for, in whole sentences if it is prose, at least one."""
    if passage.kind != "prose" or passage.end - passage.start <= room or not passage.units:
        return passage.start, passage.end
    first = passage.units[0]
    ends = [end for _, end in passage.units[1:] if end - first[0] <= room]
    return (first[0], ends[-1]) if ends else first


def body(hit: Hit) -> Iterator[Quote]:
    """A chunk without the heading at its beginning, which is the note's title."""
    found = passages(hit.text)
    if all(passage.kind == "prose" for passage in found):
        yield from (quoted(hit, passage, (passage.start, passage.end)) for passage in found)
        return
    text = hit.text
    if text.startswith("# "):
        text = text.partition("\n")[2].strip()
    if text:
        text = _cut(text, LONGEST_WHOLE)
        yield Quote(hit, text, text)


def _cut(text: str, length: int) -> str:
    """At most so many characters, if possible without cutting a word."""
    text = text.strip()
    if len(text) <= length:
        return text
    text = text[:length]
    at = text.rfind("\n") if text.rfind("\n") > length // 2 else max(map(text.rfind, " \n\t"))
    return (text[:at] if at > 0 else text).rstrip()
