"""The outcome of a case, and of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

Outcome: TypeAlias = Literal["passed", "failed", "not tested", "not supported"]
Harm: TypeAlias = Literal["escape", "leak", "lost write", "doubled write"]


class Judged(Protocol):
    """What a report needs to know about a case."""

    @property
    def id(self) -> str: ...
    @property
    def what(self) -> str: ...
    @property
    def requirement(self) -> Literal["must", "should"]: ...
    @property
    def source(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def area(self) -> str: ...
    @property
    def harm(self) -> Harm | None: ...


class Target(Protocol):
    """What a report needs to know about the target."""

    left: list[str]
    run: str
    capabilities: dict[str, str]

    @property
    def told(self) -> str:
        """What it is, in one sentence."""

    @property
    def leftovers(self) -> list[str]:
        """What the run leaves behind, in sentences."""

    def facts(self) -> Mapping[str, Any]:
        """The same for machines."""


@dataclass(frozen=True)
class Failure:
    """What was asked, what should have come, and what came.

    `subject` is the tool or route. `error` is what it said if it failed, and `refused` says that it should not have.
    `harms` says that the harm of the case was seen: an honest refusal does no harm.
    """

    request: str
    expected: str
    seen: str
    subject: str = ""
    error: str = ""
    refused: bool = False
    harms: bool = False


@dataclass(frozen=True)
class Cause:
    """Why cases were not tried, reported once for all of them, and whether that is a fault of the target."""

    sentence: str
    is_fault: bool
    subject: str = ""
    error: str = ""


@dataclass(frozen=True)
class Result:
    case: Judged
    outcome: Outcome
    failure: Failure | None = None
    why: str = ""
    cause: Cause | None = None
    seconds: float = 0.0

    @property
    def harms(self) -> bool:
        return self.failure is not None and self.failure.harms

    @property
    def is_wrong(self) -> bool:
        """It failed, or could not be tried because of a fault of the target."""
        return self.outcome == "failed" or (self.cause is not None and self.cause.is_fault)


Checked = TypeVar("Checked", bound=Target)


@dataclass
class Run(Generic[Checked]):
    """The results of a run, in the order of their ids. `left_out` counts cases that do not apply, by reason."""

    target: Checked
    results: list[Result] = field(default_factory=list)
    left_out: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    started: str = ""


class Failed(Exception):
    """The answer to a step was not as expected."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.expected)
        self.failure = failure


class Blocked(Exception):
    """The case was not tried, because something that it needs is not there."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.sentence)
        self.cause = cause


class NotSupported(Exception):
    """The target says that it does not have what the case is about; the text is one sentence without its full stop."""


class Unchecked(Exception):
    """Nothing could be checked: no server is there, or another kind; the text is one sentence without its full stop."""


Told: TypeAlias = Callable[[Result, int, int], None]
