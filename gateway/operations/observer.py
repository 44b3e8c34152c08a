"""Who is told what happens, for metrics and traces. Where neither is wanted, nobody is."""

from typing import Any, Protocol

from gateway.operations.caller import Call


class Observer:
    """Is told what happens seldom. This one does nothing with it."""

    def unknown_tool(self, surface: str) -> None:
        """Somebody called a tool that a surface does not have."""

    def repeated(self, kind: str, *, is_allowed: bool) -> None:
        """A request to the platform failed and is worth another, which the budget allows or not."""

    def left_alone(self, kind: str, is_so: bool) -> None:
        """The platform is left alone from now on, or no longer."""

    def detected(self, dialect: str | None) -> None:
        """It was found out which dialect the platform speaks; None: that did not succeed."""

    def lacks(self, routes: int) -> None:
        """So many routes are known to be absent."""

    def limit_reached(self, limit: str) -> None:
        """A caller was refused because of a limit."""

    def works_on(self, running: int, waiting: int) -> None:
        """So many jobs after answers run, and so many wait to be run once more."""

    def job_ended(self, outcome: str) -> None:
        """A job after an answer is done, has failed or crashed."""


class ToolObserver(Protocol):
    """Is told of every call of one tool. Where nobody observes there is none."""

    def begin(self) -> Any:
        """A call begins. What is returned is handed back when it ends."""

    def end(self, begun: Any, call: Call, outcome: str, seconds: float) -> None:
        """It has come to an end: `ok`, `cancelled`, `crashed`, or the code of an error."""
