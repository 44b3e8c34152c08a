"""When a request is sent again. That depends on what is known of the failure, and on the policy of the operation.

* not sent      no connection was made: anything is sent again
* refused       429, or 503 with Retry-After: anything is sent again once that time has passed
* maybe sent    no answer, or the answer of a proxy that heard none: reads, and writes whose repeat is the same write
* failed        500: reads alone; to a write it is an answer, and what became of it is looked into

All within the deadline of the call, and within the budget of the platform and of the caller.
"""

import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_random_exponential

from gateway.operations.table import Op
from gateway.upstream.detect.refusal import is_own_answer, retry_after
from gateway.upstream.exchange import NOT_SENT, Heard

_MAYBE_SENT = (httpx.ReadError, httpx.WriteError, httpx.CloseError, httpx.RemoteProtocolError)
T = TypeVar("T")
_LONGEST_WAIT: Final = 30.0
_JITTER: Final = 1.1
_BACKOFF: Final = wait_random_exponential(multiplier=0.1, max=2)


class Collided(Exception):
    """Two writes to one path met on the platform's disk, and this one was not made."""


class TurnedAway(Exception):
    """Not a final answer: from a platform that is busy, or from a proxy before it."""

    def __init__(self, heard: Heard) -> None:
        self.heard = heard
        self.status = heard.response.status_code
        self.wait = retry_after(heard.response.headers.get("retry-after"))
        super().__init__(f"status {self.status}")

    @property
    def is_refusal(self) -> bool:
        """Whether the request was certainly not done."""
        return self.status == 429 or (self.status == 503 and self.wait is not None)


# These failures count against a platform: it could not be reached, or gave no answer. If all of our connections are
# in use, that does not count.
FAILURES: Final = (
    httpx.NetworkError,
    httpx.ProtocolError,
    httpx.ConnectTimeout,
    httpx.ReadTimeout,
    httpx.WriteTimeout,
    TurnedAway,
)
_BUSY: Final = frozenset({502, 503, 504})


def raise_if_turned_away(heard: Heard) -> None:
    if heard.response.status_code in _BUSY and not is_own_answer(heard.response, heard.body):
        raise TurnedAway(heard)


def raise_if_worth_another(op: Op, heard: Heard) -> None:
    """These do not count against a platform: it is busy, or it failed on one question."""
    if heard.response.status_code == 429 or (heard.response.status_code == 500 and op.reads):
        raise TurnedAway(heard)


def may_be_lost(error: Exception) -> bool:
    """Whether a request may have arrived although no answer came."""
    return isinstance(error, _MAYBE_SENT) or (isinstance(error, TurnedAway) and not error.is_refusal)


async def repeat(once: Callable[[], Awaitable[T]], op: Op, *, seconds: float, may_repeat: Callable[[], bool]) -> T:
    """The answer to an operation within so many seconds, sent once or several times."""
    started = time.monotonic()
    try:
        return await once()
    except (httpx.TransportError, TurnedAway, Collided) as error:
        failed: Exception | None = error
    # The first attempt is made without tenacity, because it mostly succeeds, and tenacity takes longer than the rest.
    async for attempt in retrying(op, seconds=seconds - (time.monotonic() - started), may_repeat=may_repeat):
        with attempt:
            if failed is not None:
                first, failed = failed, None
                raise first
            answer = await once()
    return answer


def retrying(op: Op, *, seconds: float, may_repeat: Callable[[], bool]) -> AsyncRetrying:
    """Attempts at an operation within so many seconds. `may_repeat` takes from the budget."""
    policy = op.policy
    until = time.monotonic() + seconds

    def is_worth_it(error: BaseException) -> bool:
        if isinstance(error, TurnedAway) and error.is_refusal:
            return (error.wait or 0) <= _LONGEST_WAIT and (error.wait or 0) * _JITTER < until - time.monotonic()
        if isinstance(error, (*NOT_SENT, Collided)):
            return True
        return policy.repeats and isinstance(error, (*_MAYBE_SENT, TurnedAway))

    def is_enough(state: RetryCallState) -> bool:
        # The budget is asked last, so that a request that is given up for another reason takes nothing from it.
        return state.attempt_number >= policy.attempts or not may_repeat()

    return AsyncRetrying(
        retry=retry_if_exception(is_worth_it),
        stop=is_enough,
        wait=_wait,
        reraise=True,
    )


def _wait(state: RetryCallState) -> float:
    """A random wait (full jitter), after the time that the platform asked for, if it did."""
    error = state.outcome.exception() if state.outcome is not None else None
    backoff = float(_BACKOFF(state))
    if isinstance(error, TurnedAway) and error.wait is not None:
        # So that not all callers come back at the same moment.
        return random.uniform(error.wait, error.wait * _JITTER)
    return backoff
