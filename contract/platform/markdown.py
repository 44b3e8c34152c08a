"""Markdown as the platform reads it: front matter, titles, chunks, sentences."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final

from contract.platform import words
from contract.platform.names import TITLE_LIMIT

# A chunk is closed once it has this many words, and nothing longer than the second number stays in one piece.
FULL, LONGEST = 150, 250
LONGEST_CHARACTERS: Final = 2400
# A heading begins a new chunk only after this much text, or outlines would fall into tiny pieces.
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
# The same, and where else a line ends: that may end a sentence, too.
SENTENCE_BREAK: Final = re.compile(rf"{SENTENCE_END.pattern}|(?P<plain>\n)")
MARKERS: Final = re.compile(r"\s*(?:(?:[-*+•]|\d{1,9}[.)]|>|\[[ xX]\])\s+)*")
NO_SENTENCE: Final = re.compile(r"#{1,6}\s|```|~~~|---+$|\|")
WORD_BEHIND: Final = re.compile(r"\s*[\"'(\[“„«]?(\w[\w-]*)")
FIELD_LINE: Final = re.compile(r"[^\W\d_][\w &/-]{0,30}: \S")
SHORT_LINE: Final = 45
LONGEST_ABBREVIATION: Final = 40
# Words that a full stop is part of: those that never end a sentence, those that do before a capital, and those that do
# unless a number follows. Then words behind which a letter is no initial of a name, and days and months.
NEVER_LAST, SELDOM_LAST, BEFORE_NUMBERS, LETTERED, CALENDAR = (
    frozenset(line.partition(":")[2].split())
    for line in Path(__file__).with_name("sentence_words.txt").read_text(encoding="utf-8").splitlines()
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
    """A field with one value, as YAML writes it. A value that is not understood is taken letter for letter."""
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
    # Most notes have none, and looking at every place for one takes longer than all else here.
    found = HEADING.finditer(note.body) if "#" in note.body else ()
    headings = (match[1].strip().rstrip("#") for match in found)
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
    fenced, has_fences = False, "```" in body or "~~~" in body
    for begin, stop in _paragraphs(body):
        starts_heading = not fenced and HEADING.match(body, begin, stop) is not None
        if has_fences:
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
    """The length of the next piece within the window."""
    ends = [unit.end() for unit in islice(words.UNIT.finditer(window), LONGEST)]
    reach = ends[-1] if len(ends) == LONGEST else len(window)
    window = window[:reach]
    sentence = max((match.end() for match in SENTENCE_END.finditer(window)), default=0)
    gap = max(window.rfind(" "), window.rfind("\n")) + 1
    return sentence if sentence > reach // 2 else gap if gap > reach // 2 else reach


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Where each sentence begins and ends; headings, bullets and code are not part of one."""
    for first, last in _prose(text):
        start = first
        for match in SENTENCE_BREAK.finditer(text, first, last):
            if not _is_break(text, start, match):
                continue
            yield from _trimmed(text, start, match.end())
            start = match.end()
        yield from _trimmed(text, start, last)


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A sentence without the marks of a list or a quotation before it, if it is one."""
    marker = MARKERS.match(text, start, end)
    begin = marker.end() if marker else start
    stop = start + len(text[start:end].rstrip())
    if begin < stop and not NO_SENTENCE.match(text, begin, stop):
        yield begin, stop


def _is_break(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether an apparent end of a sentence is a real one."""
    if match[0].startswith("\n"):
        return match["plain"] is None or _is_line_of_its_own(text, match.start(), match.end())
    return not match[0].startswith(".") or not _is_abbreviated(text, start, match)


def _is_abbreviated(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether a full stop belongs to the word before it: "Dr. Weiss", "5 p.m. on", "No. 5", "J. R. Lind"."""
    before = text[max(start, match.start() - LONGEST_ABBREVIATION) : match.start()].split()
    if not before or text[match.start() - 1].isspace():
        return False
    word = before[-1].lstrip("([\"'“„«")
    following = WORD_BEHIND.match(text, match.end())
    after = following[1] if following else ""
    goes_on = after[:1].islower() or after[:1].isdigit() or words.folded(after) in CALENDAR
    if word.isdigit():
        # The number of an item, or an ordinal as many languages write it: "9. Mai".
        is_item = match.start() - start <= LONGEST_ABBREVIATION and text[start : match.start()].strip() == word
        return is_item or (len(word) <= 2 and goes_on and not after[:1].isdigit())
    if len(word) == 1 and word.isalpha():
        lettered = len(before) > 1 and before[-2].lower() in LETTERED
        return word.isupper() and word != "I" and after[:1].isupper() and not lettered
    folded = words.folded(word)
    if folded in BEFORE_NUMBERS:
        return any(character.isdigit() for character in after[:LONGEST_ABBREVIATION])
    return folded in NEVER_LAST or (goes_on and folded in SELDOM_LAST)


def _is_line_of_its_own(text: str, end: int, following: int) -> bool:
    """Whether a short line stands for itself, as in `Network: Kestrel`, or is only where a longer one was wrapped."""
    reach = max(0, end - 2 * SHORT_LINE - 1)
    line = text[max(reach, text.rfind("\n", reach, end) + 1) : end].strip()
    after = text[following : following + 1]
    if not line or line[-1] in ",;–-" or not (after.isupper() or after.isdigit()):
        return False
    return len(line) <= SHORT_LINE or (len(line) <= 2 * SHORT_LINE and FIELD_LINE.match(line) is not None)


def _prose(text: str) -> Iterator[tuple[int, int]]:
    """The stretches before, between and behind headings and code: a sentence may begin in the line below one."""
    start, fence = 0, ""
    for found in FENCE_OR_HEADING.finditer(text):
        if found[1]:
            if not fence:
                yield start, found.start()
                fence = found[1]
            elif found[1] == fence:
                line_end = text.find("\n", found.end())
                start, fence = len(text) if line_end < 0 else line_end, ""
        elif not fence:
            yield start, found.start()
            start = found.end()
    if not fence:
        yield start, len(text)
