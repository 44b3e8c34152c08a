"""What a measurement comes to: rows against a budget, tables of figures, and sentences."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    MET = "met"
    NOT_MET = "**not met**"
    NOT_MEASURED = "not measured"


class Unmeasured(Exception):
    """Why there is no figure, in one sentence: a contestant that failed is shown as such."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table of budgets."""

    what: str
    measured: str
    ratio: str
    budget: str
    verdict: Verdict
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Bars together in the chart, by whose they are."""

    label: str
    bars: dict[str, float]


@dataclass(slots=True)
class Section:
    """One measurement, whole: its rows, then the figures behind them."""

    title: str
    rows: list[Row] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)
    """Where the time goes."""
    chart: list[Group] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the least and the greatest of the rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        if not values:
            raise Unmeasured("There is no round to take a median of.")
        return cls(statistics.median(values), min(values), max(values))

    def text(self, digits: int = 2, unit: str = "") -> str:
        median, low, high = (f"{value:,.{digits}f}" for value in (self.median, self.low, self.high))
        return f"{median}{unit} ({low} to {high})"


def ratios(measured: Sequence[float], reference: Sequence[float]) -> Spread:
    """The ratio round by round: what disturbed a round disturbed both sides of it."""
    return Spread.of([one / other for one, other in zip(measured, reference, strict=True)])


def verdict(holds: bool) -> Verdict:
    return Verdict.MET if holds else Verdict.NOT_MET


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)
