"""A query as terms: what to look up, how rare each term is in the brain, and how much it weighs."""

import math
import sqlite3
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from contract.platform import brains, index, words
from contract.platform.brains import Brain
from contract.platform.wire import Scalar

# A query of a thousand words is cut to its first distinct terms, and then to the rarest of them.
TERMS_READ: Final = 64
TERMS_KEPT: Final = 24
PIECE: Final = 1024
# To count a term, how many of the newest chunks are looked at.
COUNTED: Final = 6000

# A condition on documents, and the values in it.
Filters: TypeAlias = tuple[str, list[Scalar]]


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


def parse(connection: sqlite3.Connection, brain: Brain, text: str, filters: Filters) -> list[Term]:
    """The terms of a query, rarest first; terms the brain does not have come at the very front.

    What a term weighs is told with every score, so that it comes from chunks alone that are asked for: by any other,
    whoever asks would learn which words are in chunks that are left out.
    """
    total = _total(connection, brain, filters)
    terms = [_term(connection, brain, total, filters, *lookup) for lookup in lookups(text)]
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


def _total(connection: sqlite3.Connection, brain: Brain, filters: Filters) -> int:
    condition, bounds = filters
    total = brains.chunk_count(connection, brain)
    if not condition or total > COUNTED:
        return min(total, COUNTED) if condition else total
    counting = "SELECT count(*) FROM documents AS d CROSS JOIN chunks AS c ON c.document = d.n WHERE d.brain = ?"
    return int(connection.execute(counting + condition, (brain.n, *bounds)).fetchone()[0])


def _term(
    connection: sqlite3.Connection, brain: Brain, total: int, filters: Filters, key: str, match: str, is_gram: bool
) -> Term:
    name = index.table(brain.n)
    chunks = connection.execute(f"SELECT count(*) FROM {name} WHERE {name} MATCH ?", (match,)).fetchone()[0]
    asked = _asked(connection, name, match, filters) if chunks and filters[0] else chunks
    # The smoothed inverse document frequency of BM25, which stays positive for terms that are everywhere.
    weight = math.log(1 + (total - asked + 0.5) / (asked + 0.5))
    return Term(key, match, is_gram, chunks, weight)


def _asked(connection: sqlite3.Connection, name: str, match: str, filters: Filters) -> int:
    """How many of the chunks that the filters allow have a term."""
    condition, bounds = filters
    statement = f"""
        SELECT count(*) FROM (SELECT rowid AS n FROM {name} WHERE {name} MATCH ? ORDER BY rowid DESC LIMIT ?) AS w
        CROSS JOIN chunks AS c ON c.n = w.n CROSS JOIN documents AS d ON d.n = c.document WHERE TRUE {condition}
    """
    return int(connection.execute(statement, (match, COUNTED, *bounds)).fetchone()[0])
