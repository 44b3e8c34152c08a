"""How many requests each tool of `team` makes upstream, on both dialects."""

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.surfaces.shelf import Shelf, shelf_on

pytestmark = pytest.mark.not_quick

STATEMENT: dict[str, Any] = {"content": "Counted.", "type": "decision", "scope": "global", "key": "counted"}
# In this order, because some find what others have stored. A write on the platform may take the id behind its slug.
CASES: list[tuple[str, dict[str, Any], int]] = [
    # A look, and the write.
    ("memory_remember", STATEMENT, 2),
    ("memory_remember", STATEMENT, 1),
    ("memory_remember", {**STATEMENT, "content": "Counted again."}, 2),
    ("memory_remember", {**STATEMENT, "scope": "private"}, 2),
    ("memory_remember", {**STATEMENT, "scope": "apollo"}, 2),
    # The folders of projects.
    ("memory_scopes", {}, 1),
    # That, a list of each of three scopes, and the three notes in them.
    ("memory_recall", {}, 7),
    ("memory_recall", {"scope": "apollo"}, 4),
    ("memory_recall", {"scope": "apollo", "include_global": False}, 2),
    ("memory_load_context", {"scope": "global"}, 2),
    ("memory_load_context", {}, 7),
    ("memory_forget", {"scope": "apollo", "key": "counted"}, 1),
    ("memory_forget", {"id": "global/counted"}, 1),
    ("memory_forget", {"id": "elsewhere"}, 0),
]


@pytest.mark.parametrize("kind", ["platform", "daemon"])
async def test_every_tool_makes_no_more_requests_than_it_takes(tmp_path: Path, kind: str) -> None:
    with shelf_on(kind, tmp_path) as shelf:
        # A daemon may keep an index of notes: whether it tells of one that is forgotten is looked at.
        more = {"memory_forget": 1} if kind == "daemon" else {}
        expected = [(tool, arguments, n + more.get(tool, 0) if n else 0) for tool, arguments, n in CASES]
        assert await counts(shelf) == expected


async def counts(shelf: Shelf) -> list[tuple[str, dict[str, Any], int]]:
    found = []
    async with shelf.client("team") as agent:
        # What the platform is, and which id is behind its brain, is known from here on.
        await agent.good("memory_recall", scope="global")
        for tool, arguments, _ in CASES:
            before = shelf.counted.requests
            await agent.client.call_tool(tool, arguments, raise_on_error=False)
            found.append((tool, arguments, shelf.counted.requests - before))
    return found
