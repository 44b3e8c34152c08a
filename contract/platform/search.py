"""Finding chunks: which rows the index is asked for, and how well each of them answers the query."""

import json
import math
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final, Literal, TypeAlias, get_args

from contract.platform import index, names, query, words
from contract.platform.brains import Brain
from contract.platform.documents import document_id
from contract.platform.meaning import fusion
from contract.platform.meaning.service import Sought
from contract.platform.query import Filters, Term
from contract.platform.wire import JsonObject, Scalar

Sort: TypeAlias = Literal["relevance", "recency", "relevance_then_recency"]
# By words and meaning, or by words alone: where vectors are still being made, or no model can be asked.
Method: TypeAlias = Literal["hybrid", "keyword"]
SORTS: Final[dict[str, Sort]] = {sort: sort for sort in get_args(Sort)}

# Ranking costs SQLite some 3 µs a row, so no more rows than this are ranked: the newest ones, if there are more.
RANKED: Final = 6000
# Terms this side of ranking cost a pass over all their rows; beyond these they hardly change the order.
RERANKING_TERMS: Final = 6
# At least so many are scored that words have found, and so many that meaning has.
POOL, NEAREST = 40, 20

# BM25's own constants, with the length of a full chunk as the usual length.
SATURATION, LENGTH_SHARE, USUAL_LENGTH = 1.2, 0.75, 180
HIGHLIGHTS, HIGHLIGHT_REACH = 3, 80
RECIPROCAL_OFFSET: Final = 60
# The lowest and the highest score of a hit: none has nothing to do with the query, and none is a perfect answer.
LEAST_SCORE, GREATEST_SCORE = 0.000001, 0.999999
# A hit without any word of the query has at least this share of the best score (chosen by `python -m bench.meaning`).
WORTHWHILE: Final = 0.2
# If so many hits are wanted, the best by words is one of them, even if as many others are nearer in meaning.
KEEPS_BEST_BY_WORDS: Final = 10

_BEGINS: Final = "substr(d.path, 1, length(?)) = ?"


@dataclass(frozen=True, slots=True)
class Folders:
    """Where to look: each is the beginning of a path."""

    inside: tuple[str, ...] = ()
    """A path begins with every one of these."""
    exclude: tuple[str, ...] = ()
    """And with none of these,"""
    include: tuple[str, ...] = ()
    """unless it also begins with one of these, which lies inside."""


EVERYWHERE: Final = Folders()


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that was found. Its scores are how well it answers, from 0 to 1: by its words, by what it means, by both.

    `semantic` is None where nothing is known of what it means.
    """

    score: float
    path: str
    title: str
    text: str
    ordinal: int
    document_id: str
    chunk_id: str
    metadata: dict[str, Scalar]
    updated_at: str
    keyword: float = 0.0
    semantic: float | None = None
    chunk: int = 0

    def record(self, brain: Brain, terms: Sequence[Term]) -> JsonObject:
        return {
            "score": self.score,
            "component_scores": self._components(),
            "path": self.path,
            "content": self.text,
            "brain_id": brain.id,
            "chunk_id": self.chunk_id,
            "document_id": self.document_id,
            "title": self.title,
            "metadata": self.metadata,
            "highlights": highlights(self.text, terms),
            "updated_at": self.updated_at,
        }

    def _components(self) -> JsonObject:
        return {"keyword": self.keyword, **({} if self.semantic is None else {"semantic": self.semantic})}


@dataclass(frozen=True, slots=True)
class Found:
    """Hits in order, with the terms that found them, and whether meaning counted."""

    hits: list[Hit]
    terms: list[Term]
    method: Method = "keyword"

    def records(self, brain: Brain) -> list[JsonObject]:
        return [hit.record(brain, self.terms) for hit in self.hits]


def search(
    connection: sqlite3.Connection,
    brain: Brain,
    text: str,
    top_k: int,
    *,
    sort: Sort = "relevance",
    folders: Folders = EVERYWHERE,
    sought: Sought | None = None,
) -> Found:
    """The best chunks for a query, from what lies in these folders and has not expired."""
    comparison = None if sought is None else sought.compare(connection, brain.n)
    filters = _filters(connection, brain, folders)
    terms = query.parse(connection, brain, text, filters)
    rows = _pool(connection, brain, terms, top_k, filters, newest=sort == "recency")
    if comparison is None:
        hits = _without_repeats(_ordered(_scored(connection, brain, rows, terms), sort))
        return Found(_named(brain, hits[:top_k]), terms)
    near = comparison.near(connection, rows, max(NEAREST, 2 * top_k), filters)
    chunks = list(dict.fromkeys([*rows, *near]))
    hits = _worthwhile(_fused(_scored(connection, brain, chunks, terms), near))
    if sort == "recency":
        # The newest come first, whatever their score, so here all of them must be related to the query.
        hits = [hit for hit in hits if hit.keyword or (hit.semantic or 0.0) >= fusion.RELATED]
    hits = _without_repeats(_ordered(hits, sort))
    if sort != "recency" and top_k >= KEEPS_BEST_BY_WORDS:
        hits = _with_best_by_words(hits, top_k)
    return Found(_named(brain, hits[:top_k]), terms, "hybrid")


def _fused(hits: list[Hit], near: Mapping[int, float]) -> list[Hit]:
    """The hits with scores by words and meaning; `near` is how near a chunk is in meaning."""
    semantics = [near.get(hit.chunk, math.nan) for hit in hits]
    fused = fusion.fuse([hit.keyword for hit in hits], semantics)
    return [
        replace(
            hit,
            score=min(max(round(score, 6), LEAST_SCORE), GREATEST_SCORE),
            semantic=None if math.isnan(semantic) else round(semantic, 6),
        )
        for hit, score, semantic in zip(hits, fused.scores, semantics, strict=True)
    ]


def _worthwhile(hits: list[Hit]) -> list[Hit]:
    """Hits without those that were found only by meaning, if others answer far better."""
    least = WORTHWHILE * max((hit.score for hit in hits), default=0.0)
    return [hit for hit in hits if hit.keyword or hit.score >= least]


def _with_best_by_words(hits: list[Hit], top_k: int) -> list[Hit]:
    """The first hits. If the best by words comes later, it takes the last place."""
    # max() takes the first of equals.
    place = max(range(len(hits)), key=lambda place: hits[place].keyword, default=0)
    return hits if place < top_k or not hits[place].keyword else [*hits[: top_k - 1], hits[place]]


def _without_repeats(hits: list[Hit]) -> list[Hit]:
    """Hits without repetitions: a message, and a fact that was extracted from it."""
    kept: list[Hit] = []
    said: dict[Scalar, list[tuple[bool, str]]] = {}
    for hit in hits:
        if (session := hit.metadata.get("session_id")) is not None:
            is_message, text = names.is_said(hit.path), hit.text.strip()
            others = [other for was_message, other in said.get(session, ()) if was_message != is_message]
            if any(text in other or other in text for other in others):
                continue
            said.setdefault(session, []).append((is_message, text))
        kept.append(hit)
    return kept


def _filters(connection: sqlite3.Connection, brain: Brain, folders: Folders) -> Filters:
    """The filters for a row besides the query; empty if every document of the brain passes."""
    condition = "".join(f" AND {_BEGINS}" for _ in folders.inside)
    bounds: list[Scalar] = [part for prefix in folders.inside for part in (prefix, prefix)]
    for left_out in folders.exclude:
        kept = [prefix for prefix in folders.include if prefix.startswith(left_out)]
        condition += f" AND NOT ({_BEGINS}{''.join(f' AND NOT {_BEGINS}' for _ in kept)})"
        bounds += [part for prefix in (left_out, *kept) for part in (prefix, prefix)]
    moment = time.time() * 1000
    over = connection.execute("SELECT 1 FROM documents WHERE brain = ? AND expires <= ? LIMIT 1", (brain.n, moment))
    if over.fetchone() is not None:
        condition += " AND (d.expires IS NULL OR d.expires > ?)"
        bounds.append(moment)
    return condition, bounds


def _ordered(hits: list[Hit], sort: Sort) -> list[Hit]:
    """Sorting is stable: each step leaves equals in the order of the step before, path and place first of all."""
    hits = sorted(hits, key=lambda hit: (hit.path, hit.ordinal))
    if sort == "recency":
        # Chunks of one document are equally recent; the better one leads.
        return sorted(hits, key=lambda hit: (hit.updated_at, hit.score), reverse=True)
    if sort == "relevance_then_recency":
        hits.sort(key=lambda hit: hit.updated_at, reverse=True)
    return sorted(hits, key=lambda hit: hit.score, reverse=True)


def _pool(
    connection: sqlite3.Connection,
    brain: Brain,
    terms: list[Term],
    top_k: int,
    filters: Filters,
    *,
    newest: bool,
) -> list[int]:
    """The rows worth scoring: those with every term, then those with the rare ones, then any if there was nothing."""
    name = index.table(brain.n)
    pool = max(POOL, 2 * top_k)
    condition, bounds = filters
    joined = (
        "CROSS JOIN chunks AS c ON c.n = w.rowid CROSS JOIN documents AS d ON d.n = c.document" if condition else ""
    )
    statement = f"""
        SELECT n FROM (
            SELECT w.rowid AS n, w.rank AS rank FROM {name} AS w {joined}
            WHERE {name} MATCH ? {condition} ORDER BY w.rowid DESC LIMIT ?
        ) ORDER BY rank, n DESC LIMIT ?
    """
    found: dict[int, None] = {}
    for expression, is_last_resort in _expressions(terms):
        if len(found) >= top_k or (is_last_resort and found and not condition):
            break
        rows = connection.execute(statement, (expression, *bounds, pool if newest else RANKED, pool))
        found |= dict.fromkeys(row["n"] for row in rows)
    return list(found)


def _expressions(terms: list[Term]) -> Iterator[tuple[str, bool]]:
    """FTS5 queries from narrow to wide, each with whether it is only for want of anything better."""
    known = [term for term in terms if term.chunks]
    if not known:
        return
    if len(known) > 1:
        yield " AND ".join(term.match for term in known), False
    rare, common, rows = [known[0]], list[Term](), known[0].chunks
    for term in known[1:]:
        rows += term.chunks
        (rare if rows <= RANKED else common).append(term)
    chosen = _any(rare)
    # FTS5 has no optional operand: common terms change the rank of rows that the rare ones have chosen.
    yield (f"({chosen}) AND ({chosen} OR {_any(common[:RERANKING_TERMS])})" if common else chosen), False
    if common:
        yield _any(known), True


def _any(terms: Sequence[Term]) -> str:
    return " OR ".join(term.match for term in terms)


def _scored(connection: sqlite3.Connection, brain: Brain, rows: list[int], terms: list[Term]) -> list[Hit]:
    """These chunks, each with how well its words answer."""
    marks = ", ".join("?" * len(rows))
    fetched = connection.execute(
        f"""
        SELECT c.n, w.title AS heading, w.tags, w.text, c.ordinal, d.title, d.path, d.metadata, d.updated_at
        FROM {index.table(brain.n)} AS w CROSS JOIN chunks AS c ON c.n = w.rowid
        CROSS JOIN documents AS d ON d.n = c.document WHERE w.rowid IN ({marks})
        """,
        rows,
    ).fetchall()
    keys = frozenset(term.key for term in terms)
    return [_hit(row, terms, keys) for row in fetched]


def _hit(row: sqlite3.Row, terms: list[Term], keys: frozenset[str]) -> Hit:
    keyword = _score((row["heading"], row["tags"], row["text"]), terms, keys)
    return Hit(
        score=max(keyword, LEAST_SCORE),
        path=row["path"],
        title=row["title"],
        text=row["text"],
        ordinal=row["ordinal"],
        document_id="",
        chunk_id="",
        metadata=json.loads(row["metadata"]),
        updated_at=row["updated_at"],
        keyword=keyword,
        chunk=row["n"],
    )


def _named(brain: Brain, hits: list[Hit]) -> list[Hit]:
    """The hits with their ids, which are worked out only for those that are shown."""
    named = []
    for hit in hits:
        document = document_id(brain, hit.path)
        chunk = names.identifier("chk", document, hit.ordinal, hit.text)
        named.append(replace(hit, document_id=document, chunk_id=chunk))
    return named


def _score(texts: tuple[str, str, str], terms: list[Term], keys: frozenset[str]) -> float:
    """BM25 over all terms, scaled by what a text full of every term would get: below 1, and 0 if it has none."""
    columns = [
        (weight, text, *words.tally(text, keys)) for weight, text in zip(index.COLUMN_WEIGHTS, texts, strict=False)
    ]
    length = 1 - LENGTH_SHARE + LENGTH_SHARE * columns[-1][-1] / USUAL_LENGTH
    # Most chunks have neither a heading nor tags.
    columns = [column for column in columns if column[1]]
    total = whole = 0.0
    for term in terms:
        frequency = 0.0
        for weight, text, stems, _ in columns:
            frequency += weight * term.count_in(text, stems)
        total += term.weight * frequency / (frequency + SATURATION * length)
        whole += term.weight
    if not total:
        return 0.0
    return min(max(round(total / whole, 6), LEAST_SCORE), GREATEST_SCORE)


def highlights(text: str, terms: Sequence[Term]) -> list[str]:
    """A few stretches of the text around the terms, as they stand there."""
    places = words.places(text, {term.key for term in terms if not term.is_gram})
    places += [(at, at + len(term.key)) for term in terms if term.is_gram and (at := text.find(term.key)) >= 0]
    cuts: list[str] = []
    reached = -1
    for start, end in sorted(places):
        if len(cuts) == HIGHLIGHTS:
            break
        if start >= reached:
            begin = _word_boundary(text, max(0, start - HIGHLIGHT_REACH), start)
            reached = _word_boundary(text, min(len(text), end + HIGHLIGHT_REACH), end)
            cuts.append(text[begin:reached].strip())
    return cuts


def _word_boundary(text: str, place: int, inner: int) -> int:
    """Move a cut inwards to white space, unless there is none between it and the word it must keep."""
    if place in {0, len(text)}:
        return place
    step = 1 if place < inner else -1
    for at in range(place, inner, step):
        if text[at].isspace():
            return at
    return place


def blended(primary: Found, context: Found, top_k: int) -> Found:
    """Two results merged by reciprocal rank, the context counting half; scores still say how well a hit answers."""
    hits = {hit.chunk_id: hit for hit in [*context.hits, *primary.hits]}
    ranks, scores = dict.fromkeys(hits, 0.0), dict.fromkeys(hits, 0.0)
    for found, weight in ((primary, 1.0), (context, 0.5)):
        for rank, hit in enumerate(found.hits, start=1):
            ranks[hit.chunk_id] += weight / (RECIPROCAL_OFFSET + rank)
            scores[hit.chunk_id] = max(scores[hit.chunk_id], weight * hit.score)
    order = sorted(hits, key=lambda key: (-ranks[key], hits[key].path, hits[key].ordinal))[:top_k]
    # What the conversation puts before another hit answers no less than that does.
    best_below = list(accumulate((scores[key] for key in reversed(order)), max))[::-1]
    merged = [
        replace(hits[key], score=max(round(score, 6), LEAST_SCORE))
        for key, score in zip(order, best_below, strict=True)
    ]
    return Found(merged, [*primary.terms, *context.terms], primary.method)
