"""Stored text as it is shown to people and models: without invisible characters, and up to a length."""

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final

FULL_LENGTH: Final = 20_000
_HEAD_LENGTH: Final = 300
# Room for the last line, which says what is left out.
_MARK_LENGTH: Final = 120
# Characters that can hide text from a person but not from a model: tags and variation selectors, bidi controls,
# zero width, letters that are not visible, and control characters of terminals. Only those that a person would miss
# stay: one joiner after a letter or an emoji beyond ASCII, and one variation selector after an emoji.
_NEVER_SHOWN: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_INVISIBLE: Final = re.compile(
    f"[{_NEVER_SHOWN}]"
    "|(?<![^\x00-\x7f\u200c\u200d])[\u200c\u200d]"
    "|(?<![#*0-9\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f]"
)
# A much faster check that decides for nearly all texts: those of ASCII, and those without such characters.
_ASCII_CONTROLS: Final = bytes([*range(9), *range(11, 32), 127])
_NOT_ON_A_LINE: Final = b"\t\n" + _ASCII_CONTROLS
_SUSPECT: Final = re.compile(f"[{_NEVER_SHOWN}\u200c\u200d\ufe0e\ufe0f]")


def visible(text: object) -> str:
    said = text if isinstance(text, str) else "" if text is None else str(text)
    if said.isascii():
        # Three times as fast as `isprintable`, which would not do for texts of several lines either.
        shown = said.encode().translate(None, _ASCII_CONTROLS)
        return said if len(shown) == len(said) else shown.decode()
    return _INVISIBLE.sub("", said) if _SUSPECT.search(said) else said


def line(text: object) -> str:
    """On one line, whatever it holds: a name must not begin a line of its own."""
    # Names nearly always are on one line already, and `split` would make a list of their words.
    if isinstance(text, str) and _is_plain_line(text):
        return text.strip(" ")
    return " ".join(visible(text).split())


def lines(texts: Sequence[object]) -> list[str]:
    """Each text as one line. To save time, all of them are checked together first."""
    # A space at the end of a text makes two spaces beside this mark, so it is found too.
    if all(texts) and {str}.issuperset(map(type, texts)) and _is_plain_line(f"| {' | '.join(texts)} |"):  # type: ignore[arg-type]
        return list(texts)  # type: ignore[arg-type]
    return [line(text) for text in texts]


def _is_plain_line(text: str) -> bool:
    return text.isascii() and "  " not in text and len(text.encode().translate(None, _NOT_ON_A_LINE)) == len(text)


def head(*parts: object) -> str:
    """The title of a text and its source, as far as they are known."""
    return heads([parts])[0]


def heads(rows: Sequence[Sequence[object]]) -> list[str]:
    """The same for several texts, with one quick check for all of them."""
    parts = [part for row in rows for part in row]
    said = iter(lines(parts))
    return [" · ".join([part for part in islice(said, len(row)) if part]) for row in rows]


def full_text(texts: Sequence[tuple[str, str]]) -> str:
    """Whole texts, each below its head, for models that get only text. The end says what did not fit."""
    if (as_they_are := _join_plain(texts)) is not None:
        return as_they_are
    parts: list[str] = []
    room = FULL_LENGTH - _MARK_LENGTH
    for n, (above, text) in enumerate(texts, start=1):
        begun = f"=== {n} of {len(texts)}: {above[:_HEAD_LENGTH]} ===\n"
        room -= len(begun) + 2
        if room <= 0:
            return "\n\n".join([*parts, _left_out(n, len(texts))])
        # Only as much is looked at as fits, because a text may have megabytes. No line of it may look like a head.
        shown = visible(text[: room + 1])
        if "=" in shown and "===" in shown:
            shown = f"\n{shown}".replace("\n===", "\n ===")[1:]
        parts.append(begun + shown[:room])
        if len(text) > room or len(shown) > room:
            more = max(len(text) - len(shown[:room]), 1)
            return "\n\n".join([*parts, _left_out(n + 1, len(texts), f"{more:,} more characters of {n}")])
        room -= len(shown)
    return "\n\n".join(parts)


def _join_plain(texts: Sequence[tuple[str, str]]) -> str | None:
    """All of them, if they fit and nothing in them must be changed, which is usual. One check is enough for all."""
    # On lines of their own, because an invisible sign is kept or removed by the letter before it.
    body, count = "\n".join([text for _, text in texts]), len(texts)
    if len(body) > FULL_LENGTH or "=" in body or visible(body) is not body:
        return None
    joined = "\n\n".join(
        [f"=== {n} of {count}: {above[:_HEAD_LENGTH]} ===\n{text}" for n, (above, text) in enumerate(texts, start=1)]
    )
    return joined if len(joined) < FULL_LENGTH - _MARK_LENGTH - 2 else None


def _left_out(first: int, last: int, cut: str = "") -> str:
    whole = "" if first > last else f"{first}" if first == last else f"{first} to {last}"
    return f"=== Left out here: {' and '.join(part for part in (cut, whole) if part)}. ==="
