"""Scenes that wait for a patrol, and notes that stay as they are."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from gateway.brain.notebook import Entry, Notebook, draft_note
from gateway.operations import names
from gateway.operations.caller import Call
from gateway.operations.notes import Change, Draft, Note
from gateway.operations.parallel import in_parallel
from gateway.surfaces.being import names as paths
from gateway.surfaces.being.memory import fields_of
from gateway.surfaces.being.schema import Scene


class Scenes:
    """The scenes of a brain that no patrol has seen yet, and its notes."""

    def __init__(self, notes: Notebook) -> None:
        self._notes = notes

    async def waiting(self, call: Call) -> list[Entry]:
        return await self._notes.entries(call, paths.SCENES)

    async def record(self, call: Call, scenes: Mapping[str, Scene]) -> int:
        """Keep scenes by their ids, so that none is kept twice. Returns how many are new."""
        return sum(await in_parallel([self._recording(call, one, scene) for one, scene in scenes.items()]))

    async def jot(self, call: Call, notes: Sequence[str]) -> list[str]:
        return await in_parallel([self._jotting(call, note) for note in notes])

    async def forget(self, call: Call, ids: Sequence[str]) -> dict[str, bool]:
        """Remove scenes, and return for each whether it existed."""
        done = await in_parallel([self._forgetting(call, one) for one in ids])
        return dict(zip(ids, done, strict=True))

    def _recording(self, call: Call, one: str, scene: Scene) -> Callable[[], Awaitable[bool]]:
        async def recorded() -> bool:
            # If a scene has become a node, a repeated call does not add it again.
            if await self._notes.read(call, paths.node_path(paths.cluster_of(scene.themes or ()), one)) is not None:
                return False
            return (await self._notes.keep(call, scene_path(one), recording(scene), stored=scene.action))[1]

        return recorded

    def _jotting(self, call: Call, note: str) -> Callable[[], Awaitable[str]]:
        async def jotted() -> str:
            found = note_id(note)
            await self._notes.keep(call, f"{paths.NOTES}/{found}.md", jotting(note), stored=note)
            return found

        return jotted

    def _forgetting(self, call: Call, one: str) -> Callable[[], Awaitable[bool]]:
        async def forgotten() -> bool:
            path = scene_path(one)
            return names.is_word(one) and await self._notes.move(call, path, paths.aside(path, "_deleted"))

        return forgotten


def scene_path(found: str) -> str:
    return f"{paths.SCENES}/{found}.md"


def note_id(note: str) -> str:
    """The same as for an entry of `update_memory` without a key: those are notes too."""
    return paths.derived_id("entry", "notes", note, None, None)


def recording(scene: Scene) -> Change:
    def change(before: Note | None) -> Draft | None:
        return None if before is not None else draft_note(names.title_of(scene.action), scene.action, fields_of(scene))

    return change


def jotting(note: str) -> Change:
    def change(before: Note | None) -> Draft | None:
        fields = {"digest": names.checksum(note.strip()), "target": "notes"}
        return None if before is not None else draft_note(names.title_of(note), note, fields)

    return change
