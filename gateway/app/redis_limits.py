"""Limits that all workers and replicas share, and their turns at a session, in Redis or Valkey."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import structlog
from redis.exceptions import RedisError

from gateway.app.redis_client import redis_client

log = structlog.get_logger()

# How long one caller may wait for Redis. After a failure, Redis is left alone for a while. So this must be longer than
# a busy machine takes: otherwise each process would count for itself just when there are too many calls.
_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 5.0
_MEANWHILE: Final = "Each process counts for itself, and does not wait for the others before it writes to a session."
_PREFIX: Final = "brains-gateway:"
# How much is shown of what Redis says.
_SHOWN: Final = 200
# As `Bucket` in gateway/brain/limits.py, by the clock of Redis. A bucket that is full again need not be kept.
_TAKE: Final = """
local per_second, holds, amount = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
local kept = redis.call('HMGET', KEYS[1], 'level', 'at')
local level, at = tonumber(kept[1]) or holds, tonumber(kept[2]) or now
level = math.min(holds, level + math.max(0, now - at) * per_second)
local needed = math.min(amount, holds)
if level < needed then
  return tostring((needed - level) / per_second)
end
level = level - amount
redis.call('HSET', KEYS[1], 'level', tostring(level), 'at', string.format('%.6f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil((holds - level) / per_second * 1000) + 1000)
return '0'
"""
# How long a place is held without renewal. After this time, the places of a killed process are free again. What it has
# sent to the platform should have arrived by then.
HELD_SECONDS: Final = 10.0
_HOLD: Final = """
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('EXPIRE', KEYS[1], math.ceil(tonumber(ARGV[3])))
return 1
"""
# Renews only places that are still held: one that was given back meanwhile is not taken again.
_RENEW: Final = """
local clock = redis.call('TIME')
local until_ = clock[1] + clock[2] / 1000000 + tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], 'XX', until_, ARGV[1])
redis.call('EXPIRE', KEYS[1], math.ceil(tonumber(ARGV[2])))
"""


class RedisLimits:
    """Buckets and places that are shared with other processes. If Redis does not answer, nothing is counted here."""

    def __init__(
        self, url: str, clock: Callable[[], float] = time.monotonic, held_seconds: float = HELD_SECONDS
    ) -> None:
        self._redis = redis_client(url, _SECONDS)
        self._take: Any = self._redis.register_script(_TAKE)
        self._hold: Any = self._redis.register_script(_HOLD)
        self._renew: Any = self._redis.register_script(_RENEW)
        self._clock, self._held_seconds = clock, held_seconds
        self._paused_until = -1.0
        self._is_down = False
        self._held: set[str] = set()
        self._renewing: asyncio.Task[None] | None = None
        self._giving_back: set[asyncio.Task[None]] = set()

    async def take(self, bucket: str, per_second: float, holds: float, amount: float) -> float | None:
        """Zero when there was enough; else the seconds until there is. None: Redis does not say."""
        said = await self._ask(lambda: self._take(keys=[_PREFIX + bucket], args=[per_second, holds, amount]))
        return None if said is None else float(said)

    async def hold(self, name: str, most: int) -> str | None:
        """A place, which is renewed until it is given back; empty if all are taken. None: Redis does not say."""
        place = f"{name}#{secrets.token_hex(8)}"
        said = await self._ask(lambda: self._hold(keys=[_key(place)], args=[place, most, self._held_seconds]))
        if said is None:
            return None
        if not int(said):
            return ""
        self._held.add(place)
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew_held())
        return place

    def give_back(self, place: str) -> None:
        """Nothing waits for this: a place that cannot be given back is free again after a while."""
        self._held.discard(place)
        task = asyncio.create_task(self._remove(place))
        self._giving_back.add(task)
        task.add_done_callback(self._giving_back.discard)

    async def _remove(self, place: str) -> None:
        await self._ask(lambda: self._redis.zrem(_key(place), place))

    async def _renew_held(self) -> None:
        """Renew places, as long as there are any."""
        while self._held:
            await asyncio.sleep(self._held_seconds / 3)
            for place in list(self._held):
                await self._ask(partial(self._renew, keys=[_key(place)], args=[place, self._held_seconds]))

    async def _ask(self, ask: Callable[[], Awaitable[Any]]) -> Any | None:
        """The answer of Redis; None if there is none, and for a while afterwards."""
        if self._clock() < self._paused_until:
            return None
        try:
            said = await ask()
        except (RedisError, OSError, TimeoutError) as error:
            self._paused_until = self._clock() + _PAUSE_SECONDS
            if not self._is_down:
                log.error("limits.local", error=type(error).__name__, reason=_short(error), meanwhile=_MEANWHILE)
            self._is_down = True
            return None
        if self._is_down:
            log.warning("limits.shared")
        self._is_down = False
        return 0 if said is None else said

    async def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
        if self._giving_back:
            await asyncio.wait(self._giving_back, timeout=_SECONDS)
        await self._redis.aclose()


async def trouble_with_redis(url: str) -> str | None:
    """Why Redis does not serve, in the words of its library; None if it does."""
    redis = redis_client(url, _SECONDS)
    try:
        # A script, because that is what limits need: a user of Redis may be allowed to ping and no more.
        await redis.register_script("return 1")()
    except (RedisError, OSError, TimeoutError) as error:
        return f"{type(error).__name__}: {_short(error)}"
    finally:
        await redis.aclose()
    return None


def _short(error: Exception) -> str:
    return str(error)[:_SHOWN].rstrip(".")


def _key(place: str) -> str:
    """Where the places are that it is one of."""
    return f"{_PREFIX}at-once:{place.rpartition('#')[0]}"
