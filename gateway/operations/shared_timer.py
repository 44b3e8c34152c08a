"""One timer of the event loop for many moments, such as deadlines, most of which are dropped before they come."""

import asyncio
import math
from collections.abc import Callable
from contextvars import Context
from types import TracebackType
from typing import Any, Final

# Looks at the moments are at least this far apart. Each look goes through all moments.
_APART: Final = 0.01


class Moment:
    """A time on the loop's clock, and what happens then."""

    __slots__ = ("_happen", "due")

    def __init__(self, due: float, happen: Callable[[], None]) -> None:
        self.due, self._happen = due, happen

    def happen(self) -> None:
        self._happen()


class SharedTimer:
    """Calls back at each moment, unless it was dropped before.

    A timer of the loop for each moment would take more time. This one is set again only if a new moment comes sooner.
    It serves one loop at a time.
    """

    def __init__(self) -> None:
        self._moments: set[Moment] = set()
        self._armed = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # Without it, the timer would keep the context of the call that set it alive.
        self._context = Context()

    def add(self, loop: asyncio.AbstractEventLoop, seconds: float, happen: Callable[[], None]) -> Moment:
        """Let something happen after this many seconds."""
        moment = Moment(loop.time() + seconds, happen)
        self.start(loop, moment)
        return moment

    def start(self, loop: asyncio.AbstractEventLoop, moment: Moment) -> None:
        # The caller passes the loop, because asking which loop runs is a system call.
        if loop is not self._loop:
            # The old loop has ended, so its moments will never come.
            self._loop, self._armed, self._timer, self._moments = loop, math.inf, None, set()
        self._moments.add(moment)
        if moment.due < self._armed:
            self._arm(loop, moment.due)

    def drop(self, moment: Moment) -> None:
        self._moments.discard(moment)

    def limit(self, seconds: float) -> "TimeLimit":
        """Like `asyncio.timeout`, but for a plain `with`."""
        return TimeLimit(self, seconds)

    def _arm(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed, self._timer = due, loop.call_at(due, self._look, loop, context=self._context)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop:
            return
        # The loop may call a little before the time, by its clock.
        now = max(loop.time(), self._armed)
        self._armed, self._timer = math.inf, None
        for moment in [moment for moment in self._moments if moment.due <= now]:
            self._moments.discard(moment)
            moment.happen()
        if self._moments:
            self._arm(loop, max(now + _APART, min(moment.due for moment in self._moments)))


class TimeLimit(Moment):
    """A block that must be done by this moment.

    Raises:
        TimeoutError: the block was not done in time.
    """

    __slots__ = ("_is_over", "_others", "_seconds", "_task", "_timer")

    def __init__(self, timer: SharedTimer, seconds: float) -> None:
        self._timer, self._seconds, self._is_over = timer, seconds, False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[Any] = task
        self._others = task.cancelling()
        loop = task.get_loop()
        self.due = loop.time() + self._seconds
        self._timer.start(loop, self)

    def happen(self) -> None:
        self._is_over = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.drop(self)
        if self._is_over and self._task.uncancel() <= self._others and kind is asyncio.CancelledError:
            raise TimeoutError from error
