"""How much happened in the last ten seconds."""

import time
from collections import deque
from collections.abc import Callable
from typing import Final

SECONDS: Final = 10


class Window:
    """Counts of two kinds of things over a sliding window, second by second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds: deque[list[int]] = deque()

    def add(self, *, one: int = 0, other: int = 0) -> None:
        now = int(self._clock())
        if not self._seconds or self._seconds[-1][0] != now:
            self.counts()
            self._seconds.append([now, 0, 0])
        self._seconds[-1][1] += one
        self._seconds[-1][2] += other

    def counts(self) -> tuple[int, int]:
        oldest = self._clock() - SECONDS
        while self._seconds and self._seconds[0][0] + 1 <= oldest:
            self._seconds.popleft()
        return sum(second[1] for second in self._seconds), sum(second[2] for second in self._seconds)

    def clear(self) -> None:
        self._seconds.clear()
