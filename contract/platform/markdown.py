"""Markdown as the platform reads it: front matter, titles, chunks, sentences."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Final

from contract.platform import words
from contract.platform.names import TITLE_LIMIT

# A chunk is closed once it has this many words, and nothing longer than the second number stays in one piece.
FULL, LONGEST = 150, 250
LONGEST_CHARACTERS: Final = 2400
# A heading opens a new chunk only behind this much text, or outlines would shatter.
BEFORE_HEADING: Final = 40

# Longer front matter than this is text.
FRONT_LENGTH: Final = 64 * 1024
FRONT_BEGIN: Final = re.compile(r"\ufeff?---[ \t]*\r?\n")
FRONT_END: Final = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
FIELD: Final = re.compile(r"^([A-Za-z_][\w-]*):[ \t]*(.*(?:\n[ \t]+.*|\n- .*)*)", re.MULTILINE)
HEADING: Final = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*)$", re.MULTILINE)
VISIBLE: Final = re.compile(r"\S")
# The end of a line before an empty one, or before nothing. A pattern for whole blocks would keep every line in memory.
BLOCK_END: Final = re.compile(r"\n(?=[^\S\n]*(?:\n|\Z))")
FENCE: Final = re.compile(r"^ {0,3}(```|~~~)", re.MULTILINE)
FENCE_OR_HEADING: Final = re.compile(r"^ {0,3}(?:(```|~~~)|#{1,6}[ \t].*$)", re.MULTILINE)
# Behind its marks and closing quotes, before a new item of a list, between paragraphs, and before a heading.
SENTENCE_END: Final = re.compile(
    r"[.!?][\"')\]”’]*(?=\s)|[。！？]+|\n(?=[ \t]*(?:[-*+•]|\d+[.)])\s)|\n\s*\n|\n(?= {0,3}#)"
)


@dataclass(frozen=True, slots=True)
class Note:
    """A document's text with its front matter read."""

    title: str | None
    tags: str
    body: str
    expires: int | None = None
    """In milliseconds since 1970."""
    is_dead: bool = False
    """Whether something else has taken its place."""


def read(text: str) -> Note:
    begin = FRONT_BEGIN.match(text)
    end = FRONT_END.search(text, begin.end(), begin.end() + FRONT_LENGTH) if begin else None
    if begin is None or end is None:
        return Note(None, "", text)
    front = text[begin.end() : end.start()].replace("\r\n", "\n")
    fields = {key.lower(): value for key, value in FIELD.findall(front)}
    title = scalar(fields.get("name", "")) or scalar(fields.get("title", "")) or None
    tags = " ".join(re.findall(r"\w[^\s,\[\]\"']*", fields.get("tags", "")))
    expires, is_dead = _milliseconds(scalar(fields.get("expires", ""))), scalar(fields.get("dead", "")) == "true"
    return Note(title, tags, text[end.end() :], expires, is_dead)


def _milliseconds(moment: str) -> int | None:
    try:
        said = datetime.fromisoformat(moment)
    except ValueError:
        return None
    return round((said if said.tzinfo else said.replace(tzinfo=UTC)).timestamp() * 1000)


def scalar(raw: str) -> str:
    """A one-value field as YAML writes it; what is not understood is taken as it stands."""
    text = " ".join(raw.split())
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        try:
            return str(json.loads(text))
        except ValueError:
            return text[1:-1]
    if text.startswith("'") and text.endswith("'") and len(text) > 1:
        return text[1:-1].replace("''", "'")
    return text


def title_of(text: str, otherwise: str) -> str:
    """Front matter name, else first heading, else first line with words in it, else the given one."""
    note = read(text)
    if note.title:
        return note.title[:TITLE_LIMIT]
    headings = (match[1].strip().rstrip("#") for match in HEADING.finditer(note.body))
    heading = next((text for text in headings if text.strip()), "")
    return " ".join((heading or _first_line(note.body)).split())[:TITLE_LIMIT].strip() or otherwise[:TITLE_LIMIT]


def _first_line(body: str) -> str:
    """The first line that says something, as much of it as could make a title."""
    first = VISIBLE.search(body)
    return body[first.start() : first.start() + 16 * TITLE_LIMIT].splitlines()[0] if first else ""


def chunks(body: str) -> list[str]:
    """The body in pieces of some 150 to 250 words, each a stretch of the text as it stands; at least one."""
    cuts: list[tuple[int, int]] = []
    start, end, size = 0, 0, 0
    for block_start, block_end, block_size, is_heading in _blocks(body):
        overflows = size + block_size > LONGEST or block_end - start > LONGEST_CHARACTERS
        if size and (size >= FULL or overflows or (is_heading and size >= BEFORE_HEADING)):
            cuts.append((start, end))
            size = 0
        if not size:
            start = block_start
        end, size = block_end, size + max(block_size, 1)
    if size:
        cuts.append((start, end))
    return [body[start:end].strip() for start, end in cuts] or [""]


def _blocks(body: str) -> Iterator[tuple[int, int, int, bool]]:
    """Paragraphs, headings and list blocks, none longer than a chunk may be."""
    fenced = False
    for begin, stop in _paragraphs(body):
        starts_heading = not fenced and HEADING.match(body, begin, stop) is not None
        fenced ^= sum(1 for _ in FENCE.finditer(body, begin, stop)) % 2 == 1
        for start, end, size in _cut(body, begin, stop):
            yield start, end, size, starts_heading and start == begin


def _paragraphs(body: str) -> Iterator[tuple[int, int]]:
    """Where lines that are not empty stand together."""
    end = 0
    while (first := VISIBLE.search(body, end)) is not None:
        start = max(end, body.rfind("\n", end, first.start()) + 1)
        stop = BLOCK_END.search(body, first.start())
        end = stop.end() if stop else len(body)
        yield start, end


def _cut(body: str, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """A block with its size, or an enormous one in pieces that end with a sentence, or a word, where there is one."""
    while start < end:
        # Counting the whole of a long block again and again would take the square of its length.
        size = words.count(body[start:end]) if end - start <= LONGEST_CHARACTERS else LONGEST + 1
        length = end - start if size <= LONGEST else _piece(body[start : min(end, start + LONGEST_CHARACTERS)])
        yield start, start + length, min(size, LONGEST)
        start += length


def _piece(window: str) -> int:
    """How much of the window makes a piece of its own."""
    ends = [unit.end() for unit in islice(words.UNIT.finditer(window), LONGEST)]
    reach = ends[-1] if len(ends) == LONGEST else len(window)
    window = window[:reach]
    sentence = max((match.end() for match in SENTENCE_END.finditer(window)), default=0)
    gap = max(window.rfind(" "), window.rfind("\n")) + 1
    return sentence if sentence > reach // 2 else gap if gap > reach // 2 else reach


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Where each sentence begins and ends; headings, bullets and fences are not part of one."""
    for first, last in _without_headings(text):
        start = first
        for end in chain((match.end() for match in SENTENCE_END.finditer(text, first, last)), (last,)):
            piece = text[start:end]
            marker = re.match(r"\s*(?:(?:[-*+•]|\d+[.)]|>)\s+)*", piece)
            begin = start + (marker.end() if marker else 0)
            stop = start + len(piece.rstrip())
            if begin < stop and not re.match(r"#{1,6}\s|```|~~~|---+$|\|", text[begin:stop]):
                yield begin, stop
            start = end


def _without_headings(text: str) -> Iterator[tuple[int, int]]:
    """The stretches before, between and behind headings: a sentence may begin in the line below one."""
    start, fenced = 0, False
    for found in FENCE_OR_HEADING.finditer(text):
        if found[1]:
            fenced = not fenced
        elif not fenced:
            yield start, found.start()
            start = found.end()
    yield start, len(text)
