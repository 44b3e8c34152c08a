"""What one caller may take: calls, answers at once, fetches and bytes. Limits hold for each caller alone."""

import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from gateway.brain.locks import SharedPlaces
from gateway.operations.errors import GatewayError
from gateway.operations.observer import Observer

_CALLERS: Final = 10_000
_MINUTE: Final = 60.0
_What = Literal["calls", "fetches", "bytes"]
_Held = Literal["calling", "asking", "fetching"]
# The names of the limits that the operator sees when a caller reaches one.
_AT_ONCE: Final = {"calling": "calls_at_once", "asking": "answers_at_once", "fetching": "fetches_at_once"}


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
        """The message for a caller who has reached a limit over time."""
        match what:
            case "calls":
                return f"More than {self.calls_per_second:g} calls a second. Slow down."
            case "fetches":
                return f"More than {self.fetches_per_minute} pages a minute. Wait a little."
            case "bytes":
                most = self.bytes_per_minute / 1_048_576
                return f"More than {most:g} MiB a minute are to be stored. Wait a little."

    def at_once(self, what: _Held) -> int:
        return {"calling": self.calls_at_once, "asking": self.asks_at_once, "fetching": self.fetches_at_once}[what]

    def too_many(self, what: _Held) -> str:
        """The message for a caller who already has the largest number under way."""
        under_way = {"calling": "calls are under way", "asking": "answers are under way"}
        return f"{self.at_once(what)} {under_way.get(what, 'pages are being fetched')} already. Wait for one."


class Bucket:
    """A bucket that fills steadily, and may be emptied at once."""

    def __init__(self, per_second: float, holds: float, now: float, level: float | None = None) -> None:
        """The bucket is full, unless a level is given."""
        self.per_second, self.holds = per_second, holds
        self.level, self._at = holds if level is None else level, now

    def take(self, amount: float, now: float) -> float:
        """Zero when there was enough; else the seconds until there is, and nothing is taken.

        If it is full, more than it ever holds may be taken: a call that is allowed must be possible at some time.
        """
        self.level = min(self.holds, self.level + (now - self._at) * self.per_second)
        self._at = now
        needed = min(amount, self.holds)
        if self.level < needed:
            return (needed - self.level) / self.per_second
        self.level -= amount
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


class SharedLimits(SharedPlaces, Protocol):
    """Allowances that are shared with other processes."""

    async def take(self, bucket: str, per_second: float, holds: float, amount: float) -> float | None:
        """As `Bucket.take`; None if the shared store does not answer at the moment."""
        ...


class Limits:
    """Counts for the callers of the last time; without an allowance nobody is limited.

    If they are `shared`, all processes together count what is taken over time and what is under way at once.
    While the shared store does not answer, each process counts for itself.
    """

    def __init__(
        self,
        allowance: Allowance | None = None,
        clock: Callable[[], float] = time.monotonic,
        shared: SharedLimits | None = None,
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

    async def admit_call(self, caller: str) -> str | None:
        """Count a call, with all other processes if they share. Returns the place that it has among theirs.

        Raises:
            LimitReached: with the time to wait.
        """
        if self._shared is None:
            self.count_call(caller)
            return None
        if not await self._is_shared(caller, "calls", 1):
            self.count_call(caller)
        return await self._place(caller, "calling")

    async def admit_stored(self, caller: str, *contents: str | bytes) -> None:
        """Count what is to be stored, with all other processes if they share."""
        if self._shared is None or not await self._is_shared(caller, "bytes", _size(contents)):
            self.count_stored(caller, *contents)

    @asynccontextmanager
    async def hold_page(self, caller: str) -> AsyncIterator[None]:
        """One page, for as long as it takes to fetch, counted with all other processes if they share."""
        is_counted = self._shared is not None and await self._is_shared(caller, "fetches", 1)
        with self.hold_fetch(caller, await self._place(caller, "fetching"), is_counted=is_counted):
            yield

    @asynccontextmanager
    async def hold_ask(self, caller: str) -> AsyncIterator[None]:
        """One answer, for as long as it takes, counted with all other processes if they share."""
        with self.hold_answer(caller, await self._place(caller, "asking")):
            yield

    async def _is_shared(self, caller: str, what: _What, amount: float) -> bool:
        """Whether the shared store has counted it; if not, this process must count it.

        Raises:
            LimitReached: together with the other processes, it is too much.
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
    def hold_call(self, caller: str, place: str | None = None) -> Iterator[None]:
        """One call, for as long as it takes. Calls that wait for a slow brain hold connections that others need."""
        with self._hold(caller, "calling", place):
            yield

    def count_stored(self, caller: str, *contents: str | bytes) -> None:
        """Count what is to be stored, in bytes."""
        if self._allowance is None:
            return
        if wait := self._use(caller).bytes.take(_size(contents), self._clock()):
            raise self._reached("bytes", self._allowance.exceeded("bytes"), wait)

    @contextmanager
    def hold_answer(self, caller: str, place: str | None = None) -> Iterator[None]:
        """One answer, for as long as it takes."""
        with self._hold(caller, "asking", place):
            yield

    @contextmanager
    def hold_fetch(self, caller: str, place: str | None = None, *, is_counted: bool = False) -> Iterator[None]:
        """One page, for as long as it takes to fetch."""
        with self._hold(caller, "fetching", place):
            if not is_counted:
                self._count_fetch(caller)
            yield

    def _count_fetch(self, caller: str) -> None:
        if self._allowance is not None and (wait := self._use(caller).fetches.take(1, self._clock())):
            raise self._reached("fetches", self._allowance.exceeded("fetches"), wait)

    @contextmanager
    def _hold(self, caller: str, what: _Held, place: str | None) -> Iterator[None]:
        """Count one that is under way. Its place among those of all processes is given back with it."""
        if self._allowance is None:
            yield
            return
        use = self._use(caller)
        try:
            if getattr(use, what) >= self._allowance.at_once(what):
                raise self._reached(_AT_ONCE[what], self._allowance.too_many(what), 2)
            setattr(use, what, getattr(use, what) + 1)
            try:
                yield
            finally:
                setattr(use, what, getattr(use, what) - 1)
        finally:
            if place is not None and self._shared is not None:
                self._shared.give_back(place)

    async def _place(self, caller: str, what: _Held) -> str | None:
        """A place among those of all processes; None if each counts for itself.

        Raises:
            LimitReached: all are taken.
        """
        if self._allowance is None or self._shared is None:
            return None
        place = await self._shared.hold(f"{what}:{caller}", self._allowance.at_once(what))
        if place == "":
            raise self._reached(_AT_ONCE[what], self._allowance.too_many(what), 2)
        return place

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
        """Forget those who called longest ago, but none with a call under way, whose count would be lost."""
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
