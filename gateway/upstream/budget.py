"""How many requests may be repeats: few, because otherwise a platform in trouble would get three times its load."""

import time
from collections.abc import Callable
from typing import Final

from gateway.upstream.window import Window

_SHARE: Final = 0.1
_ALWAYS: Final = 3
_CALLERS: Final = 1000


class Budget:
    """In any ten seconds, a tenth of the requests, and at least three; for all callers together, and for each."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._all = Window(clock)
        self._by_caller: dict[str, Window] = {}

    def count_sent(self, caller: str) -> None:
        """A request was sent for the first time."""
        for window in self._windows(caller):
            window.add(one=1)

    def take(self, caller: str) -> bool:
        """Whether one more may be repeated; if so, it counts."""
        windows = self._windows(caller)
        if not all(_has_room(window) for window in windows):
            return False
        for window in windows:
            window.add(other=1)
        return True

    def _windows(self, caller: str) -> tuple[Window, Window]:
        if caller not in self._by_caller:
            if len(self._by_caller) >= _CALLERS:
                self._by_caller = {name: kept for name, kept in self._by_caller.items() if kept.counts() != (0, 0)}
            if len(self._by_caller) >= _CALLERS:
                self._by_caller.clear()
            self._by_caller[caller] = Window(self._clock)
        return self._all, self._by_caller[caller]


def _has_room(window: Window) -> bool:
    sent, repeated = window.counts()
    return repeated < max(_ALWAYS, int(sent * _SHARE))
