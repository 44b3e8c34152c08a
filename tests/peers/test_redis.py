"""Limits that all replicas share, in a real Redis: they add up, and each replica goes on alone without it."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from redis import Redis
from redis.exceptions import RedisError
from structlog.testing import capture_logs

from gateway.app.redis_buckets import RedisBuckets
from gateway.brain.limits import Bucket
from tests.daemons.real import free_port
from tests.gateway.http.auth.tokens import kept
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
        first, second = RedisBuckets(url), RedisBuckets(url)
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
    buckets = RedisBuckets(f"redis://127.0.0.1:{port}/0", lambda: now)
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
