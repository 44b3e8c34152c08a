"""Refused requests in the log, one line each: why, and who called. Very many of them must not fill a disk."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import structlog
from starlette.types import Scope

from gateway.operations import audit
from gateway.operations.caller import LOCAL, NOBODY, HttpAnswer

log = structlog.get_logger()

# The length of a period in seconds, and how many lines are written in it, in all and for one address.
SECONDS: Final = 60.0
LINES: Final = 300
LINES_OF_ONE: Final = 60
_LONGEST: Final = 200
# Used if no layer has said why.
_REASONS: Final = {
    400: "not a message of MCP",
    403: "the origin is not allowed",
    404: "nothing is served at this path",
    405: "not a POST",
    406: "the client does not accept both JSON and events",
    421: "the host name is not known",
}
# Refusals with these statuses also go to the audit log.
_OF_ACCESS: Final = frozenset({401, 403, 421})
# The header that such a refusal is about, if no layer has said why.
_ABOUT: Final = {403: b"origin", 421: b"host"}


class RefusalLog:
    """Logs refusals, up to a number in each period, and then how many were left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = -1.0
        self._written: Counter[str | None] = Counter()
        self._left_out: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    def note_answer(self, status: int, scope: Scope, answer: HttpAnswer) -> None:
        """A refusal that is sent now."""
        refusal, principal = answer.refusal, answer.principal
        given = answer.reason or (refusal.message if refusal else None)
        reason = given or _REASONS.get(status, "refused")
        about = next((value for name, value in scope["headers"] if name == _ABOUT.get(status)), None)
        is_told = self.note(
            status,
            reason if about is None or given is not None else f"{reason}: {about.decode('latin-1')}",
            address=answer.address,
            request_id=answer.request_id,
            path=scope["path"],
            caller=None if principal is None or principal is LOCAL else principal.known_as,
        )
        # A refusal by a tool has a line already.
        if is_told and status in _OF_ACCESS and refusal is None:
            whose = audit.of_caller(principal or NOBODY, answer)
            audit.note("refused", **whose, outcome=reason, status=status, request_id=answer.request_id)

    def note(
        self,
        status: int,
        reason: str,
        *,
        address: str | None,
        request_id: str,
        path: str | None = None,
        caller: str | None = None,
    ) -> bool:
        """Returns whether it has a line."""
        if self._clock() >= self._until:
            self.tell_left_out()
            self._until = self._clock() + SECONDS
        if self._written[address] >= LINES_OF_ONE or self._written.total() >= LINES:
            self._leave_out(status)
            return False
        self._written[address] += 1
        facts: dict[str, Any] = {"path": path and path[:_LONGEST], "caller": caller}
        log.warning(
            "http.refused",
            status=status,
            reason=reason[:_LONGEST],
            address=address,
            request_id=request_id,
            **{name: value for name, value in facts.items() if value is not None},
        )
        return True

    def _leave_out(self, status: int) -> None:
        self._left_out[str(status)] += 1
        if self._timer is None:
            # At the end of the period, a line must say how many were left out.
            wait = max(0.0, self._until - self._clock())
            self._timer = asyncio.get_running_loop().call_later(wait, self.tell_left_out)

    def tell_left_out(self) -> None:
        """How many had no line. The count begins again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._left_out:
            count, statuses = self._left_out.total(), dict(self._left_out)
            log.warning("http.refusals_left_out", count=count, statuses=statuses, seconds=SECONDS)
            audit.note("refused", outcome="left out", count=count, statuses=statuses)
        self._written.clear()
        self._left_out.clear()
        self._until = -1.0


REFUSALS: Final = RefusalLog()
