"""Reads that meet a fault, and the reads after them on the same gateway: each gets its own answer, or a failure."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.operations.errors import CATALOGUE
from tests.faults.faults import Fault
from tests.faults.matrix import CRASHED, Once, called, code_of, gateway, text_of
from tests.faults.proxy import proxying
from tests.faults.worlds import World

# Three questions, each with another answer.
QUESTIONS = ("otters", "vienna", "lighthouse")
LIBRARY_SLUG = "library"
LIBRARY = {
    "memory/global/otters.md": "# Otters\n\nOtters hold hands while they sleep.",
    "memory/global/train.md": "# Train\n\nThe night train to Vienna leaves at ten.",
    "memory/global/tower.md": "# Tower\n\nThe lighthouse keeper counts ships.",
}


def _paths(found: dict[str, Any]) -> object:
    return sorted(str(hit["path"]) for hit in found.get("hits", found.get("chunks", [])))


def _slugs(found: dict[str, Any]) -> object:
    return sorted(str(brain["slug"]) for brain in found["items"])


def _answer(found: dict[str, Any]) -> object:
    return [found["answer"], sorted(str(chunk["document_id"]) for chunk in found["retrieved"])]


@dataclass(frozen=True)
class Read:
    """A call that changes nothing, and what of its answer must be right."""

    name: str
    tool: str
    arguments: Callable[[str, str], dict[str, Any]]
    essence: Callable[[dict[str, Any]], object]
    repeats: bool = True
    """Whether a lost answer is asked for again."""


def _query(**more: str) -> Callable[[str, str], dict[str, Any]]:
    return lambda brain, question: {"brain": brain, "query": question, **more}


READS = {
    read.name: read
    for read in [
        Read("search", "memory_search", _query(), _paths),
        Read("recall", "memory_recall", _query(), _paths),
        Read("recall_in_session", "memory_recall", _query(session_id="s9"), _paths),
        Read("list_brains", "memory_list_brains", lambda _brain, _question: {}, _slugs),
        Read("ask", "memory_ask", _query(), _answer, repeats=False),
    ]
}
# After these faults there is nothing to repeat within the time, or the platform itself has said no.
MAY_FAIL = {"stall_before", "late", "stall_after", "commit_then_500", "refuse_429_for_long"}

# A read that failed may say so, and nothing about the brain: that it is not there would be a wrong answer.
FAILURES = {"upstream_error", "upstream_unavailable", "timeout", "rate_limited", "stream_truncated"}


@dataclass
class Asked:
    """The answers to one question after the other, the first of them harmed."""

    got: list[object] = field(default_factory=list)
    codes: list[str | None] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    harmed: bool = False
    settled: bool = True


async def asked(world: World, read: Read, fault: Fault | None, root: Path) -> Asked:
    """Three questions to the library, one after the other; the first request of all meets a fault."""
    story, plan = Asked(), Once(".*", fault)
    with proxying(world.url, plan) as proxy:
        async with gateway(world, proxy, root, fault) as client:
            for question in QUESTIONS:
                result = await called(client, read.tool, read.arguments(LIBRARY_SLUG, question))
                story.codes.append(code_of(result))
                story.texts.append(text_of(result))
                story.got.append(None if result.is_error else read.essence(result.structured_content or {}))
        story.settled = await asyncio.to_thread(proxy.settled, 2.0)
    story.harmed = plan.met > 0
    return story


def complaints(story: Asked, right: list[object], *, may_fail: bool, next_may_fail: bool) -> list[str]:
    found = [] if story.harmed else ["the request that was meant was never made"]
    if not story.settled:
        found.append("a connection is left open")
    for n, (wanted, got, code, text) in enumerate(zip(right, story.got, story.codes, story.texts, strict=True)):
        if CRASHED in text or (code is not None and code not in CATALOGUE):
            found.append(f"a crash: {text}")
        elif code is not None and not (code in FAILURES and (next_may_fail if n else may_fail)):
            found.append(f"answer {n + 1} is {code}")
        elif code is None and got != wanted:
            found.append(f"answer {n + 1} is wrong: {json.dumps(got)}, not {json.dumps(wanted)}")
    return found
