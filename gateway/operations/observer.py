"""Observers are told what happens, for metrics and traces. Without metrics and traces, there is no observer."""

from typing import Any, Protocol

from gateway.operations.caller import Call


class Observer:
    """Is told of rare events. This class ignores them."""

    def unknown_tool(self, surface: str) -> None:
        """Somebody called a tool that a surface does not have."""

    def repeated(self, kind: str, *, is_allowed: bool) -> None:
        """A request to the platform failed and could be sent again, if the budget allows that."""

    def left_alone(self, kind: str, is_so: bool) -> None:
        """From now on the gateway leaves the platform alone, or no longer does."""

    def detected(self, dialect: str | None) -> None:
        """Detection has found the platform's dialect, or none."""

    def lacks(self, routes: int) -> None:
        """So many routes are known to be absent."""

    def limit_reached(self, limit: str) -> None:
        """A caller was refused because of a limit."""

    def works_on(self, running: int, waiting: int) -> None:
        """How many jobs after answers run, and how many wait to be run once more."""

    def job_ended(self, outcome: str) -> None:
        """A job after an answer is done, has failed or crashed."""

    def spans(self, outcome: str, count: int) -> None:
        """So many spans of traces were sent to a collector, dropped before, or not taken by it."""


class ToolObserver(Protocol):
    """Is told of every call of one tool. It exists only if calls are observed."""

    def begin(self) -> Any:
        """A call begins. The returned value is passed to `end`."""

    def end(self, begun: Any, call: Call, outcome: str, seconds: float) -> None:
        """The call has ended: `ok`, `cancelled`, `crashed`, or the code of an error."""
