"""Operations that are seen through when their caller leaves: once something was written, the rest belongs to it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

GRACE_SECONDS: Final = 10.0


class Finishing:
    """Runs operations so that whoever waits for one may leave at any moment, and nothing is left half done."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, operation: Coroutine[Any, Any, T], has_written: Callable[[], bool]) -> T:
        """The outcome of an operation. When the caller leaves, it ends with them, unless it has begun to write."""
        task = asyncio.create_task(operation)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_retrieved)
            if has_written():
                asyncio.get_running_loop().call_later(GRACE_SECONDS, task.cancel)
            else:
                task.cancel()
            raise

    async def drain(self, seconds: float) -> None:
        """Wait for what is under way, so long and no longer."""
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


def _retrieved(task: asyncio.Task[Any]) -> None:
    """Nobody awaits it any more; looking at its failure keeps asyncio from reporting it as lost."""
    if not task.cancelled():
        task.exception()
