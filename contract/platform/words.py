"""Words as the search index sees them: tokens, stems, stop words, and bigrams for scripts without spaces."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from contract.platform.stem import porter

# Hiragana, katakana, Han (with extension A and compatibility ideographs) and Hangul syllables.
RANGES: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
UNSPACED: Final = re.compile(f"[{RANGES}]+")
# A combining mark continues the word it stands in, as it does for SQLite's unicode61 tokenizer.
WORD: Final = re.compile(rf"[^\W_{RANGES}]+(?:[\u0300-\u036f]+[^\W_{RANGES}]*)*")
UNIT: Final = re.compile(rf"{WORD.pattern}|[{RANGES}]{{1,2}}")
GRAM_SOURCE: Final = re.compile(
    # A word that touches no run is looked at once, not from each of its letters.
    rf"[{RANGES}]+|(?<=[{RANGES}])[^\W_{RANGES}]+|(?<![^\W_{RANGES}])[^\W_{RANGES}]+(?=[{RANGES}])"
)

ASCII_END: Final = "\x7f"

STOP_WORDS: Final = frozenset(Path(__file__).with_name("stop_words.txt").read_text(encoding="utf-8").split())


@lru_cache(maxsize=65_536)
def stem_of(word: str) -> str:
    return porter(folded(word))


def folded(word: str) -> str:
    """Lower case without diacritics."""
    if word.isascii():
        return word.lower()
    # Marks go first, too: putting a long row of them in order, as `normalize` does, takes the square of its length.
    return _unmarked(unicodedata.normalize("NFD", _unmarked(word))).lower()


def _unmarked(text: str) -> str:
    return "".join(character for character in text if not unicodedata.combining(character))


def spans(text: str) -> Iterator[tuple[str, int, int]]:
    """Every word of a script with spaces, with its place, in order."""
    for match in WORD.finditer(text):
        yield match[0], match.start(), match.end()


def stems(text: str) -> list[str]:
    return [stem_of(word) for word in WORD.findall(text)]


def tally(text: str, keys: Collection[str]) -> tuple[Counter[str], int]:
    """How often each of the stems occurs in the text, and how many words the text has."""
    found = WORD.findall(text)
    initials = _initials(keys)
    likely = (word for word in found if word[0] in initials or word[0] > ASCII_END)
    return Counter(stem for word in likely if (stem := stem_of(word)) in keys), len(found)


def places(text: str, keys: Collection[str]) -> list[tuple[int, int]]:
    """Where words with one of these stems stand."""
    initials = _initials(keys)
    likely = (match for match in WORD.finditer(text) if match[0][0] in initials or match[0][0] > ASCII_END)
    return [match.span() for match in likely if stem_of(match[0]) in keys]


def _initials(keys: Collection[str]) -> set[str]:
    """What words with these stems can begin with, if in ASCII: stemming leaves the first letter alone.

    Ruling words out by it is what makes scoring a few thousand words cheap.
    """
    return {initial for key in keys for initial in (key[:1], key[:1].upper())}


def is_stop_word(word: str) -> bool:
    return folded(word) in STOP_WORDS


def bigrams(run: str) -> list[str]:
    """Overlapping pairs of a run; a lone character stands for itself."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def grams(text: str) -> str:
    """What the index holds besides the text itself, so that scripts without spaces can be found.

    The last character of each run is added alone, so that every character begins some gram. Words of other scripts
    that touch a run are added too, because SQLite's tokenizer takes both for one word.
    """
    if not UNSPACED.search(text):
        return ""
    parts: list[str] = []
    for piece in GRAM_SOURCE.findall(text):
        parts += [*bigrams(piece), piece[-1]] if UNSPACED.match(piece) else [piece]
    return " ".join(parts)


def count(text: str) -> int:
    """How many words the text has, two characters of an unspaced script counting as one."""
    return len(UNIT.findall(text))
