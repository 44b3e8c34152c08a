"""Who does not answer: one route or tool, which is not asked any more, or the whole target."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from contract.causes import silence_of
from contract.outcome import Blocked

# After so many requests in a row that nobody answered, the rest of the cases is not waited for.
GIVEN_UP: Final = 6


@dataclass
class Silence:
    """`is_alive` asks the target something easy."""

    is_alive: Callable[[], Awaitable[bool]]
    _gone: str | None = None
    _silent: dict[str, str] = field(default_factory=dict)
    _in_a_row: list[str] = field(default_factory=list)

    def refuse(self, subject: str) -> None:
        """Raises: Blocked: nobody would answer."""
        error = self._silent.get(subject) if self._gone is None else self._gone
        if error is not None:
            raise Blocked(silence_of(error))

    async def note(self, subject: str, error: str) -> None:
        """A request that nobody answered. One slow route is no reason to leave out what the others do."""
        self._in_a_row.append(subject)
        if len(self._in_a_row) < GIVEN_UP:
            return
        quiet, self._in_a_row = self._in_a_row, []
        if await self.is_alive():
            self._silent |= dict.fromkeys(quiet, error)
        else:
            self._gone = error

    def end(self) -> None:
        """Somebody answered."""
        self._in_a_row.clear()
