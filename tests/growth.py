"""Whether something takes more than linear time: by how much longer it takes on more, never by the clock alone."""

import time
from collections.abc import Callable

# Four times as much takes four times as long where it is linear, and sixteen times where it is quadratic.
GROWTH = 4
# On a busy machine a run may seem slow by chance. What is slow is slow each time.
ROUNDS = 4


def least_seconds(run: Callable[[], object], times: int = 3) -> float:
    """The least that it took of this thread's own time: what else the machine does is not counted."""
    return min(_once(run) for _ in range(times))


def _once(run: Callable[[], object]) -> float:
    begun = time.thread_time()
    run()
    return time.thread_time() - begun


def is_linear(run: Callable[[int], object], size: int, *, unseen: float = 0.02) -> bool:
    """What is over in less than `unseen` seconds is too short to tell, and short enough."""
    if least_seconds(lambda: run(GROWTH * size), 1) < unseen:
        return True
    return any(_ratio(run, size) < 2 * GROWTH for _ in range(ROUNDS))


def _ratio(run: Callable[[int], object], size: int) -> float:
    return least_seconds(lambda: run(GROWTH * size), 2) / least_seconds(lambda: run(size), 2)
