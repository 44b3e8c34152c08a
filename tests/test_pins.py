"""The tools that are served are the tools that are pinned."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from contract.pin import PINS, pinned
from gateway.surfaces.catalog import EXTRA_TOOLS, SURFACES
from tests.served import Era, listening, serving, stdio_client
from tests.upstreams import Scripted

ERAS: tuple[Era, ...] = ("modern", "legacy")
PINNED: dict[str, list[dict[str, Any]]] = {
    name: json.loads((PINS / f"{name}.json").read_text(encoding="utf-8")) for name in SURFACES
}
PIN = PINNED["memory"]
EXTRAS: list[dict[str, Any]] = json.loads((PINS / "memory_extras.json").read_text(encoding="utf-8"))
# With the embedded brain, unless the operator wants it otherwise.
SERVED = {**PINNED, "memory": [*PIN, *EXTRAS]}
TOOLS = [pytest.param(tool, id=f"{surface}-{tool['name']}") for surface, pin in SERVED.items() for tool in pin]


def test_every_pin_is_of_a_surface() -> None:
    assert {path.stem for path in PINS.glob("*.json")} == {*SURFACES, "memory_extras"}
    assert tuple(tool["name"] for tool in EXTRAS) == EXTRA_TOOLS


@pytest.mark.parametrize(("asked", "before_a_platform", "expected"), [("off", False, PIN), ("auto", True, PIN)])
async def test_without_the_extra_tools_there_are_the_eleven_alone(
    tmp_path: Path, asked: str, before_a_platform: bool, expected: list[dict[str, Any]]
) -> None:
    settings = {"upstream_url": "http://127.0.0.1:9"} if before_a_platform else {}
    with serving(tmp_path, tmp_path, extra_tools=asked, **settings) as served:
        async with served.over_http("modern") as client:
            assert pinned(await client.list_tools()) == expected


@pytest.mark.not_quick
async def test_over_stdio_too_there_are_the_eleven_alone(tmp_path: Path) -> None:
    settings = {"BRAINS_DATA_DIR": str(tmp_path), "BRAINS_EXTRA_TOOLS": "off"}
    async with stdio_client("legacy", tmp_path, **settings) as client:
        assert pinned(await client.list_tools()) == PIN


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.sampled(10)
@pytest.mark.not_quick
@pytest.mark.few(5)
async def test_stdio_serves_the_pinned_tools(tmp_path: Path, era: Era, surface: str) -> None:
    async with stdio_client(era, tmp_path, surface=surface, BRAINS_DATA_DIR=str(tmp_path)) as client:
        assert pinned(await client.list_tools()) == SERVED[surface]


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.not_quick
async def test_http_serves_the_pinned_tools(tmp_path: Path, era: Era, surface: str) -> None:
    with serving(tmp_path, tmp_path) as served:
        for path in (f"/{surface}/mcp", f"/{surface}/mcp/main"):
            async with served.over_http(era, path) as client:
                assert pinned(await client.list_tools()) == SERVED[surface]


@pytest.mark.parametrize("surface", SURFACES)
async def test_the_chosen_surface_is_the_one_at_mcp(tmp_path: Path, surface: str) -> None:
    with serving(tmp_path, tmp_path, surface=surface) as served:
        async with served.over_http("modern") as client:
            assert pinned(await client.list_tools()) == SERVED[surface]


async def test_a_surface_that_is_left_out_is_not_served(tmp_path: Path) -> None:
    with serving(tmp_path, tmp_path, surfaces=("kv",)) as served:
        for path in ("/mcp", "/kv/mcp"):
            async with served.over_http("modern", path) as client:
                assert pinned(await client.list_tools()) == PINNED["kv"]
        async with httpx.AsyncClient(trust_env=False) as http:
            refused = await http.post(served.url + "/memory/mcp", json={})
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("era", ERAS)
async def test_without_a_root_http_does_not_offer_files(tmp_path: Path, era: Era) -> None:
    with serving(tmp_path, None) as served:
        async with served.over_http(era) as client:
            assert pinned(await client.list_tools()) == [
                t for t in SERVED["memory"] if t["name"] != "memory_ingest_file"
            ]


async def test_listing_tools_asks_nothing_of_the_platform(tmp_path: Path) -> None:
    platform = Scripted()
    with (
        listening(platform.app()) as upstream,
        serving(tmp_path, None, upstream_url=upstream, dialect="platform") as served,
    ):
        async with served.over_http("modern") as client:
            assert len(await client.list_tools()) == 10
    assert platform.requests == []


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_sets_every_hint_and_no_schema_needs_resolving(tool: dict[str, Any]) -> None:
    assert set(tool["annotations"]) == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
    assert len(tool["name"]) <= 64
    assert tool["inputSchema"]["type"] == tool.get("outputSchema", {"type": "object"})["type"] == "object"
    text = json.dumps(tool["inputSchema"])
    assert not any(word in text for word in ("$ref", "$defs", "anyOf", "oneOf", "null"))
    # Strict hosts refuse the first, and some drop an argument for the second.
    assert '"format"' not in text
    assert '"properties": {}' not in json.dumps(tool["inputSchema"]["properties"])
    assert "$ref" not in json.dumps(tool.get("outputSchema", {}))


SEED_DESCRIPTIONS = {
    "memory_search": "Search memory notes in a brain and return matching note content with citations. scope selects "
    "the memory namespace, and sort controls whether relevance or recency wins.",
    "memory_recall": "Recall memories for a query. Pass session_id to weight recent session context; otherwise uses "
    "the dedicated memory-search surface. scope selects the memory namespace rather than a generic metadata filter.",
    "memory_remember": "Store a new memory (markdown document) in the brain. Returns the created document id and path.",
    "memory_ingest_file": "Ingest a local file (<= 25 MB) into the brain. Returns the ingest result.",
    "memory_ingest_url": "Fetch a URL and ingest its contents into the brain. Uses the server-side /ingest/url "
    "endpoint when available; otherwise fetches locally and creates a document.",
    "memory_extract": "Submit a conversation transcript so the server can asynchronously extract memorable facts. If "
    "session_id is provided the messages are appended to that session; otherwise a transcript document is created.",
    "memory_reflect": "Close a session and trigger server-side reflection over its messages.",
    "memory_consolidate": "Trigger a consolidation pass on the brain (compile summaries, promote stable notes, prune "
    "stale episodic memory).",
    "memory_create_brain": "Create a new brain. Generates a slug from the name if one is not provided.",
    "memory_list_brains": "List all brains the caller has access to.",
    "memory_ask": "Ask a question grounded in the brain. Streams answer tokens as MCP progress notifications and "
    "returns the final answer with citations.",
}


def test_descriptions_are_the_contracts_word_for_word() -> None:
    assert {tool["name"]: tool["description"] for tool in PIN} == SEED_DESCRIPTIONS
