"""When a request is sent again: one table, and one policy from what is known of a failure.

* not sent      no connection was made: anything is sent again
* refused       429, or 503 with Retry-After: anything is sent again once that time has passed
* maybe sent    no answer, or the answer of a proxy that heard none: reads, and writes whose repeat is the same write
* failed        500: reads alone; to a write it is an answer, and what became of it is looked into

All within the deadline of the call, and within the budget of the platform and of the caller.
"""

import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_random_exponential

from gateway.operations.table import READS, Op
from gateway.upstream.detect.refusal import is_own_answer, retry_after

NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_MAYBE_SENT = (httpx.ReadError, httpx.WriteError, httpx.CloseError, httpx.RemoteProtocolError)
T = TypeVar("T")
_LONGEST_WAIT: Final = 30.0
_JITTER: Final = 1.1
_BACKOFF: Final = wait_random_exponential(multiplier=0.1, max=2)


class Kind(StrEnum):
    """What fails together: a platform whose model is down still answers searches."""

    READ = "read"
    WRITE = "write"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class Policy:
    kind: Kind
    repeats: bool
    """Whether it is sent again when it may have arrived."""
    deadline: str = "read"
    """Which of the deadlines holds for all attempts together."""
    attempts: int = 3


_READ: Final = Policy(Kind.READ, repeats=True)
# Under a name that is derived from what is written: a repeat finds, or writes, the very same.
_SAME: Final = Policy(Kind.WRITE, repeats=True)
_ONCE: Final = Policy(Kind.WRITE, repeats=False)
_INGEST_ONCE: Final = Policy(Kind.WRITE, repeats=False, deadline="ingest")
_STAGE: Final = Policy(Kind.WRITE, repeats=False, deadline="stage")

POLICIES: Final[Mapping[Op, Policy]] = {
    **dict.fromkeys(READS, _READ),
    Op.EXTRACT: Policy(Kind.READ, repeats=True, deadline="stage", attempts=2),
    Op.ASK: Policy(Kind.ASK, repeats=False, deadline="first_event", attempts=2),
    Op.CREATE_BRAIN: _SAME,
    Op.CREATE_BARE_BRAIN: _SAME,
    Op.CREATE_DOCUMENT: _SAME,
    Op.WRITE_DOCUMENT: _SAME,
    Op.BATCH_WRITE: _SAME,
    Op.INGEST_TEXT: Policy(Kind.WRITE, repeats=True, deadline="ingest", attempts=2),
    # Named by the platform: a step asks again, once, where the answer says whether it was there.
    Op.INGEST_FILE: _INGEST_ONCE,
    Op.INGEST_URL: _INGEST_ONCE,
    # A repeat would be said twice: a step looks first.
    Op.APPEND_MESSAGE: _ONCE,
    Op.APPEND_DOCUMENT: _ONCE,
    # What was moved or removed is not there to be moved again: a step looks.
    Op.RENAME_DOCUMENT: _ONCE,
    Op.DELETE_DOCUMENT: _ONCE,
    Op.CLOSE_SESSION: _STAGE,
    Op.REFLECT: _STAGE,
    Op.CONSOLIDATE: _STAGE,
    Op.COMPILE: _STAGE,
}


class Collided(Exception):
    """Two writes to one path met on the platform's disk, and this one was not made."""


class TurnedAway(Exception):
    """An answer that is no answer yet: from a platform that is busy, or from a proxy before it."""

    def __init__(self, response: httpx.Response, body: bytes) -> None:
        super().__init__(f"status {response.status_code}")
        self.response = response
        self.body = body
        self.wait = retry_after(response.headers.get("retry-after"))

    @property
    def is_refusal(self) -> bool:
        """Whether the request was certainly not done."""
        return self.response.status_code == 429 or (self.response.status_code == 503 and self.wait is not None)


# What counts against a platform: it could not be reached, or not be heard. That all connections are in use does not.
FAILURES: Final = (
    httpx.NetworkError,
    httpx.ProtocolError,
    httpx.ConnectTimeout,
    httpx.ReadTimeout,
    httpx.WriteTimeout,
    TurnedAway,
)
_BUSY: Final = frozenset({502, 503, 504})


def raise_if_turned_away(response: httpx.Response, body: bytes) -> None:
    if response.status_code in _BUSY and not is_own_answer(response, body):
        raise TurnedAway(response, body)


def raise_if_worth_another(op: Op, response: httpx.Response, body: bytes) -> None:
    """What does not count against a platform: it is busy, or it failed to answer a question."""
    if response.status_code == 429 or (response.status_code == 500 and op in READS):
        raise TurnedAway(response, body)


@contextmanager
def noted_if_lost(lost: list[BaseException]) -> Iterator[None]:
    """Keeps what says that a request may have arrived although nothing was heard of it."""
    try:
        yield
    except (*_MAYBE_SENT, TurnedAway) as error:
        if not (isinstance(error, TurnedAway) and error.is_refusal):
            lost.append(error)
        raise


async def attempted(once: Callable[[], Awaitable[T]], op: Op, *, seconds: float, may_repeat: Callable[[], bool]) -> T:
    """What comes of an operation within so many seconds, once or as often as is worth it."""
    started = time.monotonic()
    try:
        return await once()
    except (httpx.TransportError, TurnedAway, Collided) as error:
        failed: Exception | None = error
    # The first attempt mostly succeeds, and the mechanics of retrying take longer than the rest of it.
    async for attempt in retrying(op, seconds=seconds - (time.monotonic() - started), may_repeat=may_repeat):
        with attempt:
            if failed is not None:
                first, failed = failed, None
                raise first
            answer = await once()
    return answer


def retrying(op: Op, *, seconds: float, may_repeat: Callable[[], bool]) -> AsyncRetrying:
    """Attempts at an operation within so many seconds. `may_repeat` takes from the budget."""
    policy = POLICIES[op]
    until = time.monotonic() + seconds

    def is_worth_it(error: BaseException) -> bool:
        if isinstance(error, TurnedAway) and error.is_refusal:
            return (error.wait or 0) <= _LONGEST_WAIT and (error.wait or 0) * _JITTER < until - time.monotonic()
        if isinstance(error, (*NOT_SENT, Collided)):
            return True
        return policy.repeats and isinstance(error, (*_MAYBE_SENT, TurnedAway))

    def is_enough(state: RetryCallState) -> bool:
        # The budget last: what is given up for another reason takes nothing from it.
        return state.attempt_number >= policy.attempts or not may_repeat()

    return AsyncRetrying(
        retry=retry_if_exception(is_worth_it),
        stop=is_enough,
        wait=_wait,
        reraise=True,
    )


def _wait(state: RetryCallState) -> float:
    """Full jitter; after the time the platform asked for, if it did."""
    error = state.outcome.exception() if state.outcome is not None else None
    backoff = float(_BACKOFF(state))
    if isinstance(error, TurnedAway) and error.wait is not None:
        # Not all at once when the time is up.
        return random.uniform(error.wait, error.wait * _JITTER)
    return backoff
