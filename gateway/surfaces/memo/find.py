"""How the `memo` surface finds memos: by the platform's search, each memo once, by likeness and then by age."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.brain.notebook import MOST_FOUND, Entry, Notebook
from gateway.operations.caller import Call
from gateway.operations.notes import Note, milliseconds
from gateway.operations.ranking import lexical_score, score_of
from gateway.operations.table import JsonObject
from gateway.surfaces.memo.metadata import as_memo

# So many of the newest memos are looked through where one search cannot hold as many as are wanted.
_LOOKED_THROUGH: Final = 100


@dataclass(frozen=True, slots=True)
class Found:
    """A memo, how like the query it is from 0 to 1, and when it was recorded, in milliseconds since 1970."""

    path: str
    note: Note
    similarity: float
    created: int = 0


async def find(notes: Notebook, call: Call, folder: str, query: str, limit: int) -> list[Found]:
    """The memos of a folder that are most like a query, best first, and of equals the newest."""
    hits, is_full = await _hits(notes, call, folder, query, limit)
    near = in_reach(alike(hits), limit)
    read = dict(await notes.read_all(call, near))
    memos = [Found(path, as_memo(read[path]), near[path]) for path in near if path in read]
    if is_full and len(hits) < limit:
        least = min((memo.similarity for memo in memos), default=1.0)
        memos += await _looked_through(notes, call, folder, query, limit - len(memos), least, near)
    return in_order(await _read_dates(notes, call, folder, memos))[:limit]


async def _hits(notes: Notebook, call: Call, folder: str, query: str, limit: int) -> tuple[list[JsonObject], bool]:
    """One hit of each memo, and whether there may be more of them: a platform counts parts of notes."""
    wanted = 2 * limit + 10
    hits, is_full = await notes.search(call, query, folder, wanted)
    if is_full and len(hits) < limit and wanted < MOST_FOUND:
        return await notes.search(call, query, folder, MOST_FOUND)
    return hits, is_full


def alike(hits: Sequence[JsonObject]) -> dict[str, float]:
    """How like the query each hit is, by path: its share of the best score, or its rank where scores say nothing."""
    best = max(map(score_of, hits), default=0.0)
    shares = [score_of(hit) / best if best > 0 else 1 - rank / len(hits) for rank, hit in enumerate(hits)]
    return {hit["path"]: round(min(max(share, 0.0), 1.0), 4) for hit, share in zip(hits, shares, strict=True)}


def in_reach(likeness: dict[str, float], limit: int) -> dict[str, float]:
    """Those that may be among the first: of equals at the edge, only their age decides."""
    ranked = sorted(likeness.values(), reverse=True)
    edge = ranked[limit - 1] if len(ranked) >= limit else 0.0
    return {path: share for path, share in likeness.items() if share >= edge}


async def _looked_through(
    notes: Notebook, call: Call, folder: str, query: str, wanted: int, least: float, known: dict[str, float]
) -> list[Found]:
    """Further memos with a word of the query in them, among the newest; each less like it than those of the search."""

    def kept(entry: Entry, note: Note) -> Found | None:
        share = lexical_score(query, f"{note.content} {' '.join(note.tag_list)}")
        return Found(entry.path, as_memo(note), round(least * share, 4)) if share > 0 else None

    others = [entry for entry in await notes.entries(call, folder) if entry.path not in known]
    return await notes.newest(call, others[:_LOOKED_THROUGH], wanted, kept)


async def _read_dates(notes: Notebook, call: Call, folder: str, memos: Sequence[Found]) -> list[Found]:
    """When each was recorded; of one that does not say, when it was changed."""
    said = {memo.path: milliseconds(memo.note.created) for memo in memos}
    if any(moment is None for moment in said.values()):
        changed = {entry.path: entry.changed for entry in await notes.entries(call, folder)}
        said = {path: changed.get(path, 0) if moment is None else moment for path, moment in said.items()}
    return [Found(memo.path, memo.note, memo.similarity, said[memo.path] or 0) for memo in memos]


def in_order(memos: Sequence[Found]) -> list[Found]:
    return sorted(memos, key=lambda memo: (memo.similarity, memo.created, memo.path), reverse=True)
