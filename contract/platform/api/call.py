"""What every endpoint works with: the store, and threads to call it in."""

import sqlite3
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, ParamSpec, TypeAlias, TypeVar
from urllib.parse import unquote

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import Response

from contract.platform.brains import Brain, Caller
from contract.platform.ingest import Fetch
from contract.platform.store import Store

Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")

NO_STORE: Final = {"cache-control": "no-store"}
LOOK_SECONDS: Final = 0.1


class Lookout:
    """How far the log of changes is. Other processes write to it too, so that only looking tells: once for all."""

    def __init__(self) -> None:
        self._seen = 0
        self._due = 0.0

    async def latest(self, platform: "Platform") -> int:
        moment = time.monotonic()
        if moment >= self._due:
            # Whoever asks meanwhile is told what was seen before, and asks again soon.
            self._due = moment + LOOK_SECONDS
            self._seen = await in_thread(platform.lookups, platform.store.changes.latest)
        return self._seen


@dataclass(frozen=True)
class Platform:
    """The store, and one set of threads per kind of work, so that slow work only waits for its own kind."""

    store: Store
    fetch: Fetch | None
    ping_seconds: float = 25.0
    lookout: Lookout = field(default_factory=Lookout)
    lookups: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(8))
    searches: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))
    writes: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(4))
    conversions: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(2))


Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
BrainEndpoint: TypeAlias = Callable[[Request, Brain], Awaitable[Response]]


def platform_of(request: Request) -> Platform:
    platform: Platform = request.app.state.platform
    return platform


def caller_of(request: Request) -> Caller:
    """Who the request is for, as the gateway in front says: it alone has the token of this platform."""
    owner, org = request.headers.get("x-brains-caller"), request.headers.get("x-brains-org")
    return Caller(owner, unquote(org) if org else None)


async def in_thread(
    limiter: CapacityLimiter,
    work: Callable[Parameters, Result],
    *arguments: Parameters.args,
    **options: Parameters.kwargs,
) -> Result:
    return await to_thread.run_sync(lambda: work(*arguments, **options), limiter=limiter)


def in_brain(endpoint: BrainEndpoint) -> Endpoint:
    """Find the brain in the path before anything of the request is read."""

    async def found(request: Request) -> Response:
        platform = platform_of(request)
        caller = caller_of(request)
        brain = await in_thread(platform.lookups, platform.store.brain, request.path_params["brain"], caller)
        try:
            return await endpoint(request, brain)
        except sqlite3.Error:
            # The brain may have been deleted meanwhile; then that is the answer, and not a failure.
            await in_thread(platform.lookups, platform.store.brain, brain.id)
            raise

    return found
