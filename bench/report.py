"""The page a run ends with."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.quiet import DISTURBED
from bench.result import Section, Verdict, table

_INTRODUCTION = (
    "Written by `python -m bench`; run it again rather than edit it. Budgets are those of the design. A ratio is the "
    "median of the rounds, each round compared with the reference of the same round, with the least and the greatest "
    "in brackets. Bare FastMCP is an echo tool on FastMCP as shipped; the platform is canned bytes in its own process; "
    "the gateway's log goes to a file."
)


@dataclass(frozen=True, slots=True)
class Ran:
    """One section, and how it went."""

    name: str
    section: Section
    seconds: float
    foreign: float
    """The share of all CPU that other processes took meanwhile."""


def table_of_budgets(runs: Sequence[Ran]) -> str:
    rows = [row for ran in runs for row in ran.section.rows]
    header = ["What", "Measured", "Ratio", "Budget", "Verdict", "Where it goes"]
    return table(header, [[row.what, row.measured, row.ratio, row.budget, row.verdict, row.remark] for row in rows])


def page(facts: Sequence[tuple[str, str]], runs: Sequence[Ran]) -> str:
    parts = [
        "# Benchmark results",
        _INTRODUCTION,
        "\n".join(f"* {name}: {told}" for name, told in facts),
        _quietness(runs),
        f"## Budgets\n\n{_summary(runs)}",
        table_of_budgets(runs),
    ]
    causes = [cause for ran in runs for cause in ran.section.causes]
    if causes:
        parts += ["## Where the time goes", *causes]
    for ran in runs:
        if ran.section.details:
            parts += [f"## {ran.section.title}", *ran.section.details]
    return "\n\n".join(parts) + "\n"


def _summary(runs: Sequence[Ran]) -> str:
    verdicts = [row.verdict for ran in runs for row in ran.section.rows]
    met, missed, unknown = (verdicts.count(one) for one in (Verdict.MET, Verdict.NOT_MET, Verdict.NOT_MEASURED))
    return f"{met} met, {missed} not met, {unknown} not measured."


def _quietness(runs: Sequence[Ran]) -> str:
    disturbed = [f"{ran.name} {ran.foreign:.0%}" for ran in runs if ran.foreign > DISTURBED]
    if not disturbed:
        return "Nothing else ran: other processes took less than 5% of the CPU throughout."
    return (
        "**Other processes took CPU meanwhile** (share of all cores: "
        + ", ".join(disturbed)
        + "), also while this run waited for them. Where a disturbed measurement was kept, see above, ratios "
        "bear it better than calls a second and latencies do."
    )
