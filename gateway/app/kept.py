"""Lists everything that is kept for one caller, in all brains that they may see."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from gateway.app.desk import Desk, principals_of
from gateway.brain.notebook import Entry
from gateway.operations.table import JsonObject

# The tree of each surface. A note in no tree was stored by `memory`, or came from elsewhere.
_TREES: Final = re.compile(r"memory/global/(kv|team|being)/|memory/project/[^/]+/(team|memo)/")
_SIGNED: Final = re.compile(r"memory/(?:global/team|project/[^/]+/(?:team|memo))/(?:.*/)?[^_/][^/]*\.md")
_OF_SESSIONS: Final = ("sessions/", "reflections/")


async def kept_for(desk: Desk, brain: str | None) -> list[JsonObject]:
    """Everything that belongs to the caller, by brain and path; in one brain alone if it is named."""
    kept: list[JsonObject] = []
    for principal in principals_of(desk):
        kept += await _kept(replace(desk, principal=principal), brain)
    # Several tokens of one person show them the same private notes.
    unique = {(one["brain"], one["path"]): one for one in kept}
    return [unique[key] for key in sorted(unique)]


async def _kept(desk: Desk, only: str | None) -> list[JsonObject]:
    """The notes of this caller, in each brain that they may see."""
    kept = []
    for item in (await desk.brain.list_brains(desk.call()))["items"]:
        slug, brain = str(item.get("slug") or item.get("id")), str(item.get("id") or item.get("slug"))
        if only is not None and only not in (slug, brain):
            continue
        here = replace(desk, named=brain)
        kept += [_told(slug, entry) for entry in await _theirs(here, await here.shelf.everything(here.call()))]
    return kept


async def _theirs(desk: Desk, entries: Sequence[Entry]) -> Iterable[Entry]:
    """Their notes among those that they see: with one tenant all, else private ones and those that name them."""
    view = desk.brain.view(desk.call())
    if not view.is_limited:
        return entries
    own = f"memory/agent/{view.own}/"
    authors = await desk.shelf.authors(desk.call(), [one.path for one in entries if _SIGNED.fullmatch(one.path)])
    return [
        one
        for one in entries
        if one.path.startswith((own, *_OF_SESSIONS)) or authors.get(one.path) == desk.principal.subject
    ]


def _told(brain: str, entry: Entry) -> JsonObject:
    return {
        "brain": brain,
        "surface": _surface(entry.path),
        "folder": entry.path.rpartition("/")[0],
        "path": entry.path,
        "bytes": entry.size,
    }


def _surface(path: str) -> str:
    if path.startswith(_OF_SESSIONS):
        return "session"
    if path.startswith("memory/agent/u-"):
        return "private"
    found = _TREES.match(path)
    return (found[1] or found[2]) if found else "memory"
