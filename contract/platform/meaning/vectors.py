"""Vectors as rows of the file, inside a transaction that someone else has begun."""

import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from contract.platform.meaning.calibration import Calibration

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from contract.platform.meaning.embedder import Vectors

# Of four bytes, after the sign has filled what is left of it.
SIGN_AND_REST: Final = ~0x70001FFF
# Numbers that are set aside for the vectors of one brain by one model.
ROOM: Final = 2**40


@dataclass(frozen=True, slots=True)
class Model:
    """What made a vector: the length is part of its name."""

    name: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Known:
    """A model that has made vectors before. What a service's cosines are worth is kept with it."""

    number: int
    calibration: Calibration | None


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many chunks there are, and how many of them have a vector of a model."""

    embedded: int
    chunks: int

    @property
    def missing(self) -> int:
        return max(self.chunks - self.embedded, 0)


@dataclass(frozen=True, slots=True)
class Unembedded:
    """A chunk that has no vector of a model yet, and the text to make one of."""

    brain: int
    chunk: int
    text: str


def text_of(title: str, text: str) -> str:
    """The text of a chunk that is embedded. Tags say too little, and would make all notes with a tag similar."""
    return f"{title}\n{text}" if title else text


def encoded(rows: "Vectors") -> list[bytes]:
    return [row.tobytes() for row in rows.astype("<f2")]


def decoded(numbers: bytes) -> "NDArray[np.float32]":
    """Numbers of two bytes in four, ten times as quickly as numpy widens them; they are no greater than 1."""
    import numpy as np

    wide = np.frombuffer(numbers, dtype="<i2").astype("<i4")
    # The sign, five bits of exponent and ten of fraction go to where they are in four bytes.
    wide <<= 13
    wide &= SIGN_AND_REST
    floats = wide.view("<f4")
    # There an exponent counts from 127 down, here from 15.
    floats *= np.float32(2.0**112)
    return floats


def known(connection: sqlite3.Connection, model: Model) -> Known | None:
    row = connection.execute(
        "SELECT n, unrelated, related FROM models WHERE name = ? AND dimensions = ?", (model.name, model.dimensions)
    ).fetchone()
    if row is None:
        return None
    return Known(row["n"], None if row["related"] is None else Calibration(row["unrelated"], row["related"]))


def number_of(connection: sqlite3.Connection, model: Model) -> int | None:
    found = known(connection, model)
    return None if found is None else found.number


def register(connection: sqlite3.Connection, model: Model, calibration: Calibration | None = None) -> int:
    """The number of a model, which it gets when it makes its first vector."""
    number = number_of(connection, model)
    if number is not None:
        return number
    worth = (None, None) if calibration is None else (calibration.unrelated, calibration.related)
    made = connection.execute(
        "INSERT INTO models (name, dimensions, unrelated, related, used_at) VALUES (?, ?, ?, ?, ?)",
        (model.name, model.dimensions, *worth, int(time.time())),
    ).lastrowid
    assert made is not None
    return made


def add(connection: sqlite3.Connection, brain: int, model: int, rows: Sequence[tuple[int, bytes]]) -> None:
    """Store the vectors of these chunks. If another process was quicker with one, that one stays."""
    if not rows:
        return
    part, made = _part(connection, brain, model)
    first, before = part * ROOM + made + 1, connection.total_changes
    connection.executemany(
        "INSERT INTO vectors (n, chunk, model, vector) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [(n, chunk, model, vector) for n, (chunk, vector) in enumerate(rows, start=first)],
    )
    connection.execute(
        "UPDATE embedded SET chunks = chunks + ?, made = made + ? WHERE n = ?",
        (connection.total_changes - before, len(rows), part),
    )


def _part(connection: sqlite3.Connection, brain: int, model: int) -> tuple[int, int]:
    """Where the vectors of a brain by a model are, and how many there have been."""
    row = connection.execute("SELECT n, made FROM embedded WHERE brain = ? AND model = ?", (brain, model)).fetchone()
    if row is not None:
        return row["n"], row["made"]
    number = connection.execute("INSERT INTO embedded (brain, model) VALUES (?, ?)", (brain, model)).lastrowid
    assert number is not None
    return number, 0


def after(connection: sqlite3.Connection, brain: int, model: int, last: int) -> sqlite3.Cursor:
    """Number and vector of what was made of a brain by a model after the one with this number, as plain tuples."""
    cursor = connection.cursor()
    cursor.row_factory = None
    return cursor.execute(
        f"""
        SELECT v.n, v.vector FROM embedded AS e
        CROSS JOIN vectors AS v ON v.n > max(?, e.n * {ROOM}) AND v.n < (e.n + 1) * {ROOM}
        WHERE e.brain = ? AND e.model = ? ORDER BY v.n
        """,
        (last, brain, model),
    )


def remove(connection: sqlite3.Connection, brain: int, document: int) -> None:
    """Take out the vectors of a document, before its chunks go."""
    of_document = "chunk IN (SELECT n FROM chunks WHERE document = ?)"
    counted = connection.execute(
        f"SELECT model, count(*) AS vectors FROM vectors WHERE {of_document} GROUP BY model", (document,)
    ).fetchall()
    if counted:
        connection.execute(f"DELETE FROM vectors WHERE {of_document}", (document,))
        for row in counted:
            connection.execute(
                "UPDATE embedded SET chunks = chunks - ? WHERE brain = ? AND model = ?",
                (row["vectors"], brain, row["model"]),
            )


def count_of(connection: sqlite3.Connection, document: int) -> int:
    """How many chunks of a document have a vector, of whatever model."""
    counting = "SELECT count(DISTINCT c.n) FROM chunks AS c JOIN vectors AS v ON v.chunk = c.n WHERE c.document = ?"
    return int(connection.execute(counting, (document,)).fetchone()[0])


def coverage(connection: sqlite3.Connection, model: int | None, brain: int | None = None) -> Coverage:
    """Of one brain, or of all. A model that has no number yet has made nothing."""
    condition, bounds = ("", ()) if brain is None else (" WHERE b.n = ?", (brain,))
    row = connection.execute(
        "SELECT ifnull(sum(b.chunks), 0), ifnull(sum(e.chunks), 0) FROM brains AS b "
        f"LEFT JOIN embedded AS e ON e.brain = b.n AND e.model = ?{condition}",
        (model, *bounds),
    ).fetchone()
    return Coverage(embedded=row[1], chunks=row[0])


def incomplete(connection: sqlite3.Connection, model: int | None) -> list[int]:
    """The brains that have chunks without a vector."""
    rows = connection.execute(
        "SELECT b.n FROM brains AS b LEFT JOIN embedded AS e ON e.brain = b.n AND e.model = ? "
        "WHERE b.chunks > ifnull(e.chunks, 0) ORDER BY b.n",
        (model,),
    )
    return [row["n"] for row in rows]


def unembedded(
    connection: sqlite3.Connection, brain: int, model: int | None, between: tuple[int, int], limit: int, *, newest: bool
) -> list[Unembedded]:
    """The newest or oldest chunks between these numbers that have no vector."""
    rows = connection.execute(
        f"""
        SELECT c.n, w.title, w.text FROM chunks AS c CROSS JOIN documents AS d ON d.n = c.document
        CROSS JOIN words_{brain:d} AS w ON w.rowid = c.n
        WHERE c.n > ? AND c.n < ? AND d.brain = ?
        AND NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.chunk = c.n AND v.model = ?)
        ORDER BY c.n {"DESC" if newest else "ASC"} LIMIT ?
        """,
        (*between, brain, model, limit),
    )
    return [Unembedded(brain, row["n"], text_of(row["title"], row["text"])) for row in rows]


def still_there(connection: sqlite3.Connection, wanted: Iterable[Unembedded]) -> set[int]:
    """Those chunks that say what they said when they were read: SQLite gives numbers of chunks again."""
    kept = set()
    for item in wanted:
        known = connection.execute("SELECT 1 FROM brains WHERE n = ?", (item.brain,)).fetchone()
        row = (
            known
            and connection.execute(
                f"SELECT title, text FROM words_{item.brain:d} WHERE rowid = ?", (item.chunk,)
            ).fetchone()
        )
        if row and text_of(row["title"], row["text"]) == item.text:
            kept.add(item.chunk)
    return kept


def use(connection: sqlite3.Connection, model: int) -> None:
    """Note that a model is in use."""
    connection.execute("UPDATE models SET used_at = ? WHERE n = ?", (int(time.time()), model))


def unused(connection: sqlite3.Connection, kept: Iterable[Model], since: float) -> list[int]:
    """Other models, whose vectors nobody has asked for in a while."""
    numbers = {number_of(connection, model) for model in kept}
    rows = connection.execute("SELECT n FROM models WHERE used_at < ?", (since,))
    return [row["n"] for row in rows if row["n"] not in numbers]


def forget(connection: sqlite3.Connection, model: int, limit: int) -> bool:
    """Remove some vectors of a model, and in the end the model; whether that is done."""
    # A process that wants the model again meanwhile makes new vectors, and does not rely on those being removed.
    connection.execute("UPDATE models SET name = '', dimensions = -n WHERE n = ?", (model,))
    gone = connection.execute(
        f"""
        DELETE FROM vectors WHERE n IN (
            SELECT v.n FROM embedded AS e CROSS JOIN vectors AS v ON v.n > e.n * {ROOM} AND v.n < (e.n + 1) * {ROOM}
            WHERE e.model = ? LIMIT ?
        )
        """,
        (model, limit),
    ).rowcount
    if gone == limit:
        return False
    connection.execute("DELETE FROM embedded WHERE model = ?", (model,))
    connection.execute("DELETE FROM models WHERE n = ?", (model,))
    return True
