"""Leave a platform alone that fails: what it would not answer is answered here, at once."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from gateway.errors import GatewayError
from gateway.upstream.window import Window

log = structlog.get_logger()

_LEAST: Final = 20
_FAILING: Final = 0.5
_PROBE_SECONDS: Final = 5.0


class Breaker:
    """Open once half of twenty requests or more failed within ten seconds; a success closes it again.

    While it is open, one request every five seconds is let through to see.
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._recent = Window(clock)
        self._next_probe: float | None = None
        """When the next one is let through; None while all are."""

    @property
    def is_open(self) -> bool:
        return self._next_probe is not None

    @contextmanager
    def watched(self, failures: tuple[type[BaseException], ...]) -> Iterator[None]:
        """One request: let through or refused, and its end noted.

        Raises:
            GatewayError: upstream_unavailable, with the time to wait; nothing was sent.
        """
        self._enter()
        try:
            yield
        except failures:
            self.failed()
            raise
        self._succeeded()

    def failed(self) -> None:
        self._recent.add(one=1, other=1)
        requests, failures = self._recent.counts()
        if self._next_probe is None and requests >= _LEAST and failures >= requests * _FAILING:
            self._next_probe = self._clock() + _PROBE_SECONDS
            log.warning("upstream.left_alone", kind=self._name, requests=requests, failures=failures)

    def _succeeded(self) -> None:
        if self._next_probe is not None:
            self._next_probe = None
            self._recent.clear()
            log.warning("upstream.back", kind=self._name)
        self._recent.add(one=1)

    def _enter(self) -> None:
        if self._next_probe is None:
            return
        wait = self._next_probe - self._clock()
        if wait > 0:
            raise GatewayError("upstream_unavailable", retry_after_seconds=math.ceil(wait))
        self._next_probe = self._clock() + _PROBE_SECONDS
