"""The `being` surface in front of the published daemon, by a real client: the examples of the contract."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from fastmcp import Client

from tests.daemons.llm import ScriptedLLM
from tests.daemons.real import running_daemon
from tests.gateway.conftest import eventually, structured, text_of
from tests.gateway.surfaces.being.beings import BREAD, IDS, scene
from tests.peers.test_daemon import talkative
from tests.served import Era, Served, listening, serving


@pytest.fixture(scope="module", params=["no model", "scripted model"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("being")
    with ExitStack() as stack:
        llm = None
        if request.param != "no model":
            llm = stack.enter_context(listening(ScriptedLLM(talkative()).app()))
        daemon = stack.enter_context(running_daemon(folder / "daemon", llm_url=llm))
        yield stack.enter_context(serving(folder / "data", None, upstream_url=daemon))


class Talk:
    """Calls to one being."""

    def __init__(self, client: Client[Any]) -> None:
        self._client = client

    async def told(self, tool: str, **arguments: Any) -> str:
        result = await self._client.call_tool(tool, arguments, raise_on_error=False)
        assert not result.is_error, text_of(result)
        return text_of(result)

    async def answered(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return dict(json.loads(await self.told(tool, **arguments)))


async def brain_of(served: Served, name: str) -> str:
    async with served.over_http("modern") as client:
        return str(structured(await client.call_tool("memory_create_brain", {"name": name}))["id"])


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_eleven_tools_of_eleven_work(served: Served, era: Era) -> None:
    brain = await brain_of(served, f"Being {era}")
    async with served.over_http(era, f"/being/mcp/{brain}") as client:
        being = Talk(client)
        noted = await being.answered("update_notes", scenes=[BREAD, scene("Rin baked rolls", themes=["baking"])])
        one, two = noted["scene_ids"]
        talk = [{"role": "user", "content": "I prefer green tea."}, {"role": "assistant", "content": "Noted."}]
        patrols = [await being.answered("trigger_patrol", messages=talk) for _ in range(2)]
        assert [patrol.pop("scenes_created") for patrol in patrols] == [1, 0]
        assert [patrol.pop("nodes_created") for patrol in patrols] == [3, 0]
        assert patrols[0] == patrols[1]
        assert set(patrols[0]) == {"status", "marker_id"}
        history = await being.told("search_history", query="TEA")
        assert re.fullmatch(r"1 message, newest first:\n\[\S+Z\] user: I prefer green tea\.", history)

        (cluster_id,) = re.findall(r"(?i)baking \(2 nodes\) id=(\S+)", await being.told("recall_memory"))
        assert set(IDS.findall(await being.told("recall_memory", cluster_id=cluster_id))) == {cluster_id, one, two}
        recalled = await being.told("recall", user_message="Who baked bread?")
        assert recalled.startswith("<recalled_memories>\n- [2026-04-14] Rin")
        found = await being.told("search_memory", query="baked")
        assert found.startswith("Keyword search: 2 nodes.\n")
        assert set(IDS.findall(found)) == {one, two}

        await being.told("merge_nodes", node_ids=f"{one},{two}", summary="Rin baked a lot", feeling="joy")
        (merged,) = IDS.findall(await being.told("search_memory", query="baked"))
        assert merged not in {one, two}
        assert "dead: yes" in await being.told("recall_memory", node_id=one)

        async def is_counted() -> bool:
            return "reactivation_count: 0" not in await being.told("recall_memory", node_id=one)

        await eventually(is_counted)
        assert len(IDS.findall(await being.told("search_memory", query="baked"))) == 1
        await being.answered("update_memory", target="souls", action="update", key="Miku", content="You are Miku.")
        person = {"entity_name": "Ken Sato", "relation_type": "person"}
        await being.answered("update_relation", **person, action="upsert", content="Rin's brother")
        context = await being.answered("get_context")
        assert "- Miku: You are Miku." in context["system_prompt"]
        assert "- Ken Sato (person): Rin's brother" in context["system_prompt"]
        assert len(context["recent_nodes"]) == 2
        assert (await being.answered("update_relation", **person, action="delete"))["deleted"] is True
        assert (await being.answered("update_memory", target="souls", action="delete"))["deleted"] is True
        assert (await being.answered("get_context"))["system_prompt"] == ""
        assert (await being.answered("get_current_time", timezone="Asia/Tokyo"))["timezone"] == "Asia/Tokyo"

        async def is_revived() -> bool:
            await being.answered("trigger_patrol", messages=[])
            return set(IDS.findall(await being.told("search_memory", query="baked"))) == {merged, one}

        await eventually(is_revived)


async def test_ten_scenes_become_nodes_by_themselves(served: Served) -> None:
    brain = await brain_of(served, "Being of ten")
    async with served.over_http("modern", f"/being/mcp/{brain}") as client:
        being = Talk(client)
        noted = await being.answered("update_notes", scenes=[scene(f"Loaf number {n}") for n in range(10)])
        assert noted["patrol_started"] is True

        async def is_patrolled() -> bool:
            return set(IDS.findall(await being.told("search_memory", query="loaf", limit=30))) == set(
                noted["scene_ids"]
            )

        await eventually(is_patrolled)
