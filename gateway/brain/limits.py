"""What one caller may take: calls, answers at once, fetches and bytes. Each of them, never all together."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from gateway.operations.errors import GatewayError

_CALLERS: Final = 10_000
_MINUTE: Final = 60.0


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


class Bucket:
    """Fills steadily, and may be emptied at once."""

    def __init__(self, per_second: float, holds: float, now: float) -> None:
        self._per_second, self._holds = per_second, holds
        self._level, self._at = holds, now

    def take(self, amount: float, now: float) -> float:
        """Zero when there was enough; else the seconds until there is, and nothing is taken.

        More than it ever holds may be taken when it is full: what is allowed at all must be possible.
        """
        self._level = min(self._holds, self._level + (now - self._at) * self._per_second)
        self._at = now
        needed = min(amount, self._holds)
        if self._level < needed:
            return (needed - self._level) / self._per_second
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


class Limits:
    """Keeps count for the callers of late; without an allowance nobody is limited."""

    def __init__(self, allowance: Allowance | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._allowance = allowance
        self._clock = clock
        self._uses: OrderedDict[str, _Use] = OrderedDict()

    @property
    def are_set(self) -> bool:
        return self._allowance is not None

    def count_call(self, caller: str) -> None:
        """Count a call.

        Raises:
            LimitReached: with the time to wait.
        """
        if self._allowance is not None and (wait := self._use(caller).calls.take(1, self._clock())):
            raise LimitReached(f"More than {self._allowance.calls_per_second:g} calls a second. Slow down.", wait)

    @contextmanager
    def hold_call(self, caller: str) -> Iterator[None]:
        """One call, for as long as it takes: those that wait for a slow brain hold connections that others need."""
        if self._allowance is None:
            yield
            return
        use = self._use(caller)
        if use.calling >= self._allowance.calls_at_once:
            raise LimitReached(f"{self._allowance.calls_at_once} calls are under way already. Wait for one.", 2)
        use.calling += 1
        try:
            yield
        finally:
            use.calling -= 1

    def count_stored(self, caller: str, *contents: str | bytes) -> None:
        """Count what is to be stored, in bytes."""
        if self._allowance is None:
            return
        size = sum(len(c) if isinstance(c, bytes) else len(c.encode("utf-8", "replace")) for c in contents)
        if wait := self._use(caller).bytes.take(size, self._clock()):
            most = self._allowance.bytes_per_minute / 1_048_576
            raise LimitReached(f"More than {most:g} MiB a minute are to be stored. Wait a little.", wait)

    @contextmanager
    def hold_answer(self, caller: str) -> Iterator[None]:
        """One answer, for as long as it takes."""
        if self._allowance is None:
            yield
            return
        use = self._use(caller)
        if use.asking >= self._allowance.asks_at_once:
            raise LimitReached(f"{self._allowance.asks_at_once} answers are under way already. Wait for one.", 2)
        use.asking += 1
        try:
            yield
        finally:
            use.asking -= 1

    @contextmanager
    def hold_fetch(self, caller: str) -> Iterator[None]:
        """One page, for as long as it takes to fetch."""
        if self._allowance is None:
            yield
            return
        use = self._use(caller)
        if use.fetching >= self._allowance.fetches_at_once:
            raise LimitReached(f"{self._allowance.fetches_at_once} pages are being fetched already. Wait for one.", 2)
        if wait := use.fetches.take(1, self._clock()):
            raise LimitReached(f"More than {self._allowance.fetches_per_minute} pages a minute. Wait a little.", wait)
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
