"""What one caller may take: calls, answers at once, fetches and bytes. Each of them, never all together."""

import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from gateway.operations.errors import GatewayError
from gateway.operations.observer import Observer

_CALLERS: Final = 10_000
_MINUTE: Final = 60.0
_What = Literal["calls", "fetches", "bytes"]


class LimitReached(GatewayError):
    """The gateway's own limit, not the platform's."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__("rate_limited", message, retry_after_seconds=max(1, math.ceil(seconds)))


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much a caller may take."""

    calls_per_second: float
    asks_at_once: int
    fetches_per_minute: int
    bytes_per_minute: int
    fetches_at_once: int = 2
    calls_at_once: int = 100

    def exceeded(self, what: _What) -> str:
        """What is said to those who take more than that in a time."""
        match what:
            case "calls":
                return f"More than {self.calls_per_second:g} calls a second. Slow down."
            case "fetches":
                return f"More than {self.fetches_per_minute} pages a minute. Wait a little."
            case "bytes":
                most = self.bytes_per_minute / 1_048_576
                return f"More than {most:g} MiB a minute are to be stored. Wait a little."


class Bucket:
    """Fills steadily, and may be emptied at once."""

    def __init__(self, per_second: float, holds: float, now: float) -> None:
        self.per_second, self.holds = per_second, holds
        self._level, self._at = holds, now

    def take(self, amount: float, now: float) -> float:
        """Zero when there was enough; else the seconds until there is, and nothing is taken.

        More than it ever holds may be taken when it is full: what is allowed at all must be possible.
        """
        self._level = min(self.holds, self._level + (now - self._at) * self.per_second)
        self._at = now
        needed = min(amount, self.holds)
        if self._level < needed:
            return (needed - self._level) / self.per_second
        self._level -= amount
        return 0.0


@dataclass(slots=True)
class _Use:
    calls: Bucket
    fetches: Bucket
    bytes: Bucket
    calling: int = 0
    asking: int = 0
    fetching: int = 0

    @property
    def is_idle(self) -> bool:
        return not (self.calling or self.asking or self.fetching)


class SharedBuckets(Protocol):
    """Buckets that other processes take from too."""

    async def take(self, bucket: str, per_second: float, holds: float, amount: float) -> float | None:
        """As of a bucket of ours; None when nobody can say at the moment."""
        ...


class Limits:
    """Keeps count for the callers of late; without an allowance nobody is limited.

    Where there are `shared` buckets, what is taken in a time is counted with all other processes. While nobody can say
    what those took, and of what is under way at once, each process counts for itself.
    """

    def __init__(
        self,
        allowance: Allowance | None = None,
        clock: Callable[[], float] = time.monotonic,
        shared: SharedBuckets | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._observer = observer or Observer()
        self._allowance = allowance
        self._clock = clock
        self._shared = shared
        self._uses: OrderedDict[str, _Use] = OrderedDict()

    @property
    def are_set(self) -> bool:
        return self._allowance is not None

    async def admit_call(self, caller: str) -> None:
        """Count a call, with all other processes if they share.

        Raises:
            LimitReached: with the time to wait.
        """
        if self._shared is None or not await self._is_shared(caller, "calls", 1):
            self.count_call(caller)

    async def admit_stored(self, caller: str, *contents: str | bytes) -> None:
        """Count what is to be stored, with all other processes if they share."""
        if self._shared is None or not await self._is_shared(caller, "bytes", _size(contents)):
            self.count_stored(caller, *contents)

    @asynccontextmanager
    async def hold_page(self, caller: str) -> AsyncIterator[None]:
        """One page, for as long as it takes to fetch, counted with all other processes if they share."""
        is_counted = self._shared is not None and await self._is_shared(caller, "fetches", 1)
        with self.hold_fetch(caller, is_counted=is_counted):
            yield

    async def _is_shared(self, caller: str, what: _What, amount: float) -> bool:
        """Whether others have counted it; if not, it is ours to count.

        Raises:
            LimitReached: with all that the others took, it is too much.
        """
        if self._allowance is None or self._shared is None:
            return False
        like: Bucket = getattr(self._use(caller), what)
        wait = await self._shared.take(f"{what}:{caller}", like.per_second, like.holds, amount)
        if wait:
            raise self._reached(what, self._allowance.exceeded(what), wait)
        return wait is not None

    def _reached(self, limit: str, message: str, seconds: float) -> LimitReached:
        self._observer.limit_reached(limit)
        return LimitReached(message, seconds)

    def count_call(self, caller: str) -> None:
        """Count a call.

        Raises:
            LimitReached: with the time to wait.
        """
        if self._allowance is not None and (wait := self._use(caller).calls.take(1, self._clock())):
            raise self._reached("calls", self._allowance.exceeded("calls"), wait)

    @contextmanager
    def hold_call(self, caller: str) -> Iterator[None]:
        """One call, for as long as it takes: those that wait for a slow brain hold connections that others need."""
        if self._allowance is None:
            yield
            return
        use = self._use(caller)
        if use.calling >= self._allowance.calls_at_once:
            message = f"{self._allowance.calls_at_once} calls are under way already. Wait for one."
            raise self._reached("calls_at_once", message, 2)
        use.calling += 1
        try:
            yield
        finally:
            use.calling -= 1

    def count_stored(self, caller: str, *contents: str | bytes) -> None:
        """Count what is to be stored, in bytes."""
        if self._allowance is None:
            return
        if wait := self._use(caller).bytes.take(_size(contents), self._clock()):
            raise self._reached("bytes", self._allowance.exceeded("bytes"), wait)

    @contextmanager
    def hold_answer(self, caller: str) -> Iterator[None]:
        """One answer, for as long as it takes."""
        if self._allowance is None:
            yield
            return
        use = self._use(caller)
        if use.asking >= self._allowance.asks_at_once:
            message = f"{self._allowance.asks_at_once} answers are under way already. Wait for one."
            raise self._reached("answers_at_once", message, 2)
        use.asking += 1
        try:
            yield
        finally:
            use.asking -= 1

    @contextmanager
    def hold_fetch(self, caller: str, *, is_counted: bool = False) -> Iterator[None]:
        """One page, for as long as it takes to fetch."""
        if self._allowance is None:
            yield
            return
        use = self._use(caller)
        if use.fetching >= self._allowance.fetches_at_once:
            message = f"{self._allowance.fetches_at_once} pages are being fetched already. Wait for one."
            raise self._reached("fetches_at_once", message, 2)
        if not is_counted and (wait := use.fetches.take(1, self._clock())):
            raise self._reached("fetches", self._allowance.exceeded("fetches"), wait)
        use.fetching += 1
        try:
            yield
        finally:
            use.fetching -= 1

    def _use(self, caller: str) -> _Use:
        assert self._allowance is not None
        if (use := self._uses.get(caller)) is None:
            use = self._uses[caller] = self._fresh()
            self._forget_the_idle()
        self._uses.move_to_end(caller)
        return use

    def _fresh(self) -> _Use:
        allowance, now = self._allowance, self._clock()
        assert allowance is not None
        return _Use(
            calls=Bucket(allowance.calls_per_second, max(2 * allowance.calls_per_second, 1), now),
            fetches=Bucket(allowance.fetches_per_minute / _MINUTE, allowance.fetches_per_minute, now),
            bytes=Bucket(allowance.bytes_per_minute / _MINUTE, allowance.bytes_per_minute, now),
        )

    def _forget_the_idle(self) -> None:
        """Those who called longest ago; not those with something under way, whose count would be lost."""
        for _ in range(2):
            if len(self._uses) <= _CALLERS:
                return
            oldest = next(iter(self._uses))
            if self._uses[oldest].is_idle:
                del self._uses[oldest]
            else:
                self._uses.move_to_end(oldest)


def _size(contents: Sequence[str | bytes]) -> int:
    return sum(len(c) if isinstance(c, bytes) else len(c.encode("utf-8", "replace")) for c in contents)
