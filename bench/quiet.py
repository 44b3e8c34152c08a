"""Measuring again what others disturbed, as long as there is patience for it."""

import time
from collections.abc import Callable
from typing import TypeVar

from bench.processes import Machine

T = TypeVar("T")
# The share of all cores that others may take before a measurement counts as disturbed.
DISTURBED = 0.05


class Quiet:
    """Seconds a run may spend on measurements that it throws away."""

    def __init__(self, patience: float = 0.0) -> None:
        self._patience = patience
        self.thrown_away = 0
        self.disturbed = 0

    def take(self, measured: Callable[[], T]) -> T:
        """A measurement that nobody disturbed, or the last one there was patience for."""
        while True:
            watch, started = Machine(), time.monotonic()
            value = measured()
            if watch.foreign_share() <= DISTURBED:
                return value
            self._patience -= time.monotonic() - started
            if self._patience <= 0:
                self.disturbed += 1
                return value
            self.thrown_away += 1
            self._wait()

    def _wait(self) -> None:
        """Until others are quiet for a moment."""
        while self._patience > 0:
            watch = Machine()
            time.sleep(1)
            self._patience -= 1
            if watch.foreign_share() <= DISTURBED:
                return

    def told(self) -> str:
        if not self.thrown_away and not self.disturbed:
            return "no measurement was disturbed by other processes"
        return (
            f"{self.thrown_away} measurements were disturbed by other processes and taken again, "
            f"{self.disturbed} were disturbed and kept"
        )
