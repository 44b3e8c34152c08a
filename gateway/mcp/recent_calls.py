"""The last calls of each caller, which only that caller can see: the tool and the outcome, without content.

They are kept in this process alone, and are gone when it ends.
"""

from collections import OrderedDict, deque
from typing import Final, NamedTuple

_EACH: Final = 100
_CALLERS: Final = 256


class RecentCall(NamedTuple):
    """One call, as its caller may see it."""

    at: float
    """Seconds since 1970, when it was answered."""
    tool: str
    brain: str | None
    route: str | None
    status: str
    ms: float


class RecentCalls:
    """The last calls, for a limited number of callers."""

    def __init__(self, each: int = _EACH, callers: int = _CALLERS) -> None:
        self._each, self._callers = each, callers
        self._kept: OrderedDict[str, deque[RecentCall]] = OrderedDict()

    def add(self, caller: str, served: RecentCall) -> None:
        if (kept := self._kept.get(caller)) is None:
            kept = self._kept[caller] = deque(maxlen=self._each)
            if len(self._kept) > self._callers:
                self._kept.popitem(last=False)
        kept.append(served)
        self._kept.move_to_end(caller)

    def of(self, caller: str) -> list[RecentCall]:
        """The newest first."""
        return list(reversed(self._kept.get(caller, ())))
