"""A chunk as a reader sees it: paragraphs, lists, tables and code, each with the headings above it and its units."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from contract.platform import markdown

Kind: TypeAlias = Literal["prose", "list", "table", "code"]
Span: TypeAlias = tuple[int, int]

HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
FENCE: Final = re.compile(r" {0,3}(```|~~~)")
ITEM: Final = re.compile(r"[ \t]*(?:[-*+•]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
TABLE_RULE: Final = re.compile(r"[\s|:-]+")
FIELD: Final = re.compile(r"(?:\*\*)?[^\W\d_][^:\n]{0,40}:(?:\*\*)? ?\S")
# A text directly above a list or code, no longer than this, introduces it.
LONGEST_LEAD: Final = 200
LONGEST_FIELD: Final = 100


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a chunk. Its units are what can be quoted alone: sentences, items, rows; code has none."""

    kind: Kind
    start: int
    end: int
    heading: str
    """Those above it, the outermost first, without the note's own."""
    units: tuple[Span, ...] = ()
    lead: Span | None = None
    """The line that says what a list, a table or a piece of code is."""


@dataclass(slots=True)
class _Block:
    kind: Kind
    start: int
    end: int
    heading: str
    lines: list[Span]
    follows_directly: bool
    """Whether no empty line stands before it."""


def passages(text: str) -> list[Passage]:
    found: list[Passage] = []
    for block in _blocks(text):
        lead = _lead(text, found[-1], block) if found else None
        if lead is not None:
            found.pop()
        found.append(_passage(text, block, lead))
    return found


def _lead(text: str, above: Passage, block: _Block) -> Span | None:
    """The paragraph above, where it introduces this block."""
    is_short = above.end - above.start <= LONGEST_LEAD
    if above.kind != "prose" or block.kind == "prose" or above.heading != block.heading or not is_short:
        return None
    introduces = block.follows_directly or text[above.start : above.end].rstrip("*_ ").endswith((":", "："))
    return (above.start, above.end) if introduces else None


def _passage(text: str, block: _Block, lead: Span | None) -> Passage:
    kind, start, end = block.kind, block.start, block.end
    if kind == "prose" and _are_fields(text, block.lines):
        kind = "list"
    if block.kind == "prose":
        whole = text[start:end]
        units = tuple((start + first, start + last) for first, last in markdown.sentences(whole))
        units = tuple(block.lines) if kind == "list" else units
    elif kind == "list":
        units = tuple(_items(text, block.lines))
    elif kind == "table":
        rows = [_cells(text, line) for line in block.lines if TABLE_RULE.fullmatch(text, *line) is None]
        has_head = len(rows) < len(block.lines)
        lead, units = (rows[0] if has_head and rows else lead), tuple(rows[1:] if has_head else rows)
    else:
        units = ()
    return Passage(kind, min(start, lead[0]) if lead else start, end, block.heading, units, lead)


def _are_fields(text: str, lines: list[Span]) -> bool:
    """Whether each line has its own name, as in `Network: Kestrel` and `Password: …`."""
    fields = sum(FIELD.match(text, *line) is not None for line in lines)
    return len(lines) > 1 and 2 * fields > len(lines) and all(end - start <= LONGEST_FIELD for start, end in lines)


def _items(text: str, lines: list[Span]) -> Iterator[Span]:
    """Items with the lines that continue them, without their marks."""
    begun: Span | None = None
    for start, end in lines:
        marker = ITEM.match(text, start, end)
        if marker is None and begun is not None:
            begun = begun[0], end
            continue
        if begun is not None:
            yield begun
        begun = (marker.end() if marker else start), end
    if begun is not None and begun[0] < begun[1]:
        yield begun


def _cells(text: str, line: Span) -> Span:
    """A row without the bars around it."""
    start, end = line
    row = text[start:end]
    return start + len(row) - len(row.lstrip("| \t")), start + len(row.rstrip("| \t"))


def _blocks(text: str) -> Iterator[_Block]:
    """Lines that belong together, in order."""
    headings: list[tuple[int, str]] = []
    block: _Block | None = None
    fence, after_blank = "", True
    for start, end in _lines(text):
        opened = FENCE.match(text, start, end)
        if fence and block is not None:
            block.end = end
            if opened is not None and opened[1] == fence:
                yield block
                fence, block, after_blank = "", None, False
            continue
        heading = HEADING.match(text, start, end)
        kind = _kind(text, start, end)
        # Items may stand apart; what else follows an empty line is another block.
        goes_on = block is None or (block.kind == "list" if kind is None else _continues(block, kind, text[start]))
        if block is not None and (heading or opened or not goes_on):
            yield block
            block = None
        if heading is not None:
            level = len(heading[1])
            headings = [*(above for above in headings if above[0] < level), (level, heading[2].strip(" #\t"))]
            after_blank = False
        elif kind is None:
            after_blank = True
        elif block is None:
            block = _Block("code" if opened else kind, start, end, _path(headings), [(start, end)], not after_blank)
            fence, after_blank = (opened[1] if opened else ""), False
        else:
            if after_blank and kind != "list":
                yield block
                block = _Block(kind, start, end, _path(headings), [], False)
            block.end, after_blank = end, False
            block.lines.append((start, end))
    if block is not None:
        yield block


def _path(headings: list[tuple[int, str]]) -> str:
    return "\n".join(said for _, said in headings)


def _kind(text: str, start: int, end: int) -> Kind | None:
    """What a line is by itself; None for an empty one."""
    if not text[start:end].strip():
        return None
    if ITEM.match(text, start, end):
        return "list"
    return "table" if text[start:end].lstrip().startswith("|") else "prose"


def _continues(block: _Block, kind: Kind, first: str) -> bool:
    """Whether a line goes on with the block above it: an item's own further lines are indented."""
    return kind == block.kind or (block.kind == "list" and kind == "prose" and first.isspace())


def _lines(text: str) -> Iterator[Span]:
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield start, end - (end > start and text[end - 1] == "\r")
        start = end + 1
