"""Keeps track of what does not answer: single routes or tools, which are not asked again, or the whole target."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from contract.causes import silence_of
from contract.outcome import Blocked

# After this many unanswered requests in a row, routes or the target are given up, so that no more cases wait for them.
GIVEN_UP: Final = 6


@dataclass
class Silence:
    """`is_alive` sends the target a simple request, to see whether it answers at all."""

    is_alive: Callable[[], Awaitable[bool]]
    _gone: str | None = None
    _silent: dict[str, str] = field(default_factory=dict)
    _in_a_row: list[str] = field(default_factory=list)

    def refuse(self, subject: str) -> None:
        """Raises: Blocked: the target, or this route or tool, was given up."""
        error = self._silent.get(subject) if self._gone is None else self._gone
        if error is not None:
            raise Blocked(silence_of(error))

    async def note(self, subject: str, error: str) -> None:
        """Count a request that got no answer. If the target is alive, only the silent routes or tools are given up."""
        self._in_a_row.append(subject)
        if len(self._in_a_row) < GIVEN_UP:
            return
        quiet, self._in_a_row = self._in_a_row, []
        if await self.is_alive():
            self._silent |= dict.fromkeys(quiet, error)
        else:
            self._gone = error

    def end(self) -> None:
        """Start counting again, because a request was answered."""
        self._in_a_row.clear()
