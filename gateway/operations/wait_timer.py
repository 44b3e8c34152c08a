"""A clock over many short waits, one after the other."""

import asyncio
import math
from collections.abc import Awaitable
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")


class WaitTimer:
    """Ends a wait that takes too long, as `asyncio.timeout_at` does, with one timer for all of them.

    `timeout_at` makes a timer for each wait, which costs more than handling the piece of an answer that comes.
    """

    def __init__(self) -> None:
        self._due = self._armed = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[object] | None = None
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def wait(self, awaited: Awaitable[T], until: float) -> T:
        """The result, if it comes in time.

        Raises:
            TimeoutError: it did not.
        """
        self._waiting = task = asyncio.current_task()
        assert task is not None
        others, self._due = task.cancelling(), until
        if until < self._armed:
            self._arm(until)
        try:
            return await awaited
        except asyncio.CancelledError:
            if self._ended(task) and task.cancelling() <= others:
                raise TimeoutError from None
            raise
        finally:
            self._due, self._waiting = math.inf, None
            # Also if the result came in the last moment, or the wait failed for another reason.
            self._ended(task)

    def _ended(self, task: asyncio.Task[object]) -> bool:
        """Whether this timer cancelled the task. If so, the cancellation is taken back."""
        if not self._is_over:
            return False
        self._is_over = False
        task.uncancel()
        return True

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed = when
        self._timer = asyncio.get_running_loop().call_at(when, self._look)

    def _look(self) -> None:
        self._timer, self._armed = None, math.inf
        if self._waiting is None:
            return
        if self._due > asyncio.get_running_loop().time():
            self._arm(self._due)
            return
        self._is_over = True
        self._waiting.cancel()
