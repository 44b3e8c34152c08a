"""What must be remembered about logins: the last step of each, and which are revoked.

A *login* is what one consent began: its code is step 0, and each refresh token is the next step. Each step can be taken
once, at any replica. If one is taken again, either the first or the second was a thief, so the login ends.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from gateway.http.auth.inbound import ProviderDown, Refused

log = structlog.get_logger()

# How long an access token is good, and how long a login that is not used.
ACCESS_SECONDS: Final = 3600
IDLE_SECONDS: Final = 30 * 24 * 3600
# As long as a client could still bring a revoked token, with a margin for clocks that differ.
LISTED_SECONDS: Final = ACCESS_SECONDS + 600
_FRESH_SECONDS: Final = 1.0
_HOLDS_SECONDS: Final = 300.0
_ASKED_EVERY: Final = 2.0
_WAIT_SECONDS: Final = 3.0


class LoginsDown(Exception):
    """The memory of logins cannot be reached."""


class Logins(Protocol):
    """A memory that all replicas share. Every method raises LoginsDown."""

    async def take_step(self, login: str, step: int, seconds: float) -> bool:
        """Take a step. Returns whether it was the next one. If it was taken before, the login is revoked."""
        ...

    async def revoke(self, login: str, seconds: float) -> None: ...

    async def revoked(self, seconds: float) -> frozenset[str]:
        """The logins that were revoked in the last so many seconds."""
        ...

    async def close(self) -> None: ...


class Revocations:
    """Which logins are revoked, at most a second old. If the memory is down, the last list holds for five minutes."""

    def __init__(self, logins: Logins, clock: Callable[[], float] = time.monotonic) -> None:
        self._logins, self._clock = logins, clock
        self._revoked: frozenset[str] = frozenset()
        self._listed, self._asked = -_HOLDS_SECONDS, -_ASKED_EVERY
        self._asking: asyncio.Task[None] | None = None

    async def check(self, login: str) -> None:
        """Raises: Refused: it is revoked; ProviderDown: the memory has been down for too long."""
        now = self._clock()
        if now - self._listed >= _FRESH_SECONDS and (self._asking is not None or self._may_ask(now)):
            await asyncio.shield(self._ask())
        if self._clock() - self._listed >= _HOLDS_SECONDS:
            raise ProviderDown("revoked logins are not known")
        if login in self._revoked:
            raise Refused("revoked login")

    def note(self, login: str) -> None:
        """Note a login that was revoked by this process, without asking the memory."""
        self._revoked |= {login}

    async def problem(self) -> str | None:
        try:
            await self.check("")
        except ProviderDown:
            return "which logins are revoked cannot be read"
        return None

    def _may_ask(self, now: float) -> bool:
        # After a failure, not every call asks again.
        return self._listed >= self._asked or now - self._asked >= _ASKED_EVERY

    def _ask(self) -> "asyncio.Task[None]":
        """One request for all who wait."""
        if self._asking is None:
            self._asked = self._clock()
            self._asking = asyncio.create_task(self._list())
            self._asking.add_done_callback(self._done)
        return self._asking

    def _done(self, _task: "asyncio.Task[None]") -> None:
        self._asking = None

    async def _list(self) -> None:
        asked = self._asked
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                self._revoked = await self._logins.revoked(LISTED_SECONDS)
            self._listed = asked
        except (LoginsDown, TimeoutError) as error:
            log.error("logins.unreachable", error=type(error).__name__, meanwhile="The last list of them holds.")
