"""A prefix keeps apart the tools of servers that a client joins; everything that names a tool follows it."""

import json
from pathlib import Path

import pytest

from contract.pin import pinned
from gateway.mcp.surface import Options
from gateway.surfaces.being.surface import Being
from tests.gateway.conftest import structured, text_of
from tests.served import serving
from tests.test_pins import ERAS, SERVED


@pytest.mark.parametrize("era", ERAS)
async def test_tools_are_listed_and_called_by_their_longer_names(tmp_path: Path, era: str) -> None:
    with serving(tmp_path, tmp_path, tool_prefix="{surface}_") as served:
        for surface in ("memory", "team"):
            async with served.over_http("modern" if era == "modern" else "legacy", f"/{surface}/mcp/main") as client:
                listed = pinned(await client.list_tools())
                assert listed == [{**tool, "name": f"{surface}_{tool['name']}"} for tool in SERVED[surface]]
                arguments = {"content": "x", **({"type": "status", "scope": "global"} if surface == "team" else {})}
                stored = await client.call_tool(f"{surface}_memory_remember", arguments)
                assert structured(stored)["outcome"] == "stored"
                refused = await client.call_tool("memory_remember", arguments, raise_on_error=False)
                assert refused.is_error


async def test_whatever_names_a_tool_uses_the_longer_name(tmp_path: Path) -> None:
    with serving(tmp_path, None, tool_prefix="my_") as served:
        async with served.over_http("modern") as client:
            error = await client.call_tool("my_memory_search", {"query": "x", "brain": "no"}, raise_on_error=False)
            assert "Call my_memory_list_brains to see yours." in text_of(error)
            assert "my_memory_list_brains" in structured(error)["message"]
            (report,) = await client.read_resource("brains://capabilities")
            assert {row["tool"][:10] for row in json.loads(report.text)["tools"]} == {"my_memory_"}
        async with served.over_http("modern", "/team/mcp") as client:
            empty = await client.call_tool("my_memory_recall", {"scope": "nowhere"})
            assert "; my_memory_scopes lists the scopes there are)" in text_of(empty)
        async with served.over_http("legacy", "/being/mcp") as client:
            told = client.initialize_result
            assert told is not None
            assert "Call my_get_context once at session start and my_recall at the" in str(told.instructions)


def test_only_whole_names_of_the_surface_s_own_tools_are_changed() -> None:
    being = Being.__new__(Being)
    being.tool_prefix = Options(tool_prefix="p_").tool_prefix
    words = "recall, recalls, get_context; update_notes_x, memory_search and p_recall"
    assert being.named(words) == "p_recall, recalls, p_get_context; update_notes_x, memory_search and p_recall"
