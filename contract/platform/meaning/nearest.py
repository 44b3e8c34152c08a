"""The chunks that are nearest to a query in meaning: exact, and only those that may be shown."""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from contract.platform.meaning.matrix import Numbers, View
from contract.platform.query import Filters

if TYPE_CHECKING:
    from contract.platform.meaning.embedder import Vectors

# Twice as many of the nearest as are wanted are looked up first, then so many, then so many more, and then the rest in
# pieces of that size: of a large brain, of which a search may show little, all that is related, but not all there is.
FEW, MORE = 400, 4000


def nearest(
    connection: sqlite3.Connection,
    view: View,
    vector: "Vectors",
    wanted: int,
    least: float,
    related: float,
    filters: Filters,
) -> dict[int, float]:
    """The cosines of the nearest chunks that meet the filters and are at least so near."""
    found: dict[int, float] = {}
    # Row by row, because the product of the matrix takes three times as long.
    for places in _by_nearness(np.vecdot(view.rows, vector), wanted, least, related):
        chunks = _chunks(connection, view.numbers[places].tolist(), filters)
        kept = [place for place in places.tolist() if int(view.numbers[place]) in chunks][: wanted - len(found)]
        for place, cosine in zip(kept, exact(view, vector, kept), strict=True):
            found[chunks[int(view.numbers[place])]] = cosine
        if len(found) >= wanted:
            break
    return found


def exact(view: View, vector: "Vectors", places: Sequence[int]) -> list[float]:
    """Cosines that do not depend on what else is in the matrix: not even their last digit tells of other chunks."""
    cosines: list[float] = (view.rows[places] * vector).sum(axis=1, dtype=np.float64).tolist()
    return cosines


def _by_nearness(near: "Vectors", wanted: int, least: float, related: float) -> Iterator[Numbers]:
    """Places from the nearest on, in pieces: only the first few are put in order, unless all are needed."""
    done = 0
    for many, enough in ((2 * wanted, least), (FEW, least), (FEW + MORE, least), (len(near), related)):
        if many <= done:
            continue
        best = np.argpartition(near, len(near) - many)[-many:] if many < len(near) else np.arange(len(near))
        best = best[np.lexsort((best, -near[best]))]
        best = best[: np.count_nonzero(near[best] >= enough)]
        for start in range(done, len(best), MORE):
            yield best[start : start + MORE]
        if len(best) < many:
            return
        done = len(best)


def _chunks(connection: sqlite3.Connection, numbers: Sequence[int], filters: Filters) -> dict[int, int]:
    """Which of these rows are there, and are of documents that meet the filters, with the chunk of each."""
    condition, bounds = filters
    joined = (
        "CROSS JOIN chunks AS c ON c.n = v.chunk CROSS JOIN documents AS d ON d.n = c.document" if condition else ""
    )
    marks = ", ".join("?" * len(numbers))
    rows = connection.execute(
        f"SELECT v.n, v.chunk FROM vectors AS v {joined} WHERE v.n IN ({marks}) {condition}", (*numbers, *bounds)
    )
    return {row["n"]: row["chunk"] for row in rows}


def cosines_of(
    connection: sqlite3.Connection, view: View, vector: "Vectors", model: int, chunks: Sequence[int]
) -> dict[int, float]:
    """The cosines of these chunks, as far as they have a vector."""
    marks = ", ".join("?" * len(chunks))
    rows = connection.execute(
        f"SELECT n, chunk FROM vectors WHERE chunk IN ({marks}) AND model = ?", (*chunks, model)
    ).fetchall()
    # A row may have gone, and have been left out of the matrix, since this connection last looked at the file.
    places = {row["chunk"]: place for row in rows if (place := view.place(row["n"])) is not None}
    return dict(zip(places, exact(view, vector, list(places.values())), strict=True))
