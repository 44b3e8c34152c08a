"""What every endpoint works with: the store, and threads to call it in."""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar
from urllib.parse import unquote

import structlog
from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from contract.platform.brains import Brain, Caller
from contract.platform.convert import Convert
from contract.platform.ingest import Fetch
from contract.platform.llm.client import Chat
from contract.platform.llm.work import Work
from contract.platform.store import Store

log = structlog.get_logger()

Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")

NO_STORE: Final = {"cache-control": "no-store"}
LOOK_SECONDS: Final = 0.1
KEY_LENGTH: Final = 4096
LARGE: Final = 256 * 1024


class Lookout:
    """The number of the last change in the log. It is read, as other processes write too, once for all listeners."""

    def __init__(self) -> None:
        self._seen = 0
        self._due = 0.0

    async def latest(self, platform: "Platform") -> int:
        moment = time.monotonic()
        if moment >= self._due:
            # A listener that asks meanwhile gets the last value, and asks again soon.
            self._due = moment + LOOK_SECONDS
            self._seen = await in_thread(platform.lookups, platform.store.changes.latest)
        return self._seen


@dataclass(frozen=True)
class Platform:
    """The store, and one set of threads per kind of work, so that slow work only waits for its own kind."""

    store: Store
    fetch: Fetch | None
    convert: Convert | None = None
    chat: Chat | None = None
    """The language model, where there is one."""
    work: Work | None = None
    """What it does after an answer."""
    ping_seconds: float = 25.0
    lookout: Lookout = field(default_factory=Lookout)
    lookups: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(8))
    searches: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))
    writes: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))
    # Indexing a large document takes seconds. Only one at a time, so that small writes come between two of them.
    large_writes: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))

    def writes_of(self, size: int) -> CapacityLimiter:
        return self.large_writes if size > LARGE else self.writes


Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
BrainEndpoint: TypeAlias = Callable[[Request, Brain], Awaitable[Response]]


def platform_of(request: Request) -> Platform:
    platform: Platform = request.app.state.platform
    return platform


def caller_of(request: Request) -> Caller:
    """The caller, named by the gateway in front, which is the only one that has the token of this platform."""
    owner, org = request.headers.get("x-brains-caller"), request.headers.get("x-brains-org")
    return Caller(owner, unquote(org) if org else None)


def lent_key(request: Request) -> str | None:
    """A key for the language model that the caller lends, for this call and for the work that it sets off."""
    key = request.headers.get("x-llm-api-key", "")
    if not 0 < len(key) <= KEY_LENGTH or not key.isascii() or not key.isprintable():
        return None
    if platform_of(request).chat is None:
        log.warning("llm_key.ignored", reason="no language model is set: BRAINS_LLM_URL and BRAINS_LLM_MODEL say which")
        return None
    return key


async def in_thread(
    limiter: CapacityLimiter,
    work: Callable[Parameters, Result],
    *arguments: Parameters.args,
    **options: Parameters.kwargs,
) -> Result:
    return await to_thread.run_sync(lambda: work(*arguments, **options), limiter=limiter)


async def while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Work that is stopped if the client leaves; the body of the request must have been read.

    Raises: ClientDisconnect.
    """
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.wait({working, leaving})


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def in_brain(endpoint: BrainEndpoint) -> Endpoint:
    """Find the brain in the path before anything of the request is read."""

    async def found(request: Request) -> Response:
        platform = platform_of(request)
        if platform.work is not None:
            platform.work.wake()
        reference, caller = request.path_params["brain"], caller_of(request)
        # A thread takes several times as long as a glance. Only there can a brain be waited for, or be refused.
        brain = platform.store.glance_at_brain(reference, caller)
        if brain is None:
            brain = await in_thread(platform.lookups, platform.store.brain, reference, caller)
        try:
            return await endpoint(request, brain)
        except sqlite3.Error:
            # The brain may have been deleted meanwhile. Then the answer says so, and it is not a failure.
            await in_thread(platform.lookups, platform.store.brain, brain.id)
            raise

    return found
