"""How far a run is, said now and then on the terminal."""

import sys
import time


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


class Progress:
    """Says every few seconds how many of how many are done."""

    def __init__(self, what: str, total: int, every: float = 10.0) -> None:
        self._what, self._total, self._every = what, total, every
        self._done = 0
        self._began = self._said = time.monotonic()

    def step(self) -> None:
        self._done += 1
        now = time.monotonic()
        if now - self._said >= self._every or self._done == self._total:
            self._said = now
            say(f"  {self._what}: {self._done:,} of {self._total:,} after {now - self._began:.0f} s")
