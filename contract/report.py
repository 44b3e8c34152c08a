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
        parts += [f"STALE  {name}\n  in the baseline, and not a failure any more: take it out" for name in self.stale]
        return "\n\n".join([*parts, self._card()]) + "\n"

    def _card(self) -> str:
        target = self.run.target
        lines = [f"{target.told}."]
        lines += _table(self.run.results)
        if self.expected:
            known = sum(r.outcome == "failed" and r.case.id in self.expected for r in self.run.results)
            lines.append(f"{known} of the failures are expected by the baseline.")
        if self.run.left_out:
            lines.append(f"{self.run.left_out} cases do not apply to it.")
        reasons = Counter(r.why for r in self.run.results if r.outcome == "not supported")
        lines += [f"Not supported, {number}: {why}." for why, number in sorted(reasons.items())]
        if target.left:
            lines.append(f"Brains that could not be deleted: {', '.join(target.left)}")
        return "\n".join([*lines, self._verdict()])

    def _verdict(self) -> str:
        musts = sum(result.case.requirement == "must" for result in self.failed)
        shoulds = len(self.failed) - musts
        if self.holds:
            return "All musts hold." + (f" {shoulds} shoulds do not." if shoulds else "")
        told = [f"{musts} musts do not hold"] if musts else []
        told += [f"{shoulds} shoulds do not hold"] if shoulds else []
        told += [f"{len(self.stale)} entries of the baseline are stale"] if self.stale else []
        return f"The contract is not kept: {', '.join(told)}."

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
                    xml.SubElement(made, "failure", message=_plain(result.case.what)).text = _plain(_told(result))
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
    lines = [f"{'':12}{'passed':>8}{'failed':>8}{'not supported':>16}"]
    for area, some in [*_by_area(results).items(), ("all", results)]:
        counts = Counter(result.outcome for result in some)
        lines.append(f"{area:12}{counts['passed']:>8}{counts['failed']:>8}{counts['not supported']:>16}")
    return lines


def _by_area(results: list[Result]) -> dict[str, list[Result]]:
    areas = dict.fromkeys(sorted(result.case.area for result in results))
    return {area: [result for result in results if result.case.area == area] for area in areas}


def _plain(text: str) -> str:
    """XML has no place for control characters, however they are written."""
    return CONTROL.sub(lambda found: found.group() if found.group() == "\n" else "?", text)
