"""What a being needs to begin: who it is, and what it knows. The same notes give the same words, so prompts cache."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gateway.brain.notebook import Entry, Notebook
from gateway.mcp.bounds import RESULT_LENGTH, cut
from gateway.operations import names
from gateway.operations.caller import Call
from gateway.operations.notes import Note, understood
from gateway.operations.parallel import in_parallel
from gateway.operations.table import JsonObject
from gateway.surfaces.being import names as paths
from gateway.surfaces.being import text as text
from gateway.surfaces.being.memory import Cluster, Node, grouped, node_of

# Folder -> heading, in the order of the text.
PROMPT: Final = {
    "souls": "Soul",
    "partner_rules": "Rules",
    "preferences": "Preferences",
    "relationship": "Relationship",
    "relations": "Relations",
}
SNAPSHOT: Final = {
    "notes": "Notes",
    "knowledge": "Knowledge",
    "partner_tools": "Partner tools",
    "partner_map": "Partner map",
    "diary": "Diary",
    "party_message": "Party messages",
}
# How many entries of each section are shown, the newest ones.
PER_SECTION: Final = 20
_SECTION_LENGTH: Final = RESULT_LENGTH // (len(PROMPT) + len(SNAPSHOT))
_CAPABILITIES: Final = 50
_NAME_LENGTH: Final = 200
_DESCRIPTION_LENGTH: Final = 2_000
RECENT: Final = 5
_CLUSTERS: Final = 8
# How many nodes are read at most, because dead ones are left out.
_LOOKED_THROUGH: Final = 100
_GUIDANCE: Final = {"system_prompt": "stable", "snapshot": "semi-stable"}

Section = tuple[list[tuple[str, Note]], int]
"""Entries, and how many were left out."""


class Context:
    """The beginning of a session."""

    def __init__(self, notes: Notebook, model: str) -> None:
        self._notes, self._model = notes, model

    async def told(self, call: Call) -> JsonObject:
        entries = await self._notes.entries(call, paths.TREE)
        sections = await self._sections(call, entries)
        souls, _left_out = sections["souls"]
        being = await self._notes.brain(call)
        return {
            "system_prompt": text.sections({PROMPT[name]: sections[name] for name in PROMPT}),
            "snapshot": text.sections({SNAPSHOT[name]: sections[name] for name in SNAPSHOT}),
            "metadata": {
                "being_id": names.brain_uuid(being.id),
                "brain_id": being.id,
                "soul_name": soul_name(souls) or being.slug,
                "model_recommendation": self._model,
                "cache_guidance": _GUIDANCE,
            },
            "capability_tools": await self._capabilities(call, entries),
            "recent_nodes": [text.scene_line(node) for node in await self._recent(call, entries)],
        }

    async def _sections(self, call: Call, entries: Sequence[Entry]) -> Mapping[str, Section]:
        of = {name: [e for e in entries if e.path.startswith(f"{paths.TREE}/{name}/")] for name in (*PROMPT, *SNAPSHOT)}
        chosen = [entry.path for found in of.values() for entry in found[:PER_SECTION]]
        read = dict(await self._notes.read_all(call, chosen))
        return {
            name: fitting([(e.path, read[e.path]) for e in found[:PER_SECTION] if e.path in read], len(found))
            for name, found in of.items()
        }

    async def _capabilities(self, call: Call, entries: Sequence[Entry]) -> list[JsonObject]:
        """What bridges can do for the being, in the order of their names: one note for each."""
        listed = [entry.path for entry in entries if entry.path.startswith(f"{paths.CAPABILITIES}/")]
        read = await self._notes.read_all(call, sorted(listed)[:_CAPABILITIES])
        return sorted((capability_of(path, note) for path, note in read), key=lambda found: str(found["name"]))

    async def _recent(self, call: Call, entries: Sequence[Entry]) -> list[Node]:
        """The nodes that came or were recalled last."""
        clusters = grouped(entry for entry in entries if entry.path.startswith(f"{paths.NODES}/"))[:_CLUSTERS]
        hits = await in_parallel([self._hits(call, cluster) for cluster in clusters])
        recalled = {path: at for found in hits for path, at in found.items()}
        active = [
            Entry(entry.path, entry.size, max(entry.changed, recalled.get(entry.path, 0)))
            for cluster in clusters
            for entry in cluster.nodes
        ]
        active.sort(key=lambda entry: (entry.changed, entry.path), reverse=True)
        return await self._notes.newest(call, active[:_LOOKED_THROUGH], RECENT, _live)

    def _hits(self, call: Call, cluster: Cluster) -> Callable[[], Awaitable[dict[str, int]]]:
        async def hits() -> dict[str, int]:
            folder = f"{paths.NODES}/{cluster.id}"
            found = await self._notes.entries(call, f"{folder}/_hits", ending=".txt")
            return {f"{folder}/{paths.stem_of(entry.path)}.md": entry.changed for entry in found}

        return hits


def fitting(newest: Sequence[tuple[str, Note]], listed: int) -> Section:
    """The newest entries that fit into a section, in order; one that would fill it by itself is cut."""
    kept, room = list[tuple[str, Note]](), _SECTION_LENGTH
    for path, note in newest:
        if kept and len(note.content) > room:
            break
        kept.append((path, replace(note, content=cut(note.content, room))))
        room -= len(note.content)
    left_out = len(newest) - len(kept) + max(listed - PER_SECTION, 0)
    return in_order(kept), left_out


def in_order(entries: Iterable[tuple[str, Note]]) -> list[tuple[str, Note]]:
    """In the order of their creation, so that a new one comes last and an old one keeps its place."""
    return sorted(entries, key=lambda entry: (entry[1].created or "", entry[0]))


def soul_name(souls: Sequence[tuple[str, Note]]) -> str | None:
    """The name of the first soul: its key, else its first words."""
    for path, note in souls:
        key = paths.key_of(path, note) if note.text("key") else None
        if name := key or (names.title_of(note.content) if note.content.strip() else None):
            return name
    return None


def capability_of(path: str, note: Note) -> JsonObject:
    """A capability from its note: from the front matter, else from the file's name and the text."""
    note = understood(note, lambda own: own.title is not None)
    name, description = note.title or paths.name_of(path), note.text("description") or note.content
    return {
        "name": paths.printable(name[:_NAME_LENGTH]),
        "description": paths.printable(description[:_DESCRIPTION_LENGTH]),
    }


def _live(entry: Entry, note: Note) -> Node | None:
    node = node_of(entry.path, note)
    return None if node.dead else node
