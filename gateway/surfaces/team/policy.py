"""Where entries without a scope are stored: a note in the team's brain says so, else the gateway's setting."""

from typing import Final

import structlog

from gateway.brain.notebook import Notebook
from gateway.operations.caller import Call
from gateway.operations.notes import Note, understood

log = structlog.get_logger()

# Not an entry: no key begins like this, and no listing shows it. A person writes it, on the platform.
PATH: Final = "memory/global/team/_policy.md"
FIELD: Final = "write_scope"
CHOICES: Final = ("ask", "project", "global")
_TOLD: Final = 1000


class Policy:
    """The write-scope policy of each team, which is a brain."""

    def __init__(self, notes: Notebook, otherwise: str) -> None:
        self._notes, self._otherwise = notes, otherwise
        self._told: set[str | None] = set()

    async def write_scope(self, call: Call) -> str:
        note = await self._notes.read(call, PATH)
        said = None if note is None else understood(note, _has_policy).text(FIELD)
        if said in CHOICES:
            return str(said)
        if note is not None:
            self._tell_once(call.brain)
        return self._otherwise

    def _tell_once(self, brain: str | None) -> None:
        """Tell the log of a note without a valid policy, once for each brain, for a limited number of brains."""
        if brain not in self._told and len(self._told) < _TOLD:
            self._told.add(brain)
            log.warning("team.policy_ignored", brain=brain, path=PATH, wanted=f"{FIELD}: {' | '.join(CHOICES)}")


def _has_policy(note: Note) -> bool:
    return note.text(FIELD) is not None
