"""After an answer, a model looks for facts in new texts. No call waits for that, or fails with it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, ParamSpec, TypeVar

import structlog
from anyio import CapacityLimiter, to_thread

from contract.platform.extract import Fact
from contract.platform.llm import outcome
from contract.platform.llm.backlog import Backlog, ForModel, Item, Subject
from contract.platform.llm.client import Chat
from contract.platform.llm.deriving import derive_as
from contract.platform.llm.outcome import Failed
from contract.platform.llm.tasks import Facts

log = structlog.get_logger()

Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")

AT_ONCE: Final = 2
# After a failure it is tried again so much later, each time twice as long.
PAUSE_SECONDS: Final = 30.0
LONGEST_PAUSE: Final = 3600.0
# The same for a model that cannot be reached. Asking whether it is back costs nothing.
LONGEST_AWAY: Final = 300.0


class Work:
    """The tasks of one process. A key that a caller lends is held here, and goes with the work of that call."""

    def __init__(self, backlog: Backlog, chat: Chat) -> None:
        self._backlog, self._chat = backlog, chat
        self._tasks: set[asyncio.Task[None]] = set()
        # For each subject, the calls that wrote to it: up to which place, and with which key.
        self._calls: dict[Subject, list[tuple[int, str | None]]] = {}
        self._under_way: set[Subject] = set()
        self._is_awake = False
        self._failures = 0
        self._timer: asyncio.TimerHandle | None = None
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._thread = CapacityLimiter(1)

    def begin(self, left: ForModel, key: str | None) -> None:
        """Work on the text that a call has just written, with the key that it lends."""
        if left.subject is not None:
            self._calls.setdefault(left.subject, []).append((left.up_to, key))
            self._start(self._begun(left.subject))

    def wake(self) -> None:
        """Continue the work that an earlier process, or a model that failed, has left; only with our own key."""
        if not self._is_awake:
            self._is_awake = True
            self._start(self._resume())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("model_work.crashed", exc_info=error)

    async def _begun(self, subject: Subject) -> None:
        item = await self._in_thread(self._backlog.claim, subject)
        if item is not None:
            await self._work(item)
        elif subject not in self._under_way:
            # Another process has it.
            self._calls.pop(subject, None)

    async def _resume(self) -> None:
        while (item := await self._in_thread(self._backlog.claim)) is not None:
            if not await self._work(item):
                return

    async def _work(self, item: Item) -> bool:
        """Do all work for one subject, also work that is added meanwhile. Returns false if the model failed."""
        subject = item.subject
        self._under_way.add(subject)
        try:
            async with self._turns:
                while True:
                    done = await self._look(item)
                    if isinstance(done, Failed):
                        await self._in_thread(self._backlog.give_back, item, failed=not done.is_for_all)
                        self._try_later(done)
                        return False
                    item, self._failures = done, 0
                    if await self._in_thread(self._backlog.finish, item):
                        return True
        finally:
            # Keys go with the work they were lent for, however it ends.
            self._under_way.discard(subject)
            self._calls.pop(subject, None)

    async def _look(self, item: Item) -> Item | Failed:
        """Find facts in one part after the other, and keep them: what is done need not be done again."""
        while True:
            up_to, key = self._call_of(item)
            part = await self._in_thread(self._backlog.next_part, item, up_to)
            if part is None:
                return item
            result = await derive_as(Facts, self._chat, "facts", part.sources, key)
            if isinstance(result, Failed):
                return result
            found = [Fact(one.kind, one.sentence) for one in result.facts]
            item = await self._in_thread(self._backlog.keep, item, part, found)

    def _call_of(self, item: Item) -> tuple[int | None, str | None]:
        """The call that wrote the next part: up to which place, and with which key."""
        calls = self._calls.get(item.subject, [])
        while calls and calls[0][0] <= item.done:
            calls.pop(0)
        return calls[0] if calls else (None, None)

    def _try_later(self, failure: Failed) -> None:
        if self._timer is not None:
            # That one goes on with all that is left.
            return
        longest = LONGEST_AWAY if failure == outcome.UNREACHABLE else LONGEST_PAUSE
        pause = min(max(failure.retry_after or 0.0, PAUSE_SECONDS * 2**self._failures), longest)
        self._failures = min(self._failures + (failure != outcome.UNREACHABLE or pause < longest), 10)
        log.warning("model_work.postponed", code=failure.code, seconds=round(pause))
        self._timer = asyncio.get_running_loop().call_later(pause, self._sleep_over)

    def _sleep_over(self) -> None:
        self._timer = None
        self._is_awake = False
        self.wake()

    async def _in_thread(
        self, work: Callable[Parameters, Result], *arguments: Parameters.args, **options: Parameters.kwargs
    ) -> Result:
        return await to_thread.run_sync(lambda: work(*arguments, **options), limiter=self._thread)
