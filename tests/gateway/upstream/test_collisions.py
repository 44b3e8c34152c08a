"""Two writes of one path that meet on a daemon's disk: made again, a few times, and then said to have failed."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from gateway.brain.brain import Brain
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.steps import certainty
from gateway.operations.table import Op
from gateway.upstream import retry
from gateway.upstream.credentials import Endpoint
from gateway.upstream.dialects.daemon import DAEMON
from gateway.upstream.pipeline import Upstream
from tests.daemons.fake import BRAIN, FakeDaemon, G
from tests.served import listening

PATH = "memory/global/x.md"
PUT = "PUT /v1/brains/main/documents"
PAUSES, BACKOFF = certainty.PAUSES, retry._BACKOFF


@asynccontextmanager
async def upstream_of(daemon: FakeDaemon) -> AsyncIterator[Upstream]:
    daemon.brains["main"] = {PATH: (b"before", 0.0)}
    with listening(daemon.app()) as url:

        async def endpoint() -> Endpoint:
            return Endpoint(url)

        upstream = Upstream((DAEMON,), endpoint)
        try:
            yield upstream
        finally:
            await upstream.close()


async def written(daemon: FakeDaemon) -> None:
    async with upstream_of(daemon) as upstream:
        await upstream.send(Call(), Op.WRITE_DOCUMENT, {"brain": "main", "path": PATH, "body": b"after"})


async def test_a_write_that_lost_a_race_is_made_again() -> None:
    daemon = FakeDaemon(G)
    daemon.put_collisions = 2
    await written(daemon)
    assert daemon.brains["main"][PATH][0] == b"after"
    assert daemon.requests == [PUT] * 3


async def test_a_race_that_is_always_lost_is_a_failure() -> None:
    daemon = FakeDaemon(G)
    daemon.put_collisions = 9
    with pytest.raises(GatewayError) as caught:
        await written(daemon)
    assert caught.value.code == "outcome_unknown"
    assert daemon.requests == [PUT] * 3


async def test_another_failure_of_a_write_is_not_tried_again() -> None:
    daemon = FakeDaemon(G)
    daemon.fail[f"PUT {BRAIN}/documents"] = 500
    with pytest.raises(GatewayError):
        await written(daemon)
    assert daemon.requests == [PUT]


async def test_the_same_memory_from_many_at_once_is_stored_once() -> None:
    daemon = FakeDaemon(replace(G, puts_collide=True, write_seconds=0.01))
    async with upstream_of(daemon) as upstream:
        brain = Brain(upstream)
        stored = await asyncio.gather(*(brain.remember(Call(), "main", "kingfisher", None, [], None) for _ in range(4)))
    assert len({note["path"] for note in stored}) == 1
    assert b"kingfisher" in daemon.brains["main"][stored[0]["path"]][0]


# The longer one is longer than all attempts of a request take together.
@pytest.mark.parametrize("seconds", [0.01, 0.8])
def test_gateways_in_loops_of_their_own_write_one_path_at_once(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads stand for them: nothing that belongs to one loop may reach another."""
    # Whoever loses waits for the winner, which takes its time.
    monkeypatch.setattr(certainty, "PAUSES", PAUSES)
    monkeypatch.setattr(retry, "_BACKOFF", BACKOFF)
    daemon = FakeDaemon(replace(G, puts_collide=True, write_seconds=seconds))
    daemon.brains["main"] = {}

    async def remember(url: str) -> list[str]:
        async def endpoint() -> Endpoint:
            return Endpoint(url)

        upstream = Upstream((DAEMON,), endpoint)
        brain = Brain(upstream)
        try:
            writes = (brain.remember(Call(), "main", "kingfisher", None, [], None) for _ in range(4))
            return [str(note["path"]) for note in await asyncio.gather(*writes)]
        finally:
            await upstream.close()

    with listening(daemon.app()) as url, ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda _n: asyncio.run(remember(url)), range(3)))
    assert len({path for paths in found for path in paths}) == 1
