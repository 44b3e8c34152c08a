"""A patrol that is cut off at any point and run again: the same nodes, the same history, nothing twice."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.brain.brain import Brain
from gateway.brain.notebook import Notebook
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.table import Args, JsonObject
from gateway.surfaces.being.memory import scene_id
from gateway.surfaces.being.patrol import Patrol
from gateway.surfaces.being.scenes import Scenes
from gateway.surfaces.being.schema import Message, Scene
from gateway.upstream.credentials import Endpoint
from gateway.upstream.dialects.daemon import DAEMON
from gateway.upstream.pipeline import Upstream
from tests.daemons.fake import FakeDaemon, T
from tests.served import listening

WRITES = frozenset({"keep_note", "append_to_note", "move_note", "remove_note"})
SAID = [Message(role="user", content="Hello"), Message(role="assistant", content="Hi")]
SCENES = [
    Scene(action=f"Rin baked loaf {n}", actors=["Rin"], when=["2026-04-14"], themes=["bread" if n % 2 else "rain"])
    for n in range(3)
]
TIMES = re.compile(rb"(created|modified): '[^']*'|\"at\": \"[^\"]*\"")


class Cutting(Brain):
    """Fails at the write that is told, before it is made or after, and at every one that follows."""

    writes_left: int | None = None
    makes_the_last = False

    async def note(self, call: Call, operation: str, args: Args, *, stored: str | bytes = "") -> JsonObject:
        if operation not in WRITES:
            return await super().note(call, operation, args, stored=stored)
        self._write_made()
        answer = await super().note(call, operation, args, stored=stored)
        if self.writes_left == 0 and self.makes_the_last:
            raise GatewayError("upstream_unavailable")
        return answer

    async def store_transcript(self, *args: Any, **named: Any) -> JsonObject:
        self._write_made()
        return await super().store_transcript(*args, **named)

    def _write_made(self) -> None:
        if self.writes_left is None:
            return
        if self.writes_left == 0:
            raise GatewayError("upstream_unavailable")
        self.writes_left -= 1


@asynccontextmanager
async def told() -> AsyncIterator[tuple[FakeDaemon, Cutting]]:
    """A brain with scenes that no patrol has seen."""
    daemon = FakeDaemon(T)
    daemon.brains["b"] = {}
    with listening(daemon.app()) as url:

        async def endpoint() -> Endpoint:
            return Endpoint(url)

        upstream = Upstream((DAEMON,), endpoint)
        try:
            brain = Cutting(upstream, default="b")
            await Scenes(Notebook(brain)).record(Call(), {scene_id(scene): scene for scene in SCENES})
            yield daemon, brain
            await brain.close(10)
        finally:
            await upstream.close()


def kept(daemon: FakeDaemon) -> dict[str, bytes]:
    """What is in the brain, but for when it came there."""
    return {path: TIMES.sub(b"", body) for path, (body, _) in daemon.brains["b"].items() if "/being/" in path}


async def patrol(brain: Brain) -> JsonObject:
    return await Patrol(brain, Notebook(brain)).run(Call(), SAID)


@pytest.mark.slow
async def test_a_patrol_that_is_cut_off_anywhere_and_run_again_is_the_same_patrol() -> None:
    async with told() as (daemon, brain):
        brain.writes_left = 1000
        whole = await patrol(brain)
        writes = 1000 - brain.writes_left
        expected = kept(daemon)
        assert (whole["scenes_created"], whole["nodes_created"]) == (1, 4)
        brain.writes_left = None
        again = await patrol(brain)
        assert (again, kept(daemon)) == ({**whole, "scenes_created": 0, "nodes_created": 0}, expected)
    assert writes >= 10
    async with told() as (daemon, brain):
        before = dict(daemon.brains["b"])
        for cut in range(writes):
            for makes_the_last in (False, True):
                daemon.brains["b"] = dict(before)
                brain.writes_left, brain.makes_the_last = cut, makes_the_last and cut > 0
                with pytest.raises(GatewayError):
                    await patrol(brain)
                brain.writes_left = None
                done = await patrol(brain)
                assert done["marker_id"] == whole["marker_id"]
                assert kept(daemon) == expected, f"cut after {cut} writes"


async def test_two_patrols_at_once_make_the_same_nodes() -> None:
    import asyncio

    async with told() as (daemon, brain):
        alone = dict(daemon.brains["b"])
        await patrol(brain)
        expected = kept(daemon)
        daemon.brains["b"] = alone
        await asyncio.gather(patrol(brain), patrol(brain))
        both = kept(daemon)
        assert {path for path in both if "/history/" not in path} == {p for p in expected if "/history/" not in p}
