"""How Redis is reached, for limits and for logins."""

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as Unconnected


def redis_client(url: str, seconds: float) -> Redis:
    """A client that waits so long for a connection or an answer.

    If a connection turns out to be closed, the command is sent once more, on a new one. After a restart of Redis, that
    is so for every idle connection. Without this, each of them would look as if Redis were down again.
    """
    once_more = Retry(NoBackoff(), 1, (Unconnected,))
    return Redis.from_url(url, socket_timeout=seconds, socket_connect_timeout=seconds, retry=once_more)
