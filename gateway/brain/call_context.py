"""One call's way to the platform, and to what the gateway itself can do: the work that steps are given."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace

from gateway.brain.after import AfterAnswers
from gateway.brain.finishing import Finishing
from gateway.brain.locks import Locks
from gateway.ingest.web_page import Fetch, document_of
from gateway.operations import names
from gateway.operations.caller import Call
from gateway.operations.context import Work
from gateway.operations.errors import Absent
from gateway.operations.table import READS, Args, JsonObject, Op
from gateway.upstream.pipeline import Upstream

Vet = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Means:
    """What all calls share: the way to the platform, and what the gateway does itself."""

    upstream: Upstream
    fetch: Fetch | None = None
    vet: Vet | None = None
    shared: bool = False
    after: AfterAnswers = field(default_factory=AfterAnswers)
    locks: Locks = field(default_factory=Locks)
    finishing: Finishing = field(default_factory=Finishing)


class CallWork(Work):
    """One call's way to the platform, and to what the gateway itself can do."""

    def __init__(self, call: Call, means: Means) -> None:
        self.caller = names.caller_name(call.caller.subject)
        self.routes: dict[Op, str | None] = {}
        self.has_written = False
        """Whether anything was sent that changes the brain."""
        self._call = call
        self._means = means
        # Nobody waits for a stranger whose brain happens to have the same name.
        self._tenant = call.caller.subject if means.shared else ""
        self._page: Args | None = None

    async def send(self, op: Op, args: Args) -> JsonObject:
        if op is Op.FETCH_PAGE:
            return dict(await self._fetched(str(args["url"])))
        self.has_written |= op not in READS
        try:
            return await self._means.upstream.send(self._call, op, args)
        finally:
            # Also when it failed: a step may make up for that, and still this was the route.
            self.routes[op] = self._call.route

    async def has(self, op: Op) -> bool:
        if op is Op.FETCH_PAGE:
            return self._means.fetch is not None
        try:
            (await self._means.upstream.verdict(self._call)).route(op)
        except Absent:
            return False
        return True

    def finds(self, path: str) -> bool:
        return self._means.upstream.finds(path)

    async def vet(self, url: str) -> None:
        if self._means.vet is not None:
            await self._means.vet(url)

    def alone(self, name: str) -> AbstractAsyncContextManager[None]:
        return self._means.locks.alone(f"{self._tenant}:{name}")

    def later(self, name: str, job: Callable[[Work], Awaitable[None]]) -> None:
        work = CallWork(self.afterwards(), self._means)
        self._means.after.start(f"{self._tenant}:{name}", lambda: job(work))

    def afterwards(self) -> Call:
        """A call for what goes on when this one is answered: the same caller, without a key that was for it alone."""
        caller = self._call.caller
        caller = replace(caller, llm_key=None, preferred=self._call.brain or caller.preferred)
        return Call(caller, self._call.request_id, self._call.scope, self._call.brain, began=None)

    async def _fetched(self, url: str) -> Args:
        """The page, fetched once for all steps that might store it."""
        if self._means.fetch is None:
            raise Absent
        if self._page is None:
            self._page = await document_of(await self._means.fetch(url))
        return self._page
