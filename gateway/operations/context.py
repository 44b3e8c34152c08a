"""What a step works with: one call's way to the platform."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from gateway.operations.table import Args, JsonObject, Op


class StepContext(Protocol):
    """One call, as a step sees it. It says what to do, never how a platform spells it."""

    caller: str
    """A name for the caller in paths, which does not reveal who they are."""
    own_tree: str | None
    """The caller's private folder below `memory/agent/`; None with one tenant."""

    @property
    def may_have_written(self) -> bool:
        """Whether a request was sent that may have changed the brain. A refused request has not changed it."""
        ...

    async def send(self, op: Op, args: Args) -> JsonObject:
        """Do one thing on the platform.

        Raises:
            Absent: it has no such route.
            GatewayError: it refused, failed, or could not be reached.
        """
        ...

    async def open(self, op: Op, args: Args) -> AbstractAsyncContextManager[Any]:
        """Begin one thing on the platform whose answer comes in frames. Read the frames inside the `async with` block.

        Raises:
            Absent: it has no such route.
            GatewayError: it refused, failed, or could not be reached.
        """
        ...

    async def has(self, op: Op) -> bool:
        """Whether the platform has a route for this, as far as is known."""
        ...

    def project_of(self, actor: str | None) -> str | None:
        """The folder of the project that an actor's memories belong to, below `memory/project/`."""
        ...

    def finds(self, path: str) -> bool:
        """Whether search ever finds what is stored at a path."""
        ...

    def writes_index(self) -> bool:
        """Whether the platform writes index files of notes when it consolidates."""
        ...

    async def vet(self, url: str) -> None:
        """Refuse a URL that nobody may be sent to.

        Raises:
            GatewayError: fetch_blocked.
        """
        ...

    async def text_of(self, content_type: str, body: bytes) -> str:
        """The text of a file that is not text: HTML or PDF.

        Raises:
            GatewayError: fetch_failed, when there is none in it.
        """
        ...

    def alone(
        self, name: str, *, among_all: bool = False, among_replicas: bool = False
    ) -> AbstractAsyncContextManager[None]:
        """Hold the lock of a name for as long as the block takes: within this process, or with `among_replicas` among
        all processes that share a store of limits. If one of those is killed, the others wait for some seconds more,
        so that what it has sent arrives.

        Only calls of the same caller wait, or with `among_all` those of everybody: then the brain has to be in the
        name.

        A path is enough as a name. If it contained the brain, a brain that is named by its slug and by its id would
        have two locks. As it does not, a call that writes to the same path of another brain waits for a moment.
        """
        ...

    def later(self, name: str, job: Callable[["StepContext"], Awaitable[None]]) -> None:
        """Do this after the call was answered. Of each name, only one job runs at a time."""
        ...
