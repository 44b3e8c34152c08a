"""Limits that all replicas share, in a real Redis: they add up, and each replica goes on alone without it."""

import asyncio
import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from redis import Redis
from redis.exceptions import RedisError
from structlog.testing import capture_logs

from gateway.app import redis_limits
from gateway.app.redis_limits import RedisLimits
from gateway.brain.limits import Allowance, Bucket, LimitReached, Limits
from tests.canaries.processes import Process, running
from tests.daemons.real import free_port
from tests.gateway.cli.running import run
from tests.gateway.http.auth.tokens import kept
from tests.replicas.holding import happened, say, two_gateways
from tests.served import raw_call, serving

pytestmark = pytest.mark.needs_command("redis-server")


@contextmanager
def redis_server(port: int, folder: Path) -> Iterator[str]:
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            with Redis(port=port) as client:
                ends = time.monotonic() + 20
                while not _answers(client) and time.monotonic() < ends:
                    pass
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()


def _answers(client: Redis) -> bool:
    try:
        return bool(client.ping())
    except RedisError:
        return False


async def test_a_shared_bucket_holds_as_much_as_one_of_ours(tmp_path: Path) -> None:
    with redis_server(free_port(), tmp_path) as url:
        first, second = RedisLimits(url), RedisLimits(url)
        try:
            ours = Bucket(0.001, 10, 0)
            for n in range(12):
                theirs = await (first, second)[n % 2].take("calls:ann", 0.001, 10, 1)
                assert theirs is not None
                assert theirs == pytest.approx(ours.take(1, 0), abs=1)
            # Somebody else has a bucket of their own.
            assert await first.take("calls:ben", 0.001, 10, 1) == 0
            # More than it ever holds is let through once, and then paid for.
            assert await first.take("bytes:ann", 100, 1000, 60_000) == 0
            assert await second.take("bytes:ann", 100, 1000, 1) == pytest.approx(590.01, abs=1)
        finally:
            await first.close()
            await second.close()


async def test_without_redis_nobody_says_and_that_is_told_once_and_it_is_used_again(tmp_path: Path) -> None:
    port, now = free_port(), 0.0
    buckets = RedisLimits(f"redis://127.0.0.1:{port}/0", lambda: now)
    try:
        with capture_logs() as lines:
            for _ in range(3):
                assert await buckets.take("calls:ann", 1, 2, 1) is None
                now += 6
            with redis_server(port, tmp_path):
                assert await buckets.take("calls:ann", 1, 2, 1) == 0
        assert [line["event"] for line in lines] == ["limits.local", "limits.shared"]
    finally:
        await buckets.close()


@pytest.mark.usefixtures("patient")
async def test_after_a_restart_of_redis_limits_hold_for_all_at_once(tmp_path: Path) -> None:
    """All idle connections are closed then, not only the one that is used first."""
    port = free_port()
    buckets = RedisLimits(f"redis://127.0.0.1:{port}/0")

    async def taken() -> list[float | None]:
        return await asyncio.gather(*(buckets.take(f"calls:{n}", 1, 2, 1) for n in range(5)))

    try:
        with capture_logs() as lines:
            for _ in range(2):
                with redis_server(port, tmp_path):
                    assert await taken() == [0] * 5
        assert lines == []
    finally:
        await buckets.close()


def test_doctor_says_whether_limits_hold_for_all_replicas(tmp_path: Path) -> None:
    def told(url: str) -> tuple[int, list[str]]:
        done = run(tmp_path, "doctor", "--json", BRAINS_REDIS_URL=url, BRAINS_SURFACES="memory")
        return done.returncode, [problem["message"] for problem in json.loads(done.stdout)["problems"]]

    port = free_port()
    with redis_server(port, tmp_path) as url:
        assert told(url) == (0, [])
        code, (said,) = told(f"redis://127.0.0.1:{port}/77")
        assert code == 1
        assert said.startswith("Redis does not serve (ResponseError: DB index is out of range)")
    code, (said,) = told(url)
    assert code == 1
    assert said.startswith("Redis does not serve (ConnectionError: ")
    done = run(tmp_path, "doctor", BRAINS_REDIS_URL="redis://127.0.0.1:no")
    assert done.returncode == 2
    assert done.stderr == "brains-gateway: BRAINS_REDIS_URL must be an address such as redis://127.0.0.1:6379/0.\n"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis is waited for, however busy the machine is."""
    monkeypatch.setattr(redis_limits, "_SECONDS", 30.0)


@pytest.mark.usefixtures("patient")
async def test_places_are_shared_renewed_and_free_again_when_a_process_is_gone(tmp_path: Path) -> None:
    with redis_server(free_port(), tmp_path) as url, Redis.from_url(url) as client:
        first, second = (RedisLimits(url, held_seconds=3) for _ in range(2))

        def ends(place: str | None) -> float:
            return float(client.zscore("brains-gateway:at-once:calling:ann", str(place)) or 0)

        try:
            held = [await first.hold("calling:ann", 2), await second.hold("calling:ann", 2)]
            assert all(held)
            assert await first.hold("calling:ann", 2) == ""
            assert await first.hold("calling:ben", 2)
            second.give_back(str(held[1]))
            await asyncio.wait(second._giving_back)
            assert await second.hold("calling:ann", 2)
            # It is renewed while it is held.
            before = ends(held[0])
            async with asyncio.timeout(60):
                while ends(held[0]) <= before:  # noqa: ASYNC110  # Redis tells nobody
                    await asyncio.sleep(0.05)
            # One that is closed without giving back is as good as killed.
            await first.close()
            async with asyncio.timeout(60):
                while not await second.hold("calling:ann", 2):  # noqa: ASYNC110  # Redis tells nobody
                    await asyncio.sleep(0.05)
        finally:
            await second.close()


@pytest.mark.usefixtures("patient")
async def test_two_replicas_have_no_more_under_way_than_one_would(tmp_path: Path) -> None:
    with redis_server(free_port(), tmp_path) as url:
        shared = [RedisLimits(url), RedisLimits(url)]
        replicas = [Limits(Allowance(1000, 3, 100, 10**6), shared=one) for one in shared]
        let_in, refused, all_told = 0, 0, asyncio.Event()

        async def ask(n: int) -> None:
            nonlocal let_in, refused
            try:
                async with replicas[n % 2].hold_ask("ann"):
                    let_in += 1
                    await asyncio.wait_for(all_told.wait(), 60)
            except LimitReached:
                refused += 1
                if refused == 37:
                    all_told.set()

        await asyncio.gather(*(ask(n) for n in range(40)))
        assert (let_in, refused) == (3, 37)
        for one in shared:
            await one.close()


def test_two_replicas_let_no_more_through_than_one_would(tmp_path: Path) -> None:
    token = kept(tmp_path / "tokens.json")
    call = raw_call("modern", "memory_list_brains", {})
    call["headers"] |= {"authorization": f"Bearer {token}"}
    settings = {"auth": "tokens", "tokens_file": tmp_path / "tokens.json", "surfaces": ("memory",)}
    with ExitStack() as stack, httpx.Client(trust_env=False) as http:
        url = stack.enter_context(redis_server(free_port(), tmp_path))
        # So slow that no other call is earned meanwhile.
        limited = {**settings, "redis_url": url, "calls_per_second": 0.05}
        replicas = [stack.enter_context(serving(tmp_path / "data", None, **limited)) for _ in range(2)]
        statuses = [http.post(f"{replicas[n % 2].url}/mcp", **call).status_code for n in range(10)]
    assert statuses.count(200) == 1
    assert statuses.count(429) == 9


async def test_two_replicas_of_two_workers_let_through_what_the_setting_says_under_load(tmp_path: Path) -> None:
    # So few that also a busy machine brings more, and so long that one call more or less is not 5%.
    a_second, seconds = 5, 20.0
    token = kept(tmp_path / "tokens.json")
    call = raw_call("modern", "memory_list_brains", {})
    # A connection for each call, so that all workers get some.
    call["headers"] |= {"authorization": f"Bearer {token}", "connection": "close"}
    with redis_server(free_port(), tmp_path) as redis_url:
        settings = {
            "BRAINS_AUTH": "tokens",
            "BRAINS_TOKENS_FILE": str(tmp_path / "tokens.json"),
            "BRAINS_DATA_DIR": str(tmp_path / "data"),
            "BRAINS_REDIS_URL": redis_url,
            "BRAINS_CALLS_PER_SECOND": str(a_second),
        }
        replicas = [Process(settings, tmp_path / f"{n}.txt", arguments=("--workers", "2")) for n in range(2)]
        statuses = Counter[int]()
        with running(*replicas):
            async with httpx.AsyncClient(trust_env=False, timeout=60) as http:

                async def call_on(n: int) -> None:
                    while time.monotonic() < began + seconds:
                        answer = await http.post(f"{replicas[n % 2].url}/mcp", **call)
                        statuses[answer.status_code] += 1
                        # Without a pause, refused calls alone would keep the machine busy.
                        await asyncio.sleep(0.1)

                began = time.monotonic()
                await asyncio.gather(*(call_on(n) for n in range(8)))
                took = time.monotonic() - began
    assert set(statuses) == {200, 429}
    # If Redis is slow for a moment, each process counts for itself, and nothing is shown.
    assert not any("limits.local" in replica.said() for replica in replicas)
    # A caller may take what is allowed in two seconds at once.
    assert statuses[200] == pytest.approx(a_second * (took + 2), rel=0.05), (statuses, took)


def _asked(client: Redis) -> int:
    """How often Redis was asked for something that takes a script."""
    return int(client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"])


@pytest.mark.parametrize("end", ["works on", "is killed"])
async def test_replicas_take_turns_at_a_session_so_that_a_platform_without_keys_stores_a_call_once(
    end: str, tmp_path: Path
) -> None:
    with (
        redis_server(free_port(), tmp_path) as url,
        Redis.from_url(url) as client,
        two_gateways(tmp_path, knows_keys=False, until_second_look=False, BRAINS_REDIS_URL=url) as world,
    ):
        first = asyncio.create_task(say(world, world.gateways[0]))
        await happened(world.platform.arrived)
        if end == "is killed":
            world.gateways[0].kill()
            with pytest.raises(httpx.TransportError):
                await first
        before = _asked(client)
        second = asyncio.create_task(say(world, world.gateways[1]))
        async with asyncio.timeout(60):
            # It asks three times because of its limits, and then for its turn.
            while _asked(client) < before + 5:  # noqa: ASYNC110  # Redis tells nobody
                await asyncio.sleep(0.01)
        assert world.platform.looks == 1
        world.platform.go_on.set()
        answer = await second
        assert [message["content"] for message in answer["messages"]] == ["one", "two"]
        if end == "works on":
            assert (await first)["messages"] == answer["messages"]
        assert world.stored() == ["one", "two"]
