"""The notes of a brain for a person: the newest, or the best hits, filtered by surface, scope, time and tag."""

import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.brain.brain import Brain
from gateway.brain.notebook import Entry
from gateway.brain.shelf import Document, Shelf
from gateway.operations import names, notes
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.parallel import in_parallel
from gateway.operations.table import JsonObject
from gateway.surfaces.catalog import SURFACES

PAGE_LENGTH: Final = 30
_HITS: Final = 50
# How many notes are read at most to find those with a tag, the newest first.
_READ_FOR_TAGS: Final = 500
# A longer note is listed only by its name, because it would be read just for its first words.
_READ_BYTES: Final = 256 * 1024
_BEGINNING: Final = 240
_LINK: Final = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_MARKS: Final = re.compile(r"[*`~]+")
_BLOCK_MARKS: Final = re.compile(r"\|[-|:]*|^ *(?:#{1,6}|[-+>]) ", re.MULTILINE)
_TREE: Final = re.compile(r"memory/(?:global|project/[^/]+|agent/[^/]+)/([a-z]+)/")
_SCOPE: Final = re.compile(r"memory/(global|project|agent)/")

SCOPES: Final = {"global": "For everybody", "project": "Of a project", "agent": "Private", "other": "Elsewhere"}
TIMES: Final = {"1": "Last day", "7": "Last week", "30": "Last month", "365": "Last year"}


@dataclass(frozen=True, slots=True)
class Filters:
    """What a person looks for. An empty field filters nothing."""

    query: str = ""
    surface: str = ""
    tag: str = ""
    scope: str = ""
    days: str = ""

    @property
    def are_set(self) -> bool:
        return any((self.query, self.surface, self.tag, self.scope, self.days))

    def take(self, entry: Entry) -> bool:
        """Whether a note fits, as far as its name and its time say."""
        since = (time.time() - int(self.days) * 86400) * 1000 if self.days in TIMES else 0
        return (
            self.surface in ("", surface_of(entry.path))
            and self.scope in ("", scope_of(entry.path))
            and (not since or entry.changed >= since)
        )


@dataclass(frozen=True, slots=True)
class Card:
    """One note in a list."""

    path: str
    title: str
    beginning: str
    tags: Sequence[str]
    changed: int
    surface: str
    scope: str


@dataclass(frozen=True, slots=True)
class Found:
    """A part of the notes that fit, and how many fit in all."""

    cards: Sequence[Card]
    total: int | None = None
    """None if only the best hits were looked for."""
    has_more: bool = False
    was_cut: bool = False
    """Whether more notes may fit that were not looked at."""


def surface_of(path: str) -> str:
    """The surface whose tree a note is in; `memory` for notes that are in no tree."""
    found = _TREE.match(path)
    return found[1] if found and found[1] in SURFACES else "memory"


def scope_of(path: str) -> str:
    found = _SCOPE.match(path)
    return found[1] if found else "other"


class Catalogue:
    """The notes of the brain that a call means."""

    def __init__(self, brain: Brain) -> None:
        self._brain, self._shelf = brain, Shelf(brain)

    async def find(self, call: Call, filters: Filters, offset: int) -> Found:
        return await (self._search(call, filters) if filters.query else self._list(call, filters, offset))

    async def _list(self, call: Call, filters: Filters, offset: int) -> Found:
        entries = [entry for entry in await self._shelf.entries(call) if filters.take(entry)]
        if filters.tag:
            read = await self._cards(call, entries[:_READ_FOR_TAGS])
            tagged = [card for card in read if filters.tag in card.tags]
            shown = tagged[offset : offset + PAGE_LENGTH]
            more = len(tagged) > offset + PAGE_LENGTH
            return Found(shown, len(tagged), more, was_cut=len(entries) > _READ_FOR_TAGS)
        cards = await self._cards(call, entries[offset : offset + PAGE_LENGTH])
        return Found(cards, len(entries), len(entries) > offset + PAGE_LENGTH)

    async def _search(self, call: Call, filters: Filters) -> Found:
        scope = filters.scope if filters.scope in {"global", "project", "agent"} else None
        query = {"query": filters.query, "top_k": _HITS, "scope": scope or "all", "sort": None}
        hits = (await self._brain.search(call, None, query)).get("hits") or []
        changed = await self._changed(call) if filters.days else {}
        best: dict[str, Card] = {}
        for card in map(_card_of_hit, (hit for hit in hits if isinstance(hit, dict))):
            if card.path and filters.take(Entry(card.path, 0, changed.get(card.path, card.changed))):
                best.setdefault(card.path, card)
        found = list(best.values())
        return Found(await self._tagged(call, found, filters.tag), was_cut=len(hits) >= _HITS)

    async def _tagged(self, call: Call, cards: list[Card], tag: str) -> list[Card]:
        """Those with this tag. A hit does not have the tags that are only in the text of its note, so that is read."""
        if not tag:
            return cards
        entries = [Entry(card.path, 0, card.changed) for card in cards if tag not in card.tags]
        read = {card.path: card for card in await self._cards(call, entries)}
        known = [replace(card, tags=read[card.path].tags) if card.path in read else card for card in cards]
        return [card for card in known if tag in card.tags]

    async def _changed(self, call: Call) -> Mapping[str, int]:
        """When each note was changed, if the platform lists notes, because hits do not say it on every platform."""
        try:
            return {entry.path: entry.changed for entry in await self._shelf.entries(call)}
        except GatewayError as error:
            if error.code != "not_implemented":
                raise
            return {}

    async def _cards(self, call: Call, entries: Iterable[Entry]) -> list[Card]:
        """The notes that still exist, with their texts."""
        made = await in_parallel([self._reading(call, entry) for entry in entries])
        return [card for card in made if card is not None]

    def _reading(self, call: Call, entry: Entry) -> Callable[[], Awaitable[Card | None]]:
        async def read() -> Card | None:
            if entry.size > _READ_BYTES:
                return _card(entry.path, entry.name, "", (), entry.changed)
            try:
                document = await self._shelf.read(call, entry.path)
            except GatewayError as error:
                if error.code != "not_found":
                    raise
                return None
            if is_over(document):
                return None
            return _card(entry.path, document.title, text_of(document), document.tags, entry.changed)

        return read


def is_over(document: Document) -> bool:
    """Whether a note has expired, or another has taken its place: no tool shows it any more."""
    return names.may_end(names.fold_path(document.path)) and not document.note.is_live


def text_of(document: Document) -> str:
    """The text of a note, without front matter."""
    return notes.parse(document.body).content


def without_marks(text: str) -> str:
    """Markdown as plain words, for a place with room for a line or two."""
    return _BLOCK_MARKS.sub(" ", _MARKS.sub("", _LINK.sub(r"\1", text)))


def without_title(text: str, title: str) -> str:
    """A text that does not begin with its title again."""
    first, _, rest = text.lstrip().partition("\n")
    return rest.lstrip("\r\n") if first.startswith("# ") and first[2:].strip() == title.strip() else text


def _card(path: str, title: str, text: str, tags: Sequence[str], changed: int) -> Card:
    said = notes.described(without_marks(text[: 4 * _BEGINNING]), title) if text else ""
    return Card(path, title, "" if said == title else said, tags, changed, surface_of(path), scope_of(path))


def _card_of_hit(hit: JsonObject) -> Card:
    path, content = str(hit.get("path") or "").removeprefix("/"), str(hit.get("content") or "")
    note = notes.parse(content.encode())
    title = str(hit.get("title") or note.title or names.title_of(note.content) or path)
    metadata = hit.get("metadata")
    joined = metadata.get("tags") if isinstance(metadata, dict) else None
    tags = note.tag_list or [tag for tag in str(joined or "").split(",") if tag]
    return _card(path, title, note.content, tags, notes.milliseconds(str(hit.get("updated_at"))) or 0)
