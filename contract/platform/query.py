"""A query as terms: what to look up, how rare each term is in the brain, and how much it weighs."""

import math
import sqlite3
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from contract.platform import brains, index, words
from contract.platform.brains import Brain

# A query of a thousand words is cut to its first distinct terms, and then to the rarest of them.
TERMS_READ: Final = 64
TERMS_KEPT: Final = 24
PIECE: Final = 1024


@dataclass(frozen=True, slots=True)
class Term:
    """One thing to look for. `key` is a stem, or a gram of a script without spaces."""

    key: str
    match: str
    is_gram: bool
    chunks: int
    weight: float

    def count_in(self, text: str, stems: dict[str, int]) -> int:
        return text.count(self.key) if self.is_gram else stems.get(self.key, 0)


def parse(connection: sqlite3.Connection, brain: Brain, text: str) -> list[Term]:
    """The terms of a query, rarest first; terms the brain does not have come at the very front."""
    total = brains.chunk_count(connection, brain)
    terms = [_term(connection, brain, total, *lookup) for lookup in lookups(text)]
    return sorted(terms, key=lambda term: (term.chunks, term.key))[:TERMS_KEPT]


def lookups(text: str) -> list[tuple[str, str, bool]]:
    # In pieces, because `normalize` takes the square of the length of a row of accents.
    composed = "".join(unicodedata.normalize("NFC", text[at : at + PIECE]) for at in range(0, len(text), PIECE))
    plain = [word for word, _, _ in words.spans(composed)]
    found = {gram: (match, True) for gram, match in _grams(composed)}
    telling = [word for word in plain if not words.is_stop_word(word)]
    # A query of nothing but stop words still means them.
    found |= {words.stem_of(word): (f'"{word}"', False) for word in (telling or ([] if found else plain))}
    return [(key, match, is_gram) for key, (match, is_gram) in found.items()][:TERMS_READ]


def _grams(text: str) -> Iterator[tuple[str, str]]:
    for run in words.UNSPACED.findall(text):
        if len(run) == 1:
            yield run, f'grams : "{run}" *'
        else:
            yield from ((gram, f'grams : "{gram}"') for gram in words.bigrams(run))


def _term(connection: sqlite3.Connection, brain: Brain, total: int, key: str, match: str, is_gram: bool) -> Term:
    name = index.table(brain.n)
    chunks = connection.execute(f"SELECT count(*) FROM {name} WHERE {name} MATCH ?", (match,)).fetchone()[0]
    # The smoothed inverse document frequency of BM25, which stays positive for terms that are everywhere.
    weight = math.log(1 + (total - chunks + 0.5) / (chunks + 0.5))
    return Term(key, match, is_gram, chunks, weight)
