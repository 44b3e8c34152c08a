"""The report for people: each cause once, the worst first, then the card."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from contract import baseline
from contract.causes import SEVERITIES, Finding, findings_of
from contract.fixes import fix_of
from contract.outcome import Outcome, Result, Run
from contract.words import some

OUTCOMES: Final[tuple[Outcome, ...]] = ("passed", "failed", "not tested", "not supported")
LONGEST: Final = 600
# How many cases of a finding are named. The reports for machines name all.
NAMED: Final = 4


@dataclass(frozen=True)
class Report:
    """A run compared with a baseline."""

    run: Run[Any]
    expected: Mapping[str, str] = field(default_factory=dict)
    known: Collection[str] = ()

    @cached_property
    def stale(self) -> list[str]:
        return baseline.stale(self.expected, self.run.results, self.known)

    @cached_property
    def wrong(self) -> list[Result]:
        """Cases that failed, or could not be tried because of a fault of the target, and are not expected to."""
        return [one for one in self.run.results if one.is_wrong and one.case.id not in self.expected]

    @property
    def failed(self) -> list[Result]:
        """Failures that are not expected."""
        return [one for one in self.wrong if one.outcome == "failed"]

    @cached_property
    def findings(self) -> list[Finding]:
        return findings_of(self.wrong)

    @property
    def holds(self) -> bool:
        """Every must holds, nothing is critical, and nothing in the baseline is stale."""
        return not self.stale and all(one.severity == "should" for one in self.findings)

    @property
    def expected_failures(self) -> int:
        return sum(one.is_wrong and one.case.id in self.expected for one in self.run.results)

    def text(self) -> str:
        parts = [_told(finding) for finding in self.findings]
        parts += [f"STALE  {name}\n  {self.why_stale(name)}: take it out" for name in self.stale]
        return "\n\n".join([*parts, self._card()]) + "\n"

    def why_stale(self, name: str) -> str:
        return "in the baseline, and not a failure any more" if name in self.known else "in the baseline, and no case"

    def untested(self) -> dict[str, list[Result]]:
        """Cases that were not tested for a reason that is not a fault of the target, by reason."""
        reasons: dict[str, list[Result]] = {}
        for one in self.run.results:
            if one.outcome == "not tested" and not one.is_wrong:
                reasons.setdefault(one.why, []).append(one)
        return reasons

    def _card(self) -> str:
        run = self.run
        lines = [f"{run.target.told}. Run {run.target.run} took {run.seconds:.1f} seconds."]
        lines += [f"  {name}: {what}" for name, what in run.target.capabilities.items()]
        lines += _table(run.results)
        if self.expected_failures:
            lines.append(f"{some(self.expected_failures, 'failure is', 'failures are')} expected by the baseline.")
        lines += [f"Not tested, {len(cases)}: {why}." for why, cases in sorted(self.untested().items())]
        gaps = Counter(one.why for one in run.results if one.outcome == "not supported")
        lines += [f"Not supported, {number}: {why}." for why, number in sorted(gaps.items())]
        if run.left_out:
            why = ", ".join(f"{number} {reason}" for reason, number in sorted(run.left_out.items()))
            lines.append(f"{some(sum(run.left_out.values()), 'case does', 'cases do')} not apply to it: {why}.")
        lines += run.target.leftovers
        return "\n".join([*lines, self.verdict()])

    def verdict(self) -> str:
        told = [f"{counted} {name}" for name, counted in self.counted_findings().items() if counted]
        if self.stale:
            told.append(some(len(self.stale), "stale entry of the baseline", "stale entries of the baseline"))
        if not self.holds:
            return f"The contract is not kept. Findings: {', '.join(told)}."
        known = f", but for {self.expected_failures} of the baseline" if self.expected_failures else ""
        return f"All musts hold{known}." + (f" Findings: {', '.join(told)}." if told else "")

    def counted_findings(self) -> dict[str, int]:
        counts = Counter(one.severity for one in self.findings)
        return {name: counts[name] for name in SEVERITIES}


def _told(finding: Finding) -> str:
    """One cause in a few lines, however many cases it has."""
    harm = next((f", {one.case.harm}" for one in finding.failed if one.harms), "")
    name = finding.severity.upper() if finding.severity != "critical" else f"CRITICAL{harm}"
    lines = [f"{name}  {finding.title}"]
    failure, first = finding.failure, finding.results[0]
    if len(finding.results) == 1:
        lines.append(f"  {first.case.what}")
    if failure is not None:
        lines.append(f"  request   {failure.request}")
        lines.append(f"  expected  {failure.expected}")
        lines.append(f"  seen      {failure.seen}")
    if finding.failed:
        lines.append(f"  failed    {_named(finding.failed)}")
    if finding.blocked:
        lines.append(f"  not tried {_named(finding.blocked)}")
    lines.append(f"  source    {first.case.source}{f': {first.case.why}' if first.case.why else ''}")
    if fix := fix_of(finding):
        lines.append(f"  fix       {fix}")
    return "\n".join(line if len(line) <= LONGEST else f"{line[:LONGEST]}…" for line in lines)


def _named(results: list[Result]) -> str:
    musts = sum(one.case.requirement == "must" for one in results)
    split = f"{some(musts, 'must', 'musts')}, {some(len(results) - musts, 'should', 'shoulds')}"
    names = ", ".join(one.case.id for one in results[:NAMED])
    if len(results) == 1:
        return f"{names} ({results[0].case.requirement})"
    more = f" and {len(results) - NAMED} more" if len(results) > NAMED else ""
    return f"{len(results)} cases ({split}): {names}{more}"


def _table(results: list[Result]) -> list[str]:
    areas = [*by_area(results).items(), ("all", results)]
    areas += [(f"  {kind}s", [one for one in results if one.case.requirement == kind]) for kind in ("must", "should")]
    width = max(len(area) for area, _ in areas) + 2
    lines = [f"{'':{width}}{'passed':>8}{'failed':>8}{'not tested':>12}{'not supported':>15}"]
    for area, those in areas:
        counts = Counter(one.outcome for one in those)
        lines.append(
            f"{area:{width}}{counts['passed']:>8}{counts['failed']:>8}{counts['not tested']:>12}"
            f"{counts['not supported']:>15}"
        )
    return lines


def by_area(results: list[Result]) -> dict[str, list[Result]]:
    areas = dict.fromkeys(sorted(result.case.area for result in results))
    return {area: [result for result in results if result.case.area == area] for area in areas}
