"""How much of a query a text covers, by its words: in every script, and whichever form of a word is used."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from gateway.operations.small_words import GENERAL, SEPARATORS, SMALL

# Thai to Lao, Burmese, Khmer, kana, Han and Hangul: scripts without spaces, or with particles at the end of words.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
)
# Accents and vowel signs. Python does not count them as letters, but they are parts of words.
_MARKS: Final = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
_WORD: Final = re.compile(rf"[^\W_{_UNSPACED}]+(?:[{_MARKS}]+[^\W_{_UNSPACED}]*)*")
_RUN: Final = re.compile(rf"[{_UNSPACED}]+")
# A piece of a run without signs of grammar: hiragana, and the particles of Chinese.
_PIECE: Final = re.compile(rf"[^\u3040-\u309f{SEPARATORS}]+")

# No more than this of a query and of each text is looked at.
_QUERY_LENGTH: Final = 4096
_TEXT_LENGTH: Final = 10_000
_MOST_WORDS: Final = 64
_MOST_PAIRS: Final = 256
# For one query, this many words of all texts are compared by their forms; after that, only equal words count.
_MOST_COMPARED: Final = 20_000

_GENERAL_WEIGHT: Final = 0.25
# A text with two of three words is more likely about something else than about two thirds of what was asked.
_EXPONENT: Final = 2.5

_BEGINNING: Final = 3
_VOWELS: Final = frozenset("aeiouy")
_PLURAL: Final = frozenset({"", "s"})
_OF_VERBS: Final = frozenset({"es", "ed", "ing", "ings"})
_OF_LONG_WORDS: Final = frozenset({"ion", "ions", "ation", "ations", "ment", "ments"})
_OF_OTHER_LANGUAGES: Final = frozenset({"e", "n", "en"})
_AFTER_Y: Final = frozenset({"y", "ies", "ied"})
_LONGEST_ENDING: Final = 6


class Query:
    """What a query asks for: words, and pieces of scripts without spaces, each with its weight."""

    def __init__(self, text: str) -> None:
        text = text[:_QUERY_LENGTH]
        words = list(dict.fromkeys(map(_fold, _WORD.findall(text))))
        pieces = list(dict.fromkeys(piece for run in _RUN.findall(text) for piece in _PIECE.findall(run) or [run]))
        telling = [word for word in words if word not in SMALL] or ([] if pieces else words)
        self._pieces = [_pairs(piece[:_MOST_PAIRS]) for piece in pieces[:_MOST_WORDS]]
        self._weights = {word: _GENERAL_WEIGHT if _is_general(word) else 1.0 for word in telling[:_MOST_WORDS]}
        self._near = _by_beginning(self._weights)
        self._left = _MOST_COMPARED

    def covered_by(self, *texts: str) -> float:
        """From 0, if no word of the query is in the texts, to 1, if all of them are."""
        total = sum(self._weights.values()) + len(self._pieces)
        if not total:
            return 0.0
        text = " ".join(text[:_TEXT_LENGTH] for text in texts)
        # In the order of the text: which words are compared before the limit is reached must not depend on a hash.
        found = self._found_in(dict.fromkeys(map(_fold, _WORD.findall(text))))
        covered = sum(self._weights[word] for word in found)
        if self._pieces:
            there = {pair for run in _RUN.findall(text) for pair in (*_pairs(run), *run)}
            covered += sum(len(pairs & there) / len(pairs) for pairs in self._pieces)
        return float((covered / total) ** _EXPONENT)

    def _found_in(self, words: dict[str, None]) -> set[str]:
        """The words of the query of which a form is among the words of a text."""
        found = words.keys() & self._weights.keys()
        for word in words:
            for own in self._near.get(word[:_BEGINNING], ()):
                if own not in found and self._left:
                    self._left -= 1
                    if is_same_word(own, word):
                        found.add(own)
        return found


def _by_beginning(words: Iterable[str]) -> dict[str, list[str]]:
    """Words grouped by their beginning: only words that begin alike can be forms of one word."""
    near = defaultdict[str, list[str]](list)
    for word in words:
        near[word[:_BEGINNING]].append(word)
    return near


def _is_general(word: str) -> bool:
    return any(is_same_word(word, other) for other in _GENERAL.get(word[:_BEGINNING], ()))


def is_same_word(one: str, other: str) -> bool:
    """Whether two words are forms of one, as far as their endings tell: `query` and `queries`, `plan` and `planned`."""
    if one == other:
        return True
    shorter, longer = sorted((one, other), key=len)
    # This alone tells most words apart that begin alike.
    alike = max(len(longer) - _LONGEST_ENDING, _BEGINNING)
    if shorter[:alike] != longer[:alike] or len(shorter) < alike:
        return False
    end = next((at for at in range(alike, len(shorter)) if one[at] != other[at]), len(shorter))
    stem = one[:end]
    if not stem.isalpha():
        return False
    endings = {one[end:], other[end:]}
    return any(endings <= family for family in _families(stem))


def _families(stem: str) -> Iterator[frozenset[str]]:
    """Endings that go with a stem, and with each other."""
    is_long = len(stem) > _BEGINNING + 1
    derived = _OF_LONG_WORDS if is_long else frozenset()
    # `car` does not become `caring`, but `ask` becomes `asking`.
    is_whole = len(stem) > _BEGINNING or not _ends_short(stem)
    yield _PLURAL | derived | (_OF_VERBS if is_whole else set()) | (_OF_OTHER_LANGUAGES if is_long else set())
    yield _PLURAL | {stem[-1] + ending for ending in _OF_VERBS}
    yield _OF_VERBS | derived | {"e"}
    yield _AFTER_Y


def _ends_short(stem: str) -> bool:
    before, vowel, last = (letter in _VOWELS for letter in stem[-3:])
    return not before and vowel and not last and stem[-1] not in "wx"


def _pairs(piece: str) -> frozenset[str]:
    """Every two characters that follow each other; a lone one stands for itself."""
    return frozenset(piece[at : at + 2] for at in range(max(len(piece) - 1, 1)))


def _fold(word: str) -> str:
    """In lower case and without accents."""
    if word.isascii():
        return word.lower()
    # Marks are removed first: `normalize` puts a row of them in order, which takes the square of its length.
    return _unmarked(unicodedata.normalize("NFKD", _unmarked(word))).casefold()


def _unmarked(word: str) -> str:
    return "".join(character for character in word if not unicodedata.combining(character))


_GENERAL: Final = _by_beginning(GENERAL)
