"""What a run says: failures as request, expected and seen, then a card; the same for machines."""

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from xml.etree import ElementTree as xml

from contract import baseline
from contract.outcome import Outcome, Result, Run
from contract.words import CONTROL

OUTCOMES: Final[tuple[Outcome, ...]] = ("passed", "failed", "not supported")


@dataclass(frozen=True)
class Report:
    """A run held against a baseline."""

    run: Run[Any]
    expected: Mapping[str, str] = field(default_factory=dict)
    known: Collection[str] = ()

    @property
    def stale(self) -> list[str]:
        return baseline.stale(self.expected, self.run.results, self.known)

    @property
    def failed(self) -> list[Result]:
        """Failures that are not expected."""
        return [r for r in self.run.results if r.outcome == "failed" and r.case.id not in self.expected]

    @property
    def holds(self) -> bool:
        """Every must holds, and nothing in the baseline is stale."""
        return not self.stale and all(result.case.requirement == "should" for result in self.failed)

    def text(self) -> str:
        parts = [_told(result) for result in self.failed]
        parts += [f"STALE  {name}\n  {self._why_stale(name)}: take it out" for name in self.stale]
        return "\n\n".join([*parts, self._card()]) + "\n"

    def _why_stale(self, name: str) -> str:
        return "in the baseline, and not a failure any more" if name in self.known else "in the baseline, and no case"

    def _card(self) -> str:
        target = self.run.target
        lines = [f"{target.told}."]
        lines += _table(self.run.results)
        if known := self._known_failures():
            lines.append(f"{_some(known, 'of the failures is', 'of the failures are')} expected by the baseline.")
        if self.run.left_out:
            lines.append(f"{_some(self.run.left_out, 'case does', 'cases do')} not apply to it.")
        reasons = Counter(r.why for r in self.run.results if r.outcome == "not supported")
        lines += [f"Not supported, {number}: {why}." for why, number in sorted(reasons.items())]
        lines += target.leftovers
        return "\n".join([*lines, self._verdict()])

    def _known_failures(self) -> int:
        return sum(r.outcome == "failed" and r.case.id in self.expected for r in self.run.results)

    def _verdict(self) -> str:
        musts = sum(result.case.requirement == "must" for result in self.failed)
        shoulds = len(self.failed) - musts
        told = [f"{_some(musts, 'must does', 'musts do')} not hold"] if musts else []
        told += [f"{_some(shoulds, 'should does', 'shoulds do')} not hold"] if shoulds else []
        told += (
            [f"{_some(len(self.stale), 'entry of the baseline is', 'entries of the baseline are')} stale"]
            if self.stale
            else []
        )
        if not self.holds:
            return f"The contract is not kept: {', '.join(told)}."
        known = f", but for {self._known_failures()} of the baseline" if self._known_failures() else ""
        return f"All musts hold{known}." + (f" {told[0]}." if told else "")

    def json(self) -> str:
        target = self.run.target
        return json.dumps(
            {
                **target.facts(),
                "holds": self.holds,
                "counts": Counter(result.outcome for result in self.run.results),
                "stale": self.stale,
                "brains_left": target.left,
                "cases": [self._record(result) for result in self.run.results],
            },
            ensure_ascii=False,
            indent=2,
        )

    def _record(self, result: Result) -> dict[str, Any]:
        case, failure = result.case, result.failure
        return {
            "id": case.id,
            "what": case.what,
            "requirement": case.requirement,
            "area": case.area,
            "source": case.source,
            "outcome": result.outcome,
            "expected_failure": result.outcome == "failed" and case.id in self.expected,
            **({"why": result.why} if result.why else {}),
            **({"request": failure.request, "expected": failure.expected, "seen": failure.seen} if failure else {}),
        }

    def junit(self) -> str:
        """One suite per area. Expected failures, shoulds and what is not supported are skipped, with reasons."""
        root = xml.Element("testsuites", name=f"contract {self.run.target.facts()['target']}")
        for area, results in _by_area(self.run.results).items():
            suite = xml.SubElement(root, "testsuite", name=area, tests=str(len(results)))
            failed = skipped = 0
            for result in results:
                made = xml.SubElement(suite, "testcase", classname=f"contract.{area}", name=result.case.id)
                if result.outcome == "passed":
                    continue
                if result in self.failed and result.case.requirement == "must":
                    failed += 1
                    expected = result.failure.expected if result.failure else result.case.what
                    xml.SubElement(made, "failure", message=_plain(expected)).text = _plain(_told(result))
                else:
                    skipped += 1
                    xml.SubElement(made, "skipped", message=_plain(result.why or _told(result)))
            suite.set("failures", str(failed))
            suite.set("skipped", str(skipped))
        if self.stale:
            suite = xml.SubElement(root, "testsuite", name="baseline", tests=str(len(self.stale)))
            suite.set("failures", str(len(self.stale)))
            for name in self.stale:
                made = xml.SubElement(suite, "testcase", classname="contract.baseline", name=name)
                xml.SubElement(made, "failure", message="in the baseline, and not a failure any more")
        return '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"


def _told(result: Result) -> str:
    lines = [f"{result.outcome.upper()}  {result.case.id}  ({result.case.requirement}; {result.case.source})"]
    lines.append(f"  {result.case.what}")
    if result.failure is not None:
        lines.append(f"  request   {result.failure.request}")
        lines.append(f"  expected  {result.failure.expected}")
        lines.append(f"  seen      {result.failure.seen}")
    return "\n".join(lines)


def _table(results: list[Result]) -> list[str]:
    areas = [*_by_area(results).items(), ("all", results)]
    width = max(len(area) for area, _ in areas) + 2
    lines = [f"{'':{width}}{'passed':>8}{'failed':>8}{'not supported':>16}"]
    for area, some in areas:
        counts = Counter(result.outcome for result in some)
        lines.append(f"{area:{width}}{counts['passed']:>8}{counts['failed']:>8}{counts['not supported']:>16}")
    return lines


def _some(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def _by_area(results: list[Result]) -> dict[str, list[Result]]:
    areas = dict.fromkeys(sorted(result.case.area for result in results))
    return {area: [result for result in results if result.case.area == area] for area in areas}


def _plain(text: str) -> str:
    """XML has no place for control characters, however they are written."""
    return CONTROL.sub(lambda found: found.group() if found.group() == "\n" else "?", text)


def unchecked(target: str, problem: str, *, as_json: bool) -> str:
    """What is said of a target of which nothing could be checked."""
    if as_json:
        return (
            json.dumps({"target": target, "holds": False, "problem": problem, "cases": []}, ensure_ascii=False) + "\n"
        )
    return f"{problem}.\nNo case was run, so nothing is known of the contract here.\n"
