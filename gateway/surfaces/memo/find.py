"""How the `memo` surface finds memos: by the platform's search, each memo once, by similarity and then by age."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.brain.notebook import MOST_FOUND, Entry, Notebook
from gateway.operations.caller import Call
from gateway.operations.coverage import Query
from gateway.operations.notes import Note, milliseconds
from gateway.operations.ranking import likeness, meaning_of, places, tells_words
from gateway.operations.table import JsonObject
from gateway.surfaces.memo.metadata import as_memo

# How many of the newest memos are looked through if one search cannot return as many as are wanted.
_LOOKED_THROUGH: Final = 100


@dataclass(frozen=True, slots=True)
class Found:
    """A memo, how well it answers the query from 0 to 1, and when it was recorded, in milliseconds since 1970."""

    path: str
    note: Note
    similarity: float
    created: int = 0


async def find(notes: Notebook, call: Call, folder: str, text: str, limit: int) -> list[Found]:
    """The memos of a folder that answer a query best, best first; among equals, the newest first."""
    query = Query(text)
    hits, is_full = await _hits(notes, call, folder, text, limit)
    near = in_reach(query, hits, limit)
    read = dict(await notes.read_all(call, near))
    memos = [near[path].opened(query, as_memo(read[path])) for path in near if path in read]
    if is_full and len(hits) < limit:
        memos += await _looked_through(notes, call, folder, query, limit - len(memos), near)
    return in_order(await _read_dates(notes, call, folder, memos))[:limit]


async def _hits(notes: Notebook, call: Call, folder: str, text: str, limit: int) -> tuple[list[JsonObject], bool]:
    """One hit of each memo, and whether there may be more of them: a platform counts parts of notes."""
    wanted = 2 * limit + 10
    hits, is_full = await notes.search(call, text, folder, wanted)
    if is_full and len(hits) < limit and wanted < MOST_FOUND:
        return await notes.search(call, text, folder, MOST_FOUND)
    return hits, is_full


@dataclass(frozen=True, slots=True)
class Near:
    """A hit, before its memo is read: the part that was found is shown, but neither the rest nor all of its tags."""

    path: str
    shown: str
    place: int
    meaning: float | None
    compares_words: bool
    """Whether the platform weighs words as well as meaning. Then either may show that a memo answers."""

    def similarity(self, covered: float) -> float:
        if self.meaning is None:
            return round(likeness(covered, self.place), 4)
        by_words = likeness(covered, self.place) if self.compares_words and covered else 0.0
        return round(max(self.meaning, by_words), 4)

    def opened(self, query: Query, note: Note) -> Found:
        return Found(self.path, note, self.similarity(query.covered_by(self.shown, *words_of(note))))


def words_of(note: Note) -> tuple[str, ...]:
    """All texts of a memo by which it may be found."""
    return note.content, " ".join(note.tag_list), note.text("metadata") or ""


def in_reach(query: Query, hits: Sequence[JsonObject], limit: int) -> dict[str, Near]:
    """The memos that may be among the first after they are read: of equals at the edge, only their age decides."""
    near = [
        Near(str(hit["path"]), str(hit.get("content") or ""), place, meaning_of(hit), tells_words(hit))
        for hit, place in zip(hits, places(hits), strict=True)
    ]
    ranked = sorted((hit.similarity(query.covered_by(hit.shown)) for hit in near), reverse=True)
    edge = ranked[limit - 1] if len(ranked) >= limit else 0.0
    return {hit.path: hit for hit in near if hit.similarity(1.0) >= edge}


async def _looked_through(
    notes: Notebook, call: Call, folder: str, query: Query, wanted: int, known: Collection[str]
) -> list[Found]:
    """Further memos with a word of the query in them, among the newest."""

    def kept(entry: Entry, note: Note) -> Found | None:
        memo = as_memo(note)
        covered = query.covered_by(*words_of(memo))
        return Found(entry.path, memo, round(likeness(covered), 4)) if covered > 0 else None

    others = [entry for entry in await notes.entries(call, folder) if entry.path not in known]
    return await notes.newest(call, others[:_LOOKED_THROUGH], wanted, kept)


async def _read_dates(notes: Notebook, call: Call, folder: str, memos: Sequence[Found]) -> list[Found]:
    """When each was recorded or, if it does not say, when it was changed."""
    said = {memo.path: milliseconds(memo.note.created) for memo in memos}
    if any(moment is None for moment in said.values()):
        changed = {entry.path: entry.changed for entry in await notes.entries(call, folder)}
        said = {path: changed.get(path, 0) if moment is None else moment for path, moment in said.items()}
    return [Found(memo.path, memo.note, memo.similarity, said[memo.path] or 0) for memo in memos]


def in_order(memos: Sequence[Found]) -> list[Found]:
    return sorted(memos, key=lambda memo: (memo.similarity, memo.created, memo.path), reverse=True)
