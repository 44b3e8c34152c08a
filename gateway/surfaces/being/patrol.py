"""The patrol: messages become scenes, scenes become nodes, dead nodes come back, and the platform tidies up.

It continues where an earlier one broke off: names are derived, and a scene stays until its node exists.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import structlog

from gateway.brain.brain import Brain
from gateway.brain.notebook import Notebook, draft_note
from gateway.operations import names, scopes
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.notes import Change, Draft, Note
from gateway.operations.parallel import in_parallel
from gateway.operations.table import JsonObject
from gateway.surfaces.being import names as paths
from gateway.surfaces.being.exchanges import MOST_SCENES, Exchange, exchanges_of, messages_of, scene_of, scenes_in
from gateway.surfaces.being.history import Fresh, History
from gateway.surfaces.being.memory import node_of
from gateway.surfaces.being.nodes import Nodes, living
from gateway.surfaces.being.scenes import Scenes
from gateway.surfaces.being.schema import Message, Scene

log = structlog.get_logger()

# How many scenes become nodes in one patrol; the others follow in the next.
MOST: Final = 200
# With these codes, a platform would refuse the same messages again.
_REFUSED: Final = frozenset({"not_implemented", "validation_error", "payload_too_large", "conflict", "forbidden"})


class Patrol:
    """One run after another over a brain."""

    def __init__(self, brain: Brain, notes: Notebook) -> None:
        self._brain, self._notes = brain, notes
        self._scenes, self._nodes, self._history = Scenes(notes), Nodes(notes), History(notes)

    async def run(self, call: Call, messages: Sequence[Message] = (), marker: str | None = None) -> JsonObject:
        fresh = await self._history.fresh(call, messages, marker)
        # Before the messages are kept, because then they count as seen.
        await self._extract(call, fresh)
        exchanges = exchanges_of(fresh.said)
        scenes = await self._scenes.record(call, await self._scenes_of(call, exchanges[-MOST_SCENES:]))
        await self._history.keep(call, fresh)
        created, left = await self._settle(call)
        revived = await self._nodes.revive(call)
        await self._consolidate(call)
        more = {"scenes_left": left, "exchanges_left_out": len(exchanges[:-MOST_SCENES]), "nodes_revived": revived}
        done = {"status": "ok", "scenes_created": scenes, "nodes_created": created, "marker_id": fresh.marker}
        return {**done, **{name: count for name, count in more.items() if count}}

    async def _extract(self, call: Call, fresh: Fresh) -> None:
        """Let the platform extract memories from the messages, if it can."""
        said = [{"role": one.role, "content": one.content.replace("\0", "")} for one in fresh.said]
        if not said:
            return
        try:
            await self._brain.store_transcript(call, None, said, None)
        except GatewayError as error:
            if error.code not in _REFUSED:
                raise
            log.info("patrol.skipped", step="extract", code=error.code)

    async def _scenes_of(self, call: Call, exchanges: Sequence[Exchange]) -> dict[str, Scene]:
        """The scenes of the messages, by their ids: from the platform's model, or one for each exchange."""
        told = await self._notes.derive(call, "scenes", messages=messages_of(exchanges)) if exchanges else []
        # An empty list of a model means that it found no scene.
        if told and told[0].get("scenes") == []:
            return {}
        return (told and scenes_in(told[0], exchanges)) or dict(map(scene_of, exchanges))

    async def _settle(self, call: Call) -> tuple[int, int]:
        """Make nodes from scenes, the oldest first. Returns how many are new, and how many scenes are left."""
        waiting = (await self._scenes.waiting(call))[::-1]
        told = await self._notes.read_all(call, (entry.path for entry in waiting[:MOST]))
        made = await in_parallel([self._making(call, path, scene) for path, scene in told])
        clusters = sorted({paths.cluster_of(node_of(path, scene).themes) for path, scene in told})
        digested = [await self._nodes.digest(call, cluster) for cluster in clusters]
        # A cluster with one living node needs no digest of a model.
        if several := [(cluster, nodes) for cluster, nodes in digested if len(living(nodes)) > 1]:
            self._notes.later(call, "digests", partial(self._nodes.tell_digests, digested=several))
        # The scene is moved last: as long as it is there, the next patrol can finish what this one could not.
        await in_parallel([self._putting_away(call, path) for path, _scene in told])
        return sum(made), len(waiting[MOST:])

    def _making(self, call: Call, path: str, scene: Note) -> Callable[[], Awaitable[bool]]:
        node = node_of(path, scene)
        # A scene that a person wrote has any name.
        node_id = node.id if names.is_uuid(node.id) else paths.derived_id("scene", node.id)
        there = paths.node_path(paths.cluster_of(node.themes), node_id)

        async def made() -> bool:
            return (await self._notes.keep(call, there, settling(scene)))[1]

        return made

    def _putting_away(self, call: Call, path: str) -> Callable[[], Awaitable[bool]]:
        return lambda: self._notes.move(call, path, paths.aside(path, "_done"))

    async def _consolidate(self, call: Call) -> None:
        """Let the platform tidy up, if it can and the caller may. If this fails, the patrol does not fail."""
        if scopes.ADMIN not in call.caller.principal.scopes:
            return
        try:
            await self._brain.consolidate(replace(call, scope=scopes.ADMIN), None)
        except GatewayError as error:
            log.info("patrol.skipped", step="consolidate", code=error.code)


def settling(scene: Note) -> Change:
    """A node from a scene, with all fields that others added to it. A node that exists stays as it is."""

    def change(before: Note | None) -> Draft | None:
        if before is not None:
            return None
        fields = {"digest": scene.text("digest") or names.checksum(scene.content)}
        return draft_note(scene.title or names.title_of(scene.content), scene.content, fields, scene)

    return change
