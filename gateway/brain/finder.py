"""Hits for a caller: those that they may see and that have not ended, filled up if some were left out."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final

from gateway.brain.answer_sources import IDS
from gateway.brain.visibility import View, without_totals
from gateway.operations import names, notes
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.parallel import in_parallel
from gateway.operations.steps.finding import hits_of
from gateway.operations.table import Args, JsonObject

# How many hits each chain finds at most, and how many by default.
_MOST: Final = {"search": 100, "recall": 50}
_DEFAULT_TOP_K: Final = 10
# If hits were left out, this many times as much is asked for, one after the other.
_FILL_UP: Final = (3, 10)
_UNKNOWN_SOURCES: Final = "The platform's answer draws on notes that may not be yours, so it is not passed on."


class Finder:
    """Searches and recalls, as one caller may see them."""

    def __init__(
        self,
        view: Callable[[Call], View],
        serve: Callable[[Call, str | None, str, Args], Awaitable[JsonObject]],
        run: Callable[[Call, str, Args], Awaitable[JsonObject]],
    ) -> None:
        """`serve` runs a chain on the brain that the call means, and `run` on the brain that the arguments name."""
        self._view, self._serve, self._run = view, serve, run

    async def find(self, call: Call, brain: str | None, chain: str, query: Args) -> JsonObject:
        """Hits that the caller may see and that have not ended, filled up if some were left out."""
        view, wanted = self._view(call), int(query.get("top_k") or _DEFAULT_TOP_K)
        asked: Args = {**query, **view.folders(), "own": view.own}
        for more in (*(min(wanted * times, _MOST[chain]) for times in _FILL_UP), None):
            answer = await self._serve(call, brain, chain, asked)
            key = "chunks" if chain == "recall" and "chunks" in answer else "hits"
            found, live = len(hits_of({"hits": answer.get(key)})), answer.pop("live", False)
            answer = view.without_hidden(answer)
            if not live:
                paths = [str(hit.get("path")) for hit in answer[key]]
                if names.may_be_over(paths):
                    over = {path for path in paths if names.is_index(path)}
                    over |= await self.ended(call, paths)
                    answer[key] = [hit for path, hit in zip(paths, answer[key], strict=True) if path not in over]
            kept = len(answer[key])
            # If the platform found fewer than it was asked for, it has no more.
            if kept == found or kept >= wanted or found < int(asked.get("top_k") or wanted) or more is None:
                break
            asked = {**asked, "top_k": more}
        if kept == found and not view.is_limited:
            return answer
        # Even if no hit was left out, because a total also counts hits beyond those that were asked for.
        return without_totals(answer, key, answer[key][:wanted])

    async def ended(self, call: Call, paths: Iterable[str], told_of: Iterable[str] = ()) -> set[str]:
        """Which of these notes, and of those that an index tells of, have expired, were replaced, or are gone."""
        gone = await self._gone(call, set(told_of))
        # Only notes that may have ended are read.
        mortal = [path for path in {*paths, *told_of} - gone if names.may_end(path)]
        if not mortal:
            return gone
        served_by = call.served_by
        reads = [partial(self._run, call, "read_note", {"brain": call.brain, "path": path}) for path in mortal]
        bodies = dict(zip(mortal, (answer["body"] for answer in await in_parallel(reads)), strict=True))
        call.served_by = served_by
        return gone | {path for path, body in bodies.items() if body is None or not notes.open_note(body).is_live}

    async def _gone(self, call: Call, paths: set[str]) -> set[str]:
        """Which of these notes are gone; all of them if the platform does not say which exist."""
        if not paths:
            return set()
        served_by = call.served_by
        try:
            listed = await self._run(call, "list_notes", {"brain": call.brain, "dir": "memory"})
        except GatewayError as error:
            if error.code != "not_implemented":
                raise
            return paths
        call.served_by = served_by
        there = {str(item.get("path")) for item in listed.get("items") or [] if isinstance(item, dict)}
        return {path for path in paths - there if not names.is_unlisted(path)}

    async def search_instead(self, call: Call, brain: str | None, query: Args) -> JsonObject:
        """A search, used if the platform's answer to the same question may not be passed on."""
        try:
            return await self.find(call, brain, "search", query)
        except GatewayError as error:
            raise GatewayError("forbidden", _UNKNOWN_SOURCES) if error.code == "not_implemented" else error from None

    async def paths_by_id(self, call: Call, brain: str | None, query: Args) -> dict[str, str]:
        """The paths of what a search finds, by the ids of chunks and documents."""
        try:
            answer = await self._serve(call, brain, "search", {"query": query["query"], "top_k": _MOST["search"]})
        except GatewayError:
            return {}
        return {
            str(hit[key]): str(hit["path"]) for hit in hits_of(answer) for key in IDS if key in hit and "path" in hit
        }
