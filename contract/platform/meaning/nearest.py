"""The chunks that are nearest to a query in meaning: exact, and only those that may be shown."""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from contract.platform.meaning.matrix import Numbers, Rows, View
from contract.platform.query import Filters

# So many of the nearest are looked up first, then so many more, and then all the rest in pieces of that size.
FIRST, MORE = 400, 4000


def cosines(view: View, vector: Rows) -> Rows:
    """How near each row is to the query."""
    near: Rows = view.rows @ vector
    return near


def nearest(
    connection: sqlite3.Connection, view: View, near: Rows, wanted: int, least: float, filters: Filters
) -> dict[int, float]:
    """The cosines of the nearest chunks that meet the filters and are at least so near."""
    found: dict[int, float] = {}
    for places in _by_nearness(near, least):
        numbers = view.numbers[places]
        chunks = _chunks(connection, numbers.tolist(), filters)
        for number, cosine in zip(numbers.tolist(), near[places].tolist(), strict=True):
            if number in chunks and len(found) < wanted:
                found[chunks[number]] = cosine
        if len(found) >= wanted:
            break
    return found


def _by_nearness(near: Rows, least: float) -> Iterator[Numbers]:
    """Places from the nearest on, in pieces: of many rows, only the first few are put in order unless all are needed."""
    done = 0
    for many in (FIRST, FIRST + MORE, len(near)):
        if done >= len(near) or many <= done:
            return
        best = np.argpartition(-near, many - 1)[:many] if many < len(near) else np.arange(len(near))
        best = best[np.lexsort((best, -near[best]))]
        best = best[: np.count_nonzero(near[best] >= least)]
        for start in range(done, len(best), MORE):
            yield best[start : start + MORE]
        if len(best) < many:
            return
        done = len(best)


def _chunks(connection: sqlite3.Connection, numbers: Sequence[int], filters: Filters) -> dict[int, int]:
    """Which of these rows are there, and are of documents that meet the filters, with the chunk of each."""
    condition, bounds = filters
    marks = ", ".join("?" * len(numbers))
    rows = connection.execute(
        f"""
        SELECT v.n, v.chunk FROM vectors AS v CROSS JOIN chunks AS c ON c.n = v.chunk
        CROSS JOIN documents AS d ON d.n = c.document WHERE v.n IN ({marks}) {condition}
        """,
        (*numbers, *bounds),
    )
    return {row["n"]: row["chunk"] for row in rows}


def cosines_of(
    connection: sqlite3.Connection, view: View, near: Rows, model: int, chunks: Sequence[int]
) -> dict[int, float]:
    """How near these chunks are, as far as they have a vector."""
    if not chunks:
        return {}
    marks = ", ".join("?" * len(chunks))
    rows = connection.execute(
        f"SELECT n, chunk FROM vectors WHERE chunk IN ({marks}) AND model = ?", (*chunks, model)
    ).fetchall()
    places = view.places([row["n"] for row in rows])
    return {
        row["chunk"]: float(near[place])
        for row, place in zip(rows, places, strict=True)
        # A row may have gone, and have been left out of the matrix, since this connection last looked at the file.
        if place < len(near) and view.numbers[place] == row["n"]
    }
