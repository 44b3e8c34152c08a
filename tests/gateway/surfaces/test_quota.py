"""A brain that is full: each surface says so in its own words, nothing is stored, and what is there can be read."""

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.conftest import text_of
from tests.served import serving

SAID = "The quota of this brain is used up. Nothing was stored. Delete something, or have the quota raised."
# A write, how its failure begins, and a read.
SURFACES: dict[str, tuple[str, dict[str, Any], str, str, dict[str, Any]]] = {
    "memory": (
        "memory_remember",
        {"content": "{n} otters"},
        "payload_too_large: ",
        "memory_search",
        {"query": "otters"},
    ),
    "kv": (
        "jettson_memory_put",
        {"key": "k{n}", "value": "{n} otters"},
        "Jettson Memory failed: memory quota exceeded: ",
        "jettson_memory_list",
        {},
    ),
    "team": (
        "memory_remember",
        {"content": "{n} otters", "type": "status", "scope": "global"},
        "payload_too_large: ",
        "memory_recall",
        {"scope": "global"},
    ),
    "being": (
        "update_notes",
        {"action": "append", "notes": ["{n} otters"]},
        "payload_too_large: ",
        "search_history",
        {"query": "otters"},
    ),
    "memo": (
        "memoai_memo_record",
        {"content": "{n} otters", "source": "s"},
        '{\n  "error": {\n    "type": "invalid_request"',
        "memoai_memo_search",
        {"query": "otters"},
    ),
}


def filled(arguments: dict[str, Any], n: int) -> dict[str, Any]:
    return {
        name: [one.format(n=n) for one in value] if isinstance(value, list) else value.format(n=n)
        for name, value in arguments.items()
    }


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_full_brain_is_told_in_the_words_of_each_surface(tmp_path: Path, surface: str) -> None:
    write, arguments, begins, read, query = SURFACES[surface]
    with serving(tmp_path, None, quota_notes=2, surfaces=(surface,), project="p") as served:
        async with served.over_http("modern", "/mcp/main") as client:
            for n in range(4):
                told = await client.call_tool(write, filled(arguments, n), raise_on_error=False)
                if told.is_error:
                    break
            assert told.is_error
            assert text_of(told).startswith(begins), text_of(told)
            assert SAID in text_of(told)
            assert not (await client.call_tool(read, query)).is_error
