"""The shape of one part of the proof: a claim, the figures it rests on, and what spoke against it."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Part:
    """What one run of a part found.

    A part module has `def run(full: bool) -> Part`; `full` is the published size, otherwise the small one.
    """

    title: str
    # One sentence, true if `failures` is empty.
    claim: str
    headers: tuple[str, ...]
    rows: list[tuple[str, ...]]
    # One line each, with what is needed to look into it.
    failures: list[str]
    seconds: float
    # What the reader has to know besides: what was not run and why, how the load was made.
    notes: list[str] = field(default_factory=list)
