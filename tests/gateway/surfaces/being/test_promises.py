"""What the contract of `being` says of meaning, models and days, on platforms that have or lack them."""

from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response

from tests.daemons.fake import BRAIN, FakeDaemon, T
from tests.gateway.conftest import Platforms, house_of, text_of
from tests.gateway.surfaces.being.beings import BREAD, TREE, Files, told
from tests.served import listening, serving
from tests.upstreams import Answer, Scripted

pytestmark = pytest.mark.not_quick

NODE = f"{TREE}/nodes/00000000-0000-5000-8000-000000000000/00000000-0000-5000-8000-000000000001.md"
NEAR = {"component_scores": {"vector": 0.8}}


async def searched(folder: Path, hit: dict[str, Any], mode: str) -> str:
    """What `search_memory` tells of a node that has one of two words, found by a platform with this hit."""
    answers: dict[str, Answer] = {
        "GET /v1/brains/main/search": lambda _request: {"hits": [{"path": NODE, "score": 0.5, "content": "x", **hit}]},
        "GET /v1/brains/main/documents/read": lambda _request: Response("Otters swim", media_type="text/markdown"),
    }
    with (
        listening(Scripted(answers).app()) as url,
        serving(folder, None, upstream_url=url, dialect="platform") as served,
    ):
        async with served.over_http("modern", "/being/mcp/main") as client:
            return text_of(await client.call_tool("search_memory", {"query": "otters sleep", "mode": mode}))


@pytest.mark.parametrize(("hit", "header"), [(NEAR, "Vector search: 1 node."), ({}, "Keyword search: 1 node.")])
async def test_the_header_says_which_search_it_was(tmp_path: Path, hit: dict[str, Any], header: str) -> None:
    assert (await searched(tmp_path, hit, "or")).splitlines()[0] == header


@pytest.mark.parametrize(("hit", "found"), [(NEAR, True), ({}, False)])
async def test_every_word_is_wanted_in_a_search_by_words_alone(
    tmp_path: Path, hit: dict[str, Any], found: bool
) -> None:
    assert ("Otters swim" in await searched(tmp_path, hit, "and")) is found


async def test_a_patrol_goes_on_where_the_platform_has_no_model(tmp_path: Path) -> None:
    daemon = FakeDaemon(T, llm=None)
    daemon.brains["main"] = {}
    daemon.fail |= {f"POST {BRAIN}/consolidate": 501, f"POST {BRAIN}/extract": 501}
    messages = [{"role": "user", "content": "I like tea."}]
    with listening(daemon.app()) as url, serving(tmp_path, None, upstream_url=url) as served:
        async with served.over_http("modern", "/being/mcp/main") as client:
            await client.call_tool("update_notes", {"scenes": [BREAD]})
            patrol = text_of(await client.call_tool("trigger_patrol", {"messages": messages}))
            nodes = text_of(await client.call_tool("search_memory", {"query": "bread"}))
    assert '"status": "ok"' in patrol
    assert "Rin baked her first loaf" in nodes


async def test_days_of_a_history_begin_and_end_at_midnight_in_utc(platforms: Platforms) -> None:
    moments = ["2026-03-01T23:59:59.999Z", "2026-03-02T00:00:00.000Z", "2026-03-02T23:59:59.999Z"]
    moments.append("2026-03-03T00:00:00.000Z")
    async for house in house_of(platforms, "T", "http", "modern"):
        for moment in moments:
            line = f'{{"id": "{moment}", "at": "{moment}", "role": "user", "content": "said"}}\n'
            day = f"{TREE}/history/{moment[:10]}.jsonl"
            kept = await Files(house).read(day) if moment == moments[2] else b""
            await Files(house).write(day, kept + line.encode())
        shown = await told(house, "search_history", date_from="2026-03-02", date_to="2026-03-02")
    assert [moment in shown for moment in moments] == [False, True, True, False]
