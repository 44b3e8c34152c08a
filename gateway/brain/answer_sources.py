"""The sources of an answer. Nothing of an answer is passed on before it is known that the caller may see them."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from gateway.brain.visibility import View
from gateway.operations import names
from gateway.operations.errors import StreamBroken
from gateway.operations.steps.finding import hits_of
from gateway.operations.table import JsonObject

IDS: Final = ("chunk_id", "document_id")
# Fields that a platform may send beside the chunks, one value for each, as chunks have few fields by the contract.
_BESIDE: Final = {"paths": "path", "titles": "title", "updated_at": "updated_at"}
_NAMING_SOURCES: Final = frozenset({"chunks", "path", *_BESIDE})
_QUOTED, _QUOTE_LENGTH, _PREVIEW_LENGTH = 3, 300, 512
_LISTED_AT_MOST: Final = 100
_NOTHING: Final = "Nothing that you may see answers that."
_QUOTES: Final = "From the notes that you may see:"
_ENDED: Final = "The platform began to draw on notes that you may not see, so its answer was ended."


class NotTheirs(Exception):
    """An answer uses notes that the caller may not see, notes that have ended, or unknown sources."""


class Sources:
    """The sources that an answer has named so far."""

    def __init__(
        self,
        view: View,
        over: Callable[[Iterable[str], Iterable[str]], Awaitable[set[str]]],
        paths: Callable[[], Awaitable[dict[str, str]]],
    ) -> None:
        """`over` tells which notes have ended, of those that are drawn on and of those that an index tells of; `paths`
        where the chunks are that do not say it themselves."""
        self._view, self._over, self._paths = view, over, paths
        self._known: set[str] | None = None
        self._has_spoken = False

    def is_plain_piece(self, frame: JsonObject) -> bool:
        """Whether it is a piece of the answer that names no source, for a caller who may see all. Most frames are."""
        is_plain = (
            frame["type"] == "answer_delta" and not self._view.is_limited and frame.keys().isdisjoint(_NAMING_SOURCES)
        )
        self._has_spoken |= is_plain
        return is_plain

    async def check(self, frame: JsonObject) -> None:
        """Check that a frame may be passed on.

        Raises:
            NotTheirs: it may not, and no part of the answer was passed on before.
            StreamBroken: it may not, and a part of the answer was passed on, which used the caller's own notes.
        """
        try:
            await self._check(frame)
        except NotTheirs:
            if self._has_spoken:
                raise StreamBroken("forbidden", _ENDED) from None
            raise
        self._has_spoken |= frame.get("type") == "answer_delta"

    async def _check(self, frame: JsonObject) -> None:
        live, is_cut = frame.pop("live", False), frame.pop("is_cut", False)
        told = {key: frame.pop(name, None) for name, key in _BESIDE.items()}
        if isinstance(chunks := frame.get("chunks"), list):
            if is_cut and self._view.is_limited:
                raise NotTheirs
            # Some platforms name no sources. Then it is not known what the next words are based on.
            if chunks:
                frame["chunks"] = placed = _place(chunks, told)
                await self._check_chunks([chunk for chunk in placed if isinstance(chunk, dict)], live)
            return
        if not (self._view.sees(path) if (path := _path_of(frame)) else self._is_known(frame)):
            raise NotTheirs

    async def _check_chunks(self, chunks: list[JsonObject], live: bool) -> None:
        paths = [_path_of(chunk) for chunk in chunks]
        if self._view.is_limited and not all(paths):
            by_id = await self._paths()
            paths = [path or by_id.get(_id_of(chunk), "") for path, chunk in zip(paths, chunks, strict=True)]
        # An index may be used if all notes that its lines name may be used.
        indexes = [(path, chunk) for path, chunk in zip(paths, chunks, strict=True) if names.is_index(path)]
        lines = [names.listed_in_index(path, line) for path, chunk in indexes for line in _text_of(chunk).split("\n")]
        listed = {one for told in lines for one in told}
        if len(listed) > _LISTED_AT_MOST or not all(map(self._view.sees, {*paths, *listed})):
            raise NotTheirs
        over = set() if live else await self._over(paths, listed)
        if over & set(paths) or any(told and told <= over for told in lines):
            raise NotTheirs
        if self._view.is_limited:
            self._known = (self._known or set()) | {
                str(chunk[key]) for chunk in chunks for key in IDS if chunk.get(key)
            }

    def _is_known(self, frame: JsonObject) -> bool:
        """Whether a frame uses sources that were named before, where that matters."""
        if not self._view.is_limited or frame.get("type") not in {"answer_delta", "citation", "done"}:
            return True
        return self._known is not None and all(str(frame[key]) in self._known for key in IDS if frame.get(key))


def _place(chunks: list[JsonObject], told: JsonObject) -> list[JsonObject]:
    """Chunks with the fields that were sent beside them, if there is one value for each chunk."""
    for key, values in told.items():
        if isinstance(values, list) and len(values) == len(chunks):
            chunks = [{key: value, **chunk} for chunk, value in zip(chunks, values, strict=True)]
    return chunks


def _path_of(part: JsonObject) -> str:
    """Empty if it cannot be read."""
    return path if isinstance(path := part.get("path"), str) else ""


def _id_of(chunk: JsonObject) -> str:
    return str(next((chunk[key] for key in IDS if chunk.get(key)), ""))


def quote_hits(found: JsonObject) -> list[JsonObject]:
    """An answer made of quotes from a search, for cases in which the platform's own answer may not be passed on."""
    hits = hits_of(found)
    answer = _QUOTES if hits else _NOTHING
    frames: list[JsonObject] = [
        {"type": "retrieve", "chunks": [_chunk_of(hit) for hit in hits]},
        {"type": "answer_delta", "delta": answer},
    ]
    for hit in hits[:_QUOTED]:
        quote = " ".join(_text_of(hit)[:_QUOTE_LENGTH].split())
        piece = f"\n\n> {quote}"
        answer += piece
        place = {"answer_start": len(answer) - len(quote), "answer_end": len(answer)}
        frames += [{"type": "answer_delta", "delta": piece}, {"type": "citation", **_ids(hit), **place, "quote": quote}]
    return [*frames, {"type": "done", "answer": answer, "method": "quotes"}]


def _chunk_of(hit: JsonObject) -> JsonObject:
    told = {"score": hit.get("score", 0.0), "preview": _text_of(hit)[:_PREVIEW_LENGTH]}
    return {**_ids(hit), **told, **{key: hit.get(key) for key in _BESIDE.values()}}


def _ids(hit: JsonObject) -> JsonObject:
    return {key: hit.get(key) or hit.get("path") for key in IDS}


def _text_of(hit: JsonObject) -> str:
    return str(hit.get("content") or hit.get("preview") or "")
