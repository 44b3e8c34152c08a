"""A limit on how many of something run at once in this process."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from threading import Lock


class CrossLoopSemaphore:
    """So many slots, given out in turn. Not an asyncio.Semaphore, because the embedded brain has a loop of its own."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._queue: deque[Future[None]] = deque()
        self._lock = Lock()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[bool]:
        """Hold a slot for a while; true if it had to wait for one. The caller must limit the wait."""
        turn = self._take_or_queue()
        if turn is not None:
            await self._wait(turn)
        try:
            yield turn is not None
        finally:
            self._give_back()

    def _take_or_queue(self) -> Future[None] | None:
        with self._lock:
            if self._free:
                self._free -= 1
                return None
            turn: Future[None] = Future()
            self._queue.append(turn)
            return turn

    async def _wait(self, turn: Future[None]) -> None:
        try:
            await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            # The slot came at the moment when the wait was cancelled, so it goes to the next in line.
            if not turn.cancel():
                self._give_back()
            raise

    def _give_back(self) -> None:
        with self._lock:
            while self._queue:
                turn = self._queue.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            self._free += 1
