"""How often somebody may try to log in: by the name that they give, and by their address."""

import hashlib
import hmac
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from gateway.brain.limits import Bucket, SharedLimits

# Names are hashed to so many buckets, so invented names need no more room and remove no other name.
_PLACES: Final = 4096
_BUSY_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Rate:
    """So many at once, and then one in so many seconds."""

    what: str
    at_once: int
    seconds: float


# This lets one address guess more slowly than BY_USER fills up again, so its guesses lock nobody out elsewhere.
BY_USER_AND_ADDRESS: Final = Rate("user and address", 5, 30.0)
BY_USER: Final = Rate("user", 20, 15.0)
BY_ADDRESS: Final = Rate("address", 20, 3.0)
REGISTRATIONS: Final = Rate("register", 20, 30.0)
DOCUMENTS: Final = Rate("document", 10, 6.0)


class TooMany(Exception):
    """Somebody must wait before they try again."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"wait {seconds:.0f} s")
        self.seconds = seconds


class Places:
    """A number of places, of which one address may hold only a few. Slow requests of a few addresses can fill them."""

    def __init__(self, total: int, each: int) -> None:
        self._total, self._each = total, each
        self._held: Counter[str] = Counter()

    @contextmanager
    def held(self, address: str) -> Iterator[None]:
        """Raises: TooMany."""
        if self._held.total() >= self._total or self._held[address] >= self._each:
            raise TooMany(_BUSY_SECONDS)
        self._held[address] += 1
        try:
            yield
        finally:
            self._held[address] -= 1
            # Adding an empty counter removes the addresses that hold nothing.
            self._held += Counter()


class Throttle:
    """Counts tries in buckets, with all other processes where they share some."""

    def __init__(
        self, secret: bytes, shared: SharedLimits | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._secret, self._shared, self._clock = secret, shared, clock
        self._buckets: dict[tuple[str, int], Bucket] = {}

    async def take(self, rate: Rate, who: str, amount: float = 1) -> float:
        """Zero if they may; else the seconds until they may. A negative amount is put back."""
        place = self._place(rate, who)
        if self._shared is not None:
            wait = await self._shared.take(f"login:{rate.what}:{place}", 1 / rate.seconds, rate.at_once, amount)
            if wait is not None:
                return wait
        now = self._clock()
        bucket = self._buckets.get((rate.what, place))
        if bucket is None:
            bucket = self._buckets[rate.what, place] = Bucket(1 / rate.seconds, rate.at_once, now)
        return bucket.take(amount, now)

    def _place(self, rate: Rate, who: str) -> int:
        hashed = hmac.digest(self._secret, f"{rate.what} {who}".encode("utf-8", "replace"), hashlib.sha256)
        return int.from_bytes(hashed[:4]) % _PLACES
