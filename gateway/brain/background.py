"""Work that goes on although no caller waits for it: writes whose caller left, and jobs after an answer."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

import structlog

from gateway.operations.errors import Absent, GatewayError
from gateway.operations.observer import Observer

log = structlog.get_logger()

Job = Callable[[], Awaitable[None]]
T = TypeVar("T")

GRACE_SECONDS: Final = 10.0


class Background:
    """Tracks that work, so that none of it is cut off while the process may still finish it.

    Nothing is lost if a job is stopped: the brain holds a note of what it did, and the next job goes on from there.
    """

    def __init__(self, observer: Observer | None = None) -> None:
        self._observer = observer or Observer()
        self._finishing: set[asyncio.Task[Any]] = set()
        self._jobs: dict[str, asyncio.Task[None]] = {}
        self._again: dict[str, Job] = {}

    async def finish(self, operation: Coroutine[Any, Any, T], may_have_written: Callable[[], bool]) -> T:
        """The outcome of an operation. When the caller leaves, it ends with them, unless it has begun to write."""
        task = asyncio.create_task(operation)
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_look_at_failure)
            if may_have_written():
                asyncio.get_running_loop().call_later(GRACE_SECONDS, task.cancel)
            else:
                task.cancel()
            raise

    def start(self, name: str, job: Job) -> None:
        """Begin a job. If it is asked for while it runs, it runs once more, so that it sees what came in between."""
        if name in self._jobs:
            self._again[name] = job
        else:
            self._jobs[name] = asyncio.create_task(self._run(name, job), name=name)
        self._tell()

    def _tell(self) -> None:
        self._observer.works_on(len(self._jobs), len(self._again))

    async def drain(self, seconds: float) -> None:
        """Wait for what is under way, so long and no longer: first for writes, then for jobs, which they may start."""
        until = asyncio.get_running_loop().time() + seconds
        await _wait_for(self._finishing, seconds)
        await _wait_for(self._jobs.values(), max(until - asyncio.get_running_loop().time(), 0.0))

    async def _run(self, name: str, job: Job) -> None:
        next_job: Job | None = job
        try:
            while next_job is not None:
                self._observer.job_ended(await _run_and_log(name, next_job))
                next_job = self._again.pop(name, None)
                self._tell()
        finally:
            self._again.pop(name, None)
            del self._jobs[name]
            self._tell()


async def _wait_for(tasks: Any, seconds: float) -> None:
    if running := list(tasks):
        _, late = await asyncio.wait(running, timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


async def _run_and_log(name: str, job: Job) -> str:
    """How a job ended. No caller waits for it, so a failure goes to the log."""
    try:
        await job()
        return "done"
    except GatewayError as error:
        log.warning("after.failed", job=name, code=error.code)
    except Absent:
        log.warning("after.failed", job=name, code="not_implemented")
    except Exception:  # no caller waits, so only the log can report a bug
        log.exception("after.crashed", job=name)
        return "crashed"
    return "failed"


def _look_at_failure(task: asyncio.Task[Any]) -> None:
    """Nothing awaits the task any more. Reading its failure keeps asyncio from reporting it as lost."""
    if not task.cancelled():
        task.exception()
