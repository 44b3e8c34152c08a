"""A run as one page of HTML that needs nothing else: summary, findings, and every case, with a filter."""

from collections import Counter
from html import escape
from pathlib import Path
from string import Template
from typing import Final

from contract.causes import Finding
from contract.fixes import fix_of, fix_of_result
from contract.outcome import Failure, Result
from contract.report import OUTCOMES, Report, by_area
from contract.sources import where_of

_TEMPLATE: Final = Path(__file__).parent / "page.html"
# How a sentence on a failure says what was expected, and what came.
_VERBS: Final = frozenset({"be", "match", "contain", "have"})
_INSTEAD: Final = (", and is ", " and is ", ", not ", " not ", ", and was ", " and was ")


def as_html(report: Report) -> str:
    run = report.run
    facts = run.target.facts()
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(f"Contract: {facts['target']}"),
        heading=escape(f"Contract of {facts['target']}"),
        badge=_badge(report),
        state="" if report.holds else "broken",
        verdict=escape(report.verdict()),
        facts="".join(f"<dt>{escape(name)}</dt><dd>{escape(what)}</dd>" for name, what in _facts(report)),
        rows=_rows(report),
        findings="".join(_finding(one) for one in report.findings) or "<p>Nothing is wrong.</p>",
        buttons="".join(
            f'<button type="button" data-{group}="{name}" aria-pressed="false">{name}</button>'
            for group, names in (("kind", OUTCOMES), ("level", ("must", "should", "critical")))
            for name in names
        ),
        cases="".join(_case(one) for one in sorted(run.results, key=_order)),
    )


def _order(result: Result) -> tuple[int, str]:
    return ({"failed": 0, "not tested": 1, "not supported": 2, "passed": 3}[result.outcome], result.case.id)


def _facts(report: Report) -> list[tuple[str, str]]:
    run = report.run
    facts = [("target", f"{run.target.told}."), ("run", f"{run.target.run}, {run.started}, {run.seconds:.1f} seconds")]
    facts += list(run.target.capabilities.items())
    facts += [("not tested", f"{len(those)}: {why}") for why, those in sorted(report.untested().items())]
    facts += [("does not apply", f"{number} {why}") for why, number in sorted(run.left_out.items())]
    facts += [("left", line) for line in run.target.leftovers]
    return [*facts, *((("stale", f"{name}: {report.why_stale(name)}")) for name in report.stale)]


def _rows(report: Report) -> str:
    results = report.run.results
    rows = [(area, those, "") for area, those in by_area(results).items()]
    rows.append(("all", results, "sum"))
    rows += [
        (f"{kind}s", [one for one in results if one.case.requirement == kind], "sum") for kind in ("must", "should")
    ]
    made = []
    for name, those, kind in rows:
        counts = Counter(one.outcome for one in those)
        cells = "".join(f"<td>{counts[outcome]}</td>" for outcome in OUTCOMES)
        made.append(f'<tr class="{kind}"><td>{escape(name)}</td>{cells}</tr>')
    return "".join(made)


def _finding(finding: Finding) -> str:
    body = [_fix(fix_of(finding))]
    if finding.failure is not None:
        body.append(_difference(finding.failure))
    for name, those in (("Failed", finding.failed), ("Not tried for it", finding.blocked)):
        if those:
            items = "".join(f"<li>{_named(one)}</li>" for one in those)
            body.append(f'<p>{name}, {len(those)}:</p><ul class="cases">{items}</ul>')
    first = finding.results[0].case
    body.append(f'<p class="soft">Source: {escape(where_of(first.source))}. {escape(first.why)}</p>')
    harm = next((f", {one.case.harm}" for one in finding.failed if one.harms), "")
    head = f'<span class="tag {finding.severity}">{finding.severity}{harm}</span>{escape(finding.title)}'
    number = f' <span class="soft">{len(finding.results)} cases</span>' if len(finding.results) > 1 else ""
    is_open = " open" if finding.severity == "critical" else ""
    return f"<details{is_open}><summary>{head}{number}</summary><div>{''.join(body)}</div></details>"


def _named(result: Result) -> str:
    case = result.case
    return f'{escape(case.what)} <span class="soft">{escape(case.id)}, {case.requirement}</span>'


def _case(result: Result) -> str:
    case, kind = result.case, result.outcome
    level = f"{case.requirement} critical" if case.harm else case.requirement
    body = [f"<p>{escape(case.what)}</p>"]
    if result.why:
        body.append(f"<p>{escape(result.why)}.</p>")
    if result.failure is not None:
        body += [_difference(result.failure), _fix(fix_of_result(result))]
    about = f"{level}; {where_of(case.source)}; {result.seconds:.2f} s. {case.why}"
    body.append(f'<p class="soft">{escape(about)}</p>')
    tag = f'<span class="tag {kind.replace(" ", "-")}">{kind}</span>{escape(case.id)}'
    return (
        f'<details data-kind="{kind}" data-level="{level}"><summary>{tag}</summary><div>{"".join(body)}</div></details>'
    )


def _fix(line: str) -> str:
    return f'<p class="fix">Fix: {escape(line)}</p>' if line else ""


def _difference(failure: Failure) -> str:
    """Request, expected and seen. If a sentence says what was expected and what came, it becomes a difference."""
    lines = []
    for sentence in failure.expected.split("; "):
        if found := _wanted_and_seen(sentence):
            where, wanted, seen = map(escape, found)
            lines.append(f'{where}\n<span class="minus">- {wanted}</span>\n<span class="plus">+ {seen}</span>')
        else:
            lines.append(f'<span class="minus">- {escape(sentence)}</span>')
    return (
        f"<div>Request<pre>{escape(failure.request)}</pre></div>"
        f"<div>Difference: expected (−) and seen (+)<pre>{chr(10).join(lines)}</pre></div>"
        f"<div>The whole answer<pre>{escape(failure.seen)}</pre></div>"
    )


def _wanted_and_seen(sentence: str) -> tuple[str, str, str] | None:
    """The place that a sentence is about, what was expected there and what came; None if it has another form."""
    where, _, rest = sentence.partition(" should ")
    verb, _, rest = rest.partition(" ")
    places = [(place, mark) for mark in _INSTEAD if (place := rest.find(mark)) >= 0]
    if verb not in _VERBS or not places:
        return None
    place, mark = min(places)
    return where, rest[:place], rest[place + len(mark) :]


def _badge(report: Report) -> str:
    """How many musts hold, as an image that can be copied out of the page."""
    musts = [one for one in report.run.results if one.case.requirement == "must"]
    held = sum(one.outcome == "passed" for one in musts)
    tried = sum(one.outcome in ("passed", "failed") or one.is_wrong for one in musts)
    colour = "#18794e" if report.holds else "#c62a2f"
    text = f"{held} of {tried} musts"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="190" height="22" role="img" aria-label="contract: {text}">'
        '<rect width="70" height="22" rx="4" fill="#444"/>'
        f'<rect x="66" width="124" height="22" rx="4" fill="{colour}"/>'
        '<g fill="#fff" font-family="sans-serif" font-size="12" text-anchor="middle">'
        f'<text x="34" y="15">contract</text><text x="128" y="15">{text}</text></g></svg>'
    )
