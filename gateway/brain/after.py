"""Work that goes on after a call was answered: tracked, one at a time for each name, and seen through at the end."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from gateway.operations.errors import Absent, GatewayError

log = structlog.get_logger()

Job = Callable[[], Awaitable[None]]


class AfterAnswers:
    """Jobs by name. A job asked for while it runs is run once more afterwards: it will see what came in between.

    Nothing is lost with a job that is stopped: what it did is noted in the brain, and the next one goes on from there.
    """

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[None]] = {}
        self._again: dict[str, Job] = {}

    def start(self, name: str, job: Job) -> None:
        if name in self._running:
            self._again[name] = job
            return
        task = asyncio.create_task(self._run(name, job), name=name)
        self._running[name] = task

    async def drain(self, seconds: float) -> None:
        """Wait for what is under way, so long and no longer."""
        if running := list(self._running.values()):
            _, late = await asyncio.wait(running, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _run(self, name: str, job: Job) -> None:
        next_job: Job | None = job
        try:
            while next_job is not None:
                await _logged(name, next_job)
                next_job = self._again.pop(name, None)
        finally:
            self._again.pop(name, None)
            del self._running[name]


async def _logged(name: str, job: Job) -> None:
    """A job nobody waits for tells the log what it could not do."""
    try:
        await job()
    except GatewayError as error:
        log.warning("after.failed", job=name, code=error.code)
    except Absent:
        log.warning("after.failed", job=name, code="not_implemented")
    except Exception:  # nobody else would hear of a bug of ours
        log.exception("after.crashed", job=name)
