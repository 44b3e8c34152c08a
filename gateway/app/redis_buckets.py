"""Buckets that all workers and replicas share, in Redis or Valkey."""

import time
from collections.abc import Callable
from typing import Any, Final

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

log = structlog.get_logger()

# What one caller may wait for Redis; after a failure it is left alone for a while.
_SECONDS: Final = 0.25
_PAUSE_SECONDS: Final = 5.0
_PREFIX: Final = "brains-gateway:"
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


class RedisBuckets:
    """Takes from buckets that others take from too. Where Redis does not answer, nobody is counted here."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = Redis.from_url(url, socket_timeout=_SECONDS, socket_connect_timeout=_SECONDS)
        self._take: Any = self._redis.register_script(_TAKE)
        self._clock = clock
        self._paused_until = -1.0
        self._is_down = False

    async def take(self, bucket: str, per_second: float, holds: float, amount: float) -> float | None:
        """Zero when there was enough; else the seconds until there is. None: Redis does not say."""
        if self._clock() < self._paused_until:
            return None
        try:
            wait = float(await self._take(keys=[_PREFIX + bucket], args=[per_second, holds, amount]))
        except (RedisError, OSError, TimeoutError, ValueError) as error:
            self._paused_until = self._clock() + _PAUSE_SECONDS
            if not self._is_down:
                log.error("limits.local", error=type(error).__name__, meanwhile="Each process counts for itself.")
            self._is_down = True
            return None
        if self._is_down:
            log.warning("limits.shared")
        self._is_down = False
        return wait

    async def close(self) -> None:
        await self._redis.aclose()
