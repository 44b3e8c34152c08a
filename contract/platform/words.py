"""Words as the search index sees them: tokens, stems, stop words, and bigrams for scripts without spaces."""

import re
import unicodedata
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
# What is between words, in ASCII.
SEPARATORS: Final = {code: " " for code in range(128) if not chr(code).isalnum()}
# Every letter and digit of ASCII as the same letter.
SHAPES: Final = bytes(ord("w" if chr(code).isalnum() else " ") for code in range(128)).ljust(256)

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


def every(text: str) -> list[str]:
    """Every word of a script with spaces: in ASCII without looking for it, in a third of the time."""
    return text.translate(SEPARATORS).split() if text.isascii() else WORD.findall(text)


def stems(text: str) -> list[str]:
    return [stem_of(word) for word in every(text)]


def tally(text: str, keys: frozenset[str]) -> tuple[dict[str, int], int]:
    """How often each of the stems occurs in the text, and how many words the text has."""
    if not text:
        return {}, 0
    found, beginnings = every(text), _beginnings(keys)
    if text.isascii():
        likely = [word for word in found if word[:2] in beginnings]
    else:
        likely = [word for word in found if word[:2] in beginnings or not word.isascii()]
    counted: dict[str, int] = {}
    for word in likely:
        if (stem := stem_of(word)) in keys:
            counted[stem] = counted.get(stem, 0) + 1
    return counted, len(found)


def places(text: str, keys: Collection[str]) -> list[tuple[int, int]]:
    """Where words with one of these stems stand."""
    beginnings = _beginnings(frozenset(keys))
    likely = (match for match in WORD.finditer(text) if match[0][:2] in beginnings or not match[0].isascii())
    return [match.span() for match in likely if stem_of(match[0]) in keys]


@lru_cache(maxsize=64)
def _beginnings(keys: frozenset[str]) -> set[str]:
    """The two letters that words with these stems can begin with, if in ASCII.

    Ruling words out by them is what makes scoring a few thousand words cheap.
    """
    found: set[str] = set()
    for key in keys:
        # Stemming leaves two letters alone, but "eyed" becomes "ei", and of "oing" only "o" is left.
        second = "iy" if key[1:] == "i" else key[1:2] or "eiy"
        found |= {first + other for first in _cases(key[:1]) for letter in second for other in _cases(letter)}
        if len(key) == 1:
            found |= set(_cases(key))
    return found


def _cases(letter: str) -> tuple[str, str]:
    return letter, letter.upper()


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
    if text.isascii() or not UNSPACED.search(text):
        return ""
    parts: list[str] = []
    for piece in GRAM_SOURCE.findall(text):
        parts += [*bigrams(piece), piece[-1]] if UNSPACED.match(piece) else [piece]
    return " ".join(parts)


def count(text: str) -> int:
    """How many words the text has, two characters of an unspaced script counting as one."""
    if text.isascii():
        # Where a word begins. Nothing is made of the word, which would take several times as long.
        return (b" " + text.encode().translate(SHAPES)).count(b" w")
    return len(UNIT.findall(text))
