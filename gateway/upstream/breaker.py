"""Leaves a failing platform alone: calls get an error at once, without a request."""

import math
import time
from collections.abc import Callable
from typing import Final

import structlog

from gateway.operations.errors import GatewayError
from gateway.operations.observer import Observer
from gateway.upstream.window import SECONDS, Window

log = structlog.get_logger()

_LEAST: Final = 20
_FAILING: Final = 0.5
_PROBE_SECONDS: Final = 5.0
_LEAST_PEOPLE: Final = 2
_PEOPLE: Final = 100


class Breaker:
    """Open once half of twenty requests or more failed within ten seconds; a success closes it again.

    While it is open, one request every five seconds is let through as a trial. With many callers, one of them alone
    cannot open it, because requests of the others may succeed.
    """

    def __init__(
        self,
        name: str,
        clock: Callable[[], float] = time.monotonic,
        *,
        shared: bool = False,
        observer: Observer | None = None,
    ) -> None:
        self._name = name
        self._observer = observer or Observer()
        self._clock = clock
        self._shared = shared
        self._failing: dict[str, float] = {}
        """The callers who got a failure, and when they last did."""
        self._recent = Window(clock)
        self._next_probe: float | None = None
        """When the next request is let through; None while all are."""

    @property
    def is_open(self) -> bool:
        return self._next_probe is not None

    def fail(self, person: str = "") -> None:
        self._recent.add(one=1, other=1)
        if len(self._failing) > _PEOPLE:
            self._failing.clear()
        self._failing[person] = self._clock()
        requests, failures = self._recent.counts()
        fails = requests >= _LEAST and failures >= requests * _FAILING
        if self._next_probe is None and fails and not self._is_one_persons():
            self._next_probe = self._clock() + _PROBE_SECONDS
            self._observer.left_alone(self._name, True)
            log.warning("upstream.left_alone", kind=self._name, requests=requests, failures=failures)

    def _is_one_persons(self) -> bool:
        since = self._clock() - SECONDS
        return self._shared and sum(at > since for at in self._failing.values()) < _LEAST_PEOPLE

    def succeed(self) -> None:
        if self._next_probe is not None:
            self._next_probe = None
            self._recent.clear()
            self._observer.left_alone(self._name, False)
            log.warning("upstream.back", kind=self._name)
        self._recent.add(one=1)

    def let_through(self) -> None:
        """Call this before each request. Report its outcome by `succeed` or `fail`.

        Raises:
            GatewayError: upstream_unavailable, with the time to wait; do not send the request.
        """
        if self._next_probe is None:
            return
        wait = self._next_probe - self._clock()
        if wait > 0:
            raise GatewayError("upstream_unavailable", retry_after_seconds=math.ceil(wait))
        self._next_probe = self._clock() + _PROBE_SECONDS
