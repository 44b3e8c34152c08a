"""Finds failures with the same cause, so that it is reported once, however many cases it fails or blocks."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, TypeAlias

import yaml

from contract.case import CASES, LOADER
from contract.outcome import Cause, Failure, Result
from contract.words import cut

# The subject of requests without an answer.
SILENCE: Final = "no answer"
Severity: TypeAlias = Literal["critical", "must", "should"]
SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "must", "should")
# Parts that differ in each request and so are not the cause: names of a run, ids, quoted values, numbers.
_DIFFERENT: Final = re.compile(r"contract-[0-9a-f]{8}-[\w-]*|\b[a-z]{2,4}_[0-9a-f]{8,}\b|\b[0-9a-f-]{12,}\b|\d+")
# What was seen, at the end of what was expected of it.
_VALUE: Final = re.compile(r": [\[{].*", re.DOTALL)
# A refusal that came, but not as it should: how a target refuses is one cause on all its routes.
_MANNER: Final = re.compile(r"the status should be (?:(?: or )?4\d\d)+, not 4\d\d|a refusal should be \S+, not [^;]+")
# What is served to nobody in particular: whether a token is asked for is one cause, too.
_UNASKED: Final = re.compile(r"the status should be 40[13], not 2\d\d")
# How servers say that they have no language model.
_NO_MODEL: Final = re.compile(
    r"\bno (?:llm|language model|model|provider|api key)\b|\b(?:llm|model|provider|api key)[^.]{0,40}"
    r"\b(?:not (?:configured|set|available)|is (?:missing|required)|unconfigured)\b"
    r"|\b(?:requires?|needs?) (?:a |an )?(?:configured )?(?:llm|language model|model|provider)\b|_PROVIDER not set",
    re.IGNORECASE,
)


@dataclass
class Finding:
    """One thing that is wrong, with the cases that show it and those that could not be tried for it."""

    title: str
    failed: list[Result] = field(default_factory=list)
    blocked: list[Result] = field(default_factory=list)

    @property
    def results(self) -> list[Result]:
        return [*self.failed, *self.blocked]

    @property
    def severity(self) -> Severity:
        """The worst level of its cases. A harm is critical only if it was seen, not if the case was not tried."""
        if any(one.harms for one in self.failed):
            return "critical"
        return "must" if any(one.case.requirement == "must" for one in self.results) else "should"

    @property
    def failure(self) -> Failure | None:
        worst = sorted(self.failed, key=lambda one: (not one.harms, one.case.requirement))
        return worst[0].failure if worst else None


def says_no_model(text: str) -> bool:
    return _NO_MODEL.search(text) is not None


def same(text: str) -> str:
    """The text without the parts that differ in each request."""
    return cut(_DIFFERENT.sub("…", text), 160)


def fault_of(subject: str, error: str) -> Cause:
    """The cause of cases that need something that does not work."""
    return Cause(f"{subject} fails: {cut(error, 160)}", True, subject, error)


def silence_of(error: str) -> Cause:
    """The cause of cases that were not sent any more."""
    return Cause(f"{SILENCE}: {cut(error, 160)}", True, SILENCE, error)


def findings_of(results: Iterable[Result]) -> list[Finding]:
    """The causes, each once, the worst and those with most cases first."""
    found: dict[tuple[str, str], Finding] = {}
    for result in sorted(results, key=_clearest):
        if not result.is_wrong:
            continue
        finding = found.setdefault(_key(result), Finding(_title(result)))
        (finding.failed if result.outcome == "failed" else finding.blocked).append(result)
    for finding in found.values():
        routes = {one.failure.subject for one in finding.failed if one.failure is not None}
        if len(routes) > 1 and (manner := _manner(finding.failed[0].failure)):
            finding.title = f"{len(routes)} routes: {manner}"
    return sorted(found.values(), key=lambda one: (SEVERITIES.index(one.severity), -len(one.results)))


def _clearest(result: Result) -> tuple[bool, bool, str]:
    """The best name for a cause is that of a request which should have succeeded and failed."""
    is_refused = result.failure is not None and result.failure.refused
    return (not is_refused, result.outcome != "failed", result.case.id)


def _key(result: Result) -> tuple[str, str]:
    if result.cause is not None:
        return (result.cause.subject, same(result.cause.error or result.cause.sentence))
    failure = result.failure
    if failure is None or not failure.subject:
        return ("", result.case.id)
    if manner := _manner(failure):
        return ("", manner)
    if failure.harms:
        # A critical failure is reported alone, so that it is not hidden in a list.
        return (failure.subject, result.case.id)
    return (failure.subject, same(failure.error or _VALUE.sub("", failure.expected)))


def _manner(failure: Failure | None) -> str:
    """What is wrong with every refusal of the target alike, or with its asking for a token; else nothing."""
    first = "" if failure is None else failure.expected.partition("; ")[0]
    if failure is not None and failure.harms and _UNASKED.fullmatch(first):
        return "a request without a token, or with a wrong one, is served as if it had the right one"
    return first if _MANNER.fullmatch(first) else ""


def _title(result: Result) -> str:
    if result.cause is not None:
        return result.cause.sentence
    failure = result.failure
    if failure is None or not failure.subject:
        return result.case.what
    if failure.subject == SILENCE:
        return f"{SILENCE}: {failure.error}"
    if failure.error and failure.refused and not failure.harms:
        return f"{failure.subject} fails: {cut(failure.error, 160)}"
    return f"{failure.subject}: {cut(_VALUE.sub('', failure.expected), 200)}"


# --- the subject of a case, and the steps that only prepare it


def route_of(method: str, path: str) -> str:
    """A request without its names, as `POST /v1/brains/{brain}/search`."""
    parts = path.partition("?")[0].split("/")
    if parts[1:3] == ["v1", "brains"] and len(parts) > 3:
        parts[3] = "{brain}"
        if parts[4:5] == ["sessions"] and len(parts) > 5:
            parts[5] = "{session}"
    return f"{method} {'/'.join(parts)}"


def own_route(source: str) -> str | None:
    """The route that a case is about, by its source; nothing if it is about more than one."""
    if source.startswith("openapi "):
        return _operations().get(source.removeprefix("openapi "))
    if source.startswith("memory serve, "):
        method, _, path = source.removeprefix("memory serve, ").partition(" ")
        return route_of(method, path if path.startswith("/") else f"/v1/brains/x/{path}")
    return None


@cache
def _operations() -> dict[str, str]:
    text = (CASES.parent / "openapi.yaml").read_text(encoding="utf-8")
    paths: dict[str, dict[str, Any]] = yaml.load(text, LOADER)["paths"]
    return {
        one["operationId"]: route_of(method.upper(), path)
        for path, methods in paths.items()
        for method, one in methods.items()
        if isinstance(one, dict) and "operationId" in one
    }
