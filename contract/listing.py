"""Prints the cases: which exist, and what one of them demands."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Final

from contract.case import CASES, Case
from contract.http_player import SAID_BY_ITSELF
from contract.parts import Head
from contract.sources import where_of


def table_of(cases: Sequence[Head]) -> str:
    """One line for each: id, requirement, and what should happen."""
    if not cases:
        return "No case matches.\n"
    width = max(len(one.id) for one in cases)
    rows = [f"{one.id:{width}}  {_level(one):8}  {one.what}" for one in cases]
    return "\n".join([*rows, f"{len(cases)} cases."]) + "\n"


def near(name: str, ids: Sequence[str]) -> list[str]:
    """The ids that somebody who typed this name may mean: those that end with it, or else those that look like it."""
    ends = [one for one in ids if one.endswith(f"/{name.strip('/')}")]
    return ends[:3] or get_close_matches(name, ids, 3, 0.7)


def _level(case: Head) -> str:
    return "critical" if case.harm else case.requirement


_TRIES: Final = {
    "traversal": "It tries to climb out of a brain.",
    "injection": "It tries to inject.",
    "sizes": "It sends a large body.",
}


def explained(case: Head) -> str:
    """What a case demands, its source, what it needs, and its steps."""
    lines = [case.id, f"  {case.what}", ""]
    level = "must: without it, the contract is not kept" if case.requirement == "must" else "should"
    article = "an" if case.harm == "escape" else "a"
    lines.append(
        f"requirement  {level}{f'; critical, because a failure is {article} {case.harm}' if case.harm else ''}"
    )
    lines.append(f"source       {case.source}: {where_of(case.source)}")
    if case.source.startswith("openapi "):
        lines.append(f"             {CASES.parent / 'openapi.yaml'}")
    if case.why:
        lines.append(f"why          {case.why}")
    lines += [f"needs        {one}" for one in _needs(case)]
    if case.tries:
        lines.append(f"beware       {_TRIES[case.tries]}")
    lines += ["", (CASES / f"{case.id}.yaml").read_text(encoding="utf-8").partition("steps:\n")[2].rstrip()]
    return "\n".join(lines) + "\n"


def _needs(case: Any) -> list[str]:
    brains = {
        "shared": "the brain of the run",
        "own": "a brain of its own",
        "apart": "a second brain of the run",
        "none": "no brain",
    }
    needs = [brains[case.brain]]
    if case.needs:
        needs.append(
            f"{told} (GET /v1/models)"
            if (told := SAID_BY_ITSELF.get(case.needs))
            else f"a {case.needs} (--{case.needs})"
        )
    if isinstance(case, Case):
        needs.append("either dialect" if case.dialect == "both" else f"the {case.dialect} dialect")
    elif case.tools:
        needs.append(f"the tools {', '.join(sorted(case.tools))}")
    if case.optional:
        needs.append("what it is about may be missing: then it is not supported")
    return needs
