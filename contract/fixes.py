"""How to fix a failure, in one line, if that is known."""

from fnmatch import fnmatchcase
from typing import Final

from contract.causes import SILENCE, Finding
from contract.outcome import Result

_HARM: Final = {
    "escape": "Resolve the path or name first, and refuse it if it is not below the brain's own folder.",
    "leak": "Ask who is calling, and which brain is named, before anything is read.",
    "lost write": "Answer a write only when it is stored, and let no other writer replace it unseen.",
    "doubled write": "Derive the name of a note from its content, and look for it before writing.",
}
# By the ids of cases; the first that fits.
_CASES: Final = (
    ("mcp/*/definition", "List the tool with the schema of the published text; contract/tools/ has it as JSON."),
    ("mcp/*/no-progress*", "Send notifications/progress only for a call that bears a progressToken."),
    ("mcp/*/unknown-brain", "Answer with isError and the code no_brain if no brain has the name."),
    ("mcp/*/unknown-argument", 'Set "additionalProperties": false, and refuse what it refuses.'),
    ("mcp/*-edges", "Check arguments against the listed schema before the call is served."),
    ("mcp/*-limits", "Check arguments against the listed schema before the call is served."),
    ("mcp/*/text-is-a-summary", "Make content[0] a short text for people; the JSON belongs in structuredContent."),
    ("mcp/*/keys-are-snake-case", "Rename the keys of structuredContent to snake_case."),
    ("http/*/missing-brain", "Answer 404 with the code not_found if no brain has the id."),
    ("http/*no-token*", "Check the token before anything else, on every route but /healthz."),
    ("http/*too-large*", "Count the bytes while you read the body, and answer 413 at the limit."),
    ("http/*no-json*", "Answer 400 with the code validation_error if the body is no JSON."),
)
_CREATE: Final = "Mend this first: all that needs a brain waits for it. Until then, --brain NAME plays in one of yours."
_SILENT: Final = "See why it ended or hangs: its own log says more. --timeout and --at-once change how it is asked."
_ALIKE: Final = "Mend it where all refusals are made, and not on each route."
_MISSING: Final = "Serve this route, or tell its owner that the platform has no such part."


def fix_of(finding: Finding) -> str:
    """The line, or nothing."""
    if finding.severity == "critical":
        return next(_HARM[one.case.harm] for one in finding.failed if one.harms and one.case.harm)
    if finding.blocked and finding.title.startswith(("memory_create_brain", "POST /v1/brains ")):
        return _CREATE
    if finding.title.startswith(SILENCE):
        return _SILENT
    if " routes: " in finding.title:
        return _ALIKE
    if "no route for" in finding.title:
        return _MISSING
    lines = {_of_case(one) for one in finding.failed}
    return lines.pop() if len(lines) == 1 else ""


def fix_of_result(result: Result) -> str:
    """The line for one case alone."""
    if result.harms and result.case.harm:
        return _HARM[result.case.harm]
    return _of_case(result)


def _of_case(result: Result) -> str:
    return next((line for pattern, line in _CASES if fnmatchcase(result.case.id, pattern)), "")
