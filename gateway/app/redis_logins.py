"""The memory of logins, in Redis or Valkey, which all workers and replicas share."""

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

from redis.exceptions import RedisError

from gateway.app.redis_client import redis_client
from gateway.http.auth.login.logins import LISTED_SECONDS, LoginsDown

T = TypeVar("T")
# A person waits for this at a browser.
_SECONDS: Final = 2.0
# One hash tag for all, because in a Redis cluster a script may only use keys of one node.
_PREFIX: Final = "brains-gateway:{login}:"
_REVOKED: Final = _PREFIX + "revoked"
# As `LoginsFile` in gateway/http/auth/login/logins_file.py.
_TAKE_STEP: Final = """
local step, seconds, now = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local kept = redis.call('GET', KEYS[1])
if (not kept and step == 0) or (kept and kept == tostring(step - 1)) then
  redis.call('SET', KEYS[1], step, 'EX', seconds)
  return 1
end
if kept and kept ~= 'revoked' then
  redis.call('SET', KEYS[1], 'revoked', 'KEEPTTL')
  redis.call('ZADD', KEYS[2], now, ARGV[1])
end
return 0
"""


class RedisLogins:
    """Keys that expire by themselves, and a list of recently revoked logins."""

    def __init__(self, url: str, clock: Callable[[], float] = time.time) -> None:
        self._redis = redis_client(url, _SECONDS)
        self._take_step: Any = self._redis.register_script(_TAKE_STEP)
        self._clock = clock

    async def take_step(self, login: str, step: int, seconds: float) -> bool:
        given = [login, step, max(1, round(seconds)), self._clock()]
        return bool(await _reached(self._take_step(keys=[_PREFIX + login, _REVOKED], args=given)))

    async def revoke(self, login: str, seconds: float) -> None:
        now = self._clock()
        async with self._redis.pipeline(transaction=True) as both:
            both.set(_PREFIX + login, "revoked", ex=max(1, round(seconds)))
            both.zadd(_REVOKED, {login: now})
            both.zremrangebyscore(_REVOKED, 0, now - LISTED_SECONDS)
            await _reached(both.execute())

    async def revoked(self, seconds: float) -> frozenset[str]:
        listed = cast(Awaitable[list[bytes]], self._redis.zrangebyscore(_REVOKED, self._clock() - seconds, "+inf"))
        return frozenset(login.decode() for login in await _reached(listed))

    async def close(self) -> None:
        await self._redis.aclose()


async def _reached(asking: Awaitable[T]) -> T:
    try:
        return await asking
    except (RedisError, OSError, TimeoutError) as error:
        raise LoginsDown(type(error).__name__) from error
