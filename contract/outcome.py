"""What comes of a case, and of a run of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

Outcome: TypeAlias = Literal["passed", "failed", "not supported"]


class Judged(Protocol):
    """What a report needs to know of a case."""

    @property
    def id(self) -> str: ...
    @property
    def what(self) -> str: ...
    @property
    def requirement(self) -> Literal["must", "should"]: ...
    @property
    def source(self) -> str: ...
    @property
    def area(self) -> str: ...


class Target(Protocol):
    """What a report needs to know of what was checked."""

    left: list[str]

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
    """What was asked, what should have come, and what came."""

    request: str
    expected: str
    seen: str


@dataclass(frozen=True)
class Result:
    case: Judged
    outcome: Outcome
    failure: Failure | None = None
    why: str = ""


Checked = TypeVar("Checked", bound=Target)


@dataclass
class Run(Generic[Checked]):
    """The results of a run, in the order of their ids."""

    target: Checked
    results: list[Result] = field(default_factory=list)
    left_out: int = 0


class Failed(Exception):
    """A step was answered otherwise than expected."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.expected)
        self.failure = failure


class NotSupported(Exception):
    """The target does not offer what the case is about; the text is one sentence without its full stop."""


class NoBrain(Exception):
    """The target made no brain for the run; the text is one sentence."""


class Unchecked(Exception):
    """Nothing could be checked: nobody is there, or somebody else; the text is one sentence without its full stop."""


Told: TypeAlias = Callable[[Result, int, int], None]
