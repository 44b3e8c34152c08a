"""Replicas behind nginx, with Redis: they are killed and restarted one after the other while clients write.

Two gateways of two workers each, nginx with the files of `deploy/nginx/`, a Redis, and one platform. Only one process
or one gateway is down at a time, as with a disruption budget or a careful operator.
"""

import asyncio
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from redis import Redis

from tests.canaries.processes import START_SECONDS, Process, running
from tests.daemons.real import free_port
from tests.faults.proof.part import Part
from tests.gateway.test_processes import children_of
from tests.peers.test_redis import redis_server
from tests.peers.test_rollout import proxied
from tests.replicas.load import Told, differences, load, until_written, with_token

_SECONDS: Final = 300
_WORKERS: Final = 2
_UPSTREAM_TOKEN: Final = "upstream-token"
# Many clients at once, each with pauses, because the speed of the machine is not what is tested.
_CLIENTS: Final = 16
_PAUSE_SECONDS: Final = 0.1
# If no call has met any of it, so much is killed and restarted before this counts as a failure.
_MOST_UNMET: Final = 12
_KINDS: Final = ("a worker killed", "a gateway killed", "all gateways restarted in turn")
_NOTES: Final = [
    "A call failed twice if it was sent again more often than it met a kill or a restart. One that waits up to ten "
    "seconds for its session, because a gateway was killed that wrote to it, may meet the next kill as well. A client "
    "sends again after 0.05 to 0.2 s. It opens a connection for each call.",
    "Each kill comes after a random number of writes, once everything runs again. Restarts are by SIGTERM, and the "
    "next gateway follows once the one before it listens.",
]


@dataclass
class _World:
    url: str
    token: str
    gateways: list[Process]
    platform: Path
    redis: Redis


def run(full: bool) -> Part:
    """Kill and restart under load, for five minutes; in the small size, once in each way."""
    started = time.monotonic()
    seconds = _SECONDS if full else 0
    with tempfile.TemporaryDirectory() as folder, _world(Path(folder)) as world:
        told, met = asyncio.run(_disturbed(world, seconds))
        wrong = differences(world.platform, told)
        counted = world.redis.info("commandstats")["cmdstat_evalsha"]["calls"]
    again = sum(count for sends, count in told.sent.items() if sends == 2)
    unlucky = sum(count for sends, count in told.sent.items() if sends > 2) - told.failed_twice
    failures = [f"{word}: {there}" for word, there in wrong.items()] + [str(error) for error in told.final]
    failures += [f"{told.failed_twice} calls failed twice: {dict(told.errors)}"] if told.failed_twice else []
    failures += [] if again else ["no call met a kill or a restart"]
    failures += [f"{kind}: never" for kind in _KINDS if not met[kind]]
    # If Redis is slow for a moment, a gateway counts some calls itself, so only half of all calls are required.
    failures += [f"Redis was asked {counted} times only"] if counted < told.sent.total() / 2 else []
    doubled = sum(isinstance(there, int) and there > 1 for there in wrong.values())
    messages = sum(map(len, told.messages.values()))
    figures = (told.sent.total(), len(told.marks) + messages, messages, again, unlucky, told.failed_twice, doubled)
    return Part(
        title="Rolling restarts and kills behind nginx",
        claim=(
            f"{len(world.gateways)} gateways of {_WORKERS} workers behind nginx, with Redis: no write is lost or "
            "doubled, and no call fails that is sent once more."
        ),
        headers=(
            *_KINDS,
            "calls",
            "writes",
            "messages among them",
            "sent again once",
            "met two kills",
            "failed twice",
            "doubled",
            "lost or out of order",
        ),
        rows=[tuple(f"{n:,}" for n in (*(met[kind] for kind in _KINDS), *figures, len(wrong) - doubled))],
        failures=failures,
        seconds=time.monotonic() - started,
        notes=_NOTES,
    )


async def _disturbed(world: _World, seconds: float) -> tuple[Told, Counter[str]]:
    """Disturb the gateways again and again under load. Returns what clients were told, and how often each kind came."""
    chance, met, ends = random.Random(), Counter[str](), time.monotonic() + seconds
    async with load(world.url, world.token, _CLIENTS, _PAUSE_SECONDS, verify=False) as told:
        # On a busy machine, few calls are under way when something is killed.
        while time.monotonic() < ends or len(met) < len(_KINDS) or (not told.errors and met.total() < _MOST_UNMET):
            await until_written(told, chance.randint(1, 20))
            # First each kind once, then by chance.
            kind = chance.choice(_KINDS) if len(met) == len(_KINDS) else _KINDS[len(met)]
            await _disturb(kind, world.gateways, chance, told)
            met[kind] += 1
        await until_written(told, 20)
    return told, met


async def _disturb(kind: str, gateways: list[Process], chance: random.Random, told: Told) -> None:
    """Disturb once, and wait until everything runs again."""
    match kind:
        case "a worker killed":
            with told.disturbed():
                await _kill_worker(chance.choice(gateways), chance)
        case "a gateway killed":
            with told.disturbed():
                await _kill(chance.choice(gateways))
        case _:
            for gateway in gateways:
                with told.disturbed():
                    await asyncio.to_thread(gateway.end)
                    await _start(gateway)


async def _kill_worker(gateway: Process, chance: random.Random) -> None:
    assert gateway.process is not None
    before = gateway.said().count("worker.started")
    os.kill(chance.choice(sorted(children_of(gateway.process.pid))), signal.SIGKILL)
    await _until_started(gateway, before + 1)


async def _kill(gateway: Process) -> None:
    """Kill all processes of a gateway at once, as if its machine were gone."""
    assert gateway.process is not None
    workers = children_of(gateway.process.pid)
    os.kill(gateway.process.pid, signal.SIGSTOP)
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    await asyncio.to_thread(gateway.kill)
    await _start(gateway)


async def _start(gateway: Process) -> None:
    before = gateway.said().count("worker.started")
    gateway.start()
    await _until_started(gateway, before + _WORKERS)


async def _until_started(gateway: Process, workers: int) -> None:
    assert gateway.process is not None
    ends = time.monotonic() + START_SECONDS
    while gateway.said().count("worker.started") < workers:
        if gateway.process.poll() is not None or time.monotonic() > ends:
            raise RuntimeError(f"a gateway did not start: {gateway.said()[-2000:]}")
        await asyncio.sleep(0.02)
    await asyncio.to_thread(gateway.wait)


@contextmanager
def _world(folder: Path) -> Iterator[_World]:
    (folder / "nginx").mkdir()
    platform = Process(
        {"BRAINS_LOG_LEVEL": "error"},
        folder / "platform.txt",
        command="platform",
        arguments=("--token", _UPSTREAM_TOKEN, "--data-dir", str(folder / "platform")),
    )
    token = with_token(folder / "tokens.json", "writer")
    with redis_server(free_port(), folder) as redis_url, Redis.from_url(redis_url) as redis:
        settings = {
            "BRAINS_UPSTREAM_URL": platform.url,
            "BRAINS_UPSTREAM_TOKEN": _UPSTREAM_TOKEN,
            "BRAINS_AUTH": "tokens",
            "BRAINS_SINGLE_TENANT": "true",
            "BRAINS_TOKENS_FILE": str(folder / "tokens.json"),
            "BRAINS_DATA_DIR": str(folder / "data"),
            "BRAINS_ALLOWED_HOSTS": "localhost",
            "BRAINS_CALLS_PER_SECOND": "10000",
            "BRAINS_REDIS_URL": redis_url,
        }
        gateways = [
            Process(settings, folder / f"gateway-{n}.txt", arguments=("--workers", str(_WORKERS))) for n in range(2)
        ]
        with running(platform, *gateways):
            replicas = [gateway.url.removeprefix("http://") for gateway in gateways]
            with proxied(folder / "nginx", replicas, rate=10_000) as url:
                yield _World(url, token, gateways, folder / "platform", redis)
