"""When a request is sent again: one policy, from what is known of the failure."""

import httpx
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from gateway.operations import READS, Op

# The request never left: sending it again cannot double anything.
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_ATTEMPTS = 3


class Collided(Exception):
    """Two writes to one path met on the platform's disk, and this one was not made."""


def _may_repeat(op: Op, error: BaseException) -> bool:
    if isinstance(error, (*NOT_SENT, Collided)):
        return True
    # A kept-alive connection that the platform closed under us looks like this.
    return op in READS and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError)


def retrying(op: Op) -> AsyncRetrying:
    return AsyncRetrying(
        retry=retry_if_exception(lambda error: _may_repeat(op, error)),
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.1, max=2),
        reraise=True,
    )
