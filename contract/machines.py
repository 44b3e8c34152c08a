"""Reports for machines: JSON as `report.schema.json` describes it, and JUnit's XML."""

import json
from collections import Counter
from typing import Any, Final
from xml.etree import ElementTree as xml

from contract.fixes import fix_of
from contract.outcome import Result
from contract.report import OUTCOMES, Report, by_area
from contract.words import CONTROL

FORMAT: Final = 2


def as_json(report: Report) -> str:
    return json.dumps(facts_of(report), ensure_ascii=False, indent=2)


def facts_of(report: Report) -> dict[str, Any]:
    run = report.run
    return {
        "format": FORMAT,
        **run.target.facts(),
        "run": run.target.run,
        "started": run.started,
        "seconds": round(run.seconds, 3),
        "holds": report.holds,
        "verdict": report.verdict(),
        "capabilities": run.target.capabilities,
        "counts": _counts(run.results),
        "musts": _counts([one for one in run.results if one.case.requirement == "must"]),
        "shoulds": _counts([one for one in run.results if one.case.requirement == "should"]),
        "findings": [
            {
                "severity": one.severity,
                "title": one.title,
                "failed": [result.case.id for result in one.failed],
                "not_tried": [result.case.id for result in one.blocked],
                "fix": fix_of(one),
            }
            for one in report.findings
        ],
        "not_tested": {why: [one.case.id for one in those] for why, those in report.untested().items()},
        "left_out": dict(run.left_out),
        "stale": report.stale,
        "brains_left": run.target.left,
        "cases": [_record(report, result) for result in run.results],
    }


def _counts(results: list[Result]) -> dict[str, int]:
    counts = Counter(one.outcome for one in results)
    return {outcome: counts[outcome] for outcome in OUTCOMES}


def _record(report: Report, result: Result) -> dict[str, Any]:
    case, failure = result.case, result.failure
    return {
        "id": case.id,
        "what": case.what,
        "requirement": case.requirement,
        "harm": case.harm,
        "area": case.area,
        "source": case.source,
        "outcome": result.outcome,
        "seconds": round(result.seconds, 3),
        "expected_failure": result.is_wrong and case.id in report.expected,
        **({"why": result.why} if result.why else {}),
        **({"request": failure.request, "expected": failure.expected, "seen": failure.seen} if failure else {}),
    }


def as_junit(report: Report) -> str:
    """One suite for each area. A finding is a failure of its cases; shoulds and cases not tried are skipped."""
    failing = {one.case.id for finding in report.findings if finding.severity != "should" for one in finding.failed}
    root = xml.Element("testsuites", name=f"contract {report.run.target.facts()['target']}")
    root.set("time", f"{report.run.seconds:.3f}")
    for area, results in by_area(report.run.results).items():
        suite = xml.SubElement(root, "testsuite", name=area, tests=str(len(results)))
        failed = skipped = 0
        for result in results:
            made = xml.SubElement(suite, "testcase", classname=f"contract.{area}", name=result.case.id)
            made.set("time", f"{result.seconds:.3f}")
            if result.case.id in failing:
                failed += 1
                expected = result.failure.expected if result.failure else result.case.what
                xml.SubElement(made, "failure", message=_plain(expected)).text = _plain(_told(result))
            elif result.outcome != "passed":
                skipped += 1
                xml.SubElement(made, "skipped", message=_plain(f"{result.outcome}: {result.why or _told(result)}"))
        suite.set("failures", str(failed))
        suite.set("errors", "0")
        suite.set("skipped", str(skipped))
        suite.set("time", f"{sum(one.seconds for one in results):.3f}")
    causes = [one.title for one in report.findings if not one.failed and one.severity != "should"]
    _add_suite(root, "causes", dict.fromkeys(causes, "cases could not be tried for it"))
    _add_suite(root, "baseline", {name: report.why_stale(name) for name in report.stale})
    return '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"


def _add_suite(root: xml.Element, name: str, failures: dict[str, str]) -> None:
    if not failures:
        return
    suite = xml.SubElement(root, "testsuite", name=name, tests=str(len(failures)), failures=str(len(failures)))
    for one, message in failures.items():
        made = xml.SubElement(suite, "testcase", classname=f"contract.{name}", name=_plain(one), time="0")
        xml.SubElement(made, "failure", message=message)


def _told(result: Result) -> str:
    lines = [f"{result.case.what} ({result.case.requirement}; {result.case.source})"]
    if result.failure is not None:
        lines += [f"request   {result.failure.request}", f"expected  {result.failure.expected}"]
        lines.append(f"seen      {result.failure.seen}")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Removes control characters, which XML cannot hold in any form."""
    return CONTROL.sub(lambda found: found.group() if found.group() == "\n" else "?", text)


def unchecked(target: str, problem: str, *, as_json: bool) -> str:
    """The report on a target of which nothing could be checked."""
    if as_json:
        told = {"format": FORMAT, "target": target, "holds": False, "problem": problem, "cases": []}
        return json.dumps(told, ensure_ascii=False) + "\n"
    return f"{problem}.\nNo case was run, so nothing is known of the contract here.\n"
