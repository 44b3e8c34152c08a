"""Models that are shown texts alone can read whole memories: what a summary leaves out follows it."""

from pathlib import Path
from typing import Any

import pytest

from gateway.mcp.shown import FULL_LENGTH
from gateway.surfaces.team.surface import Read
from tests.gateway.conftest import Agent, House, structured, texts_of
from tests.gateway.surfaces.memory.test_shapes import called, says
from tests.served import serving
from tests.upstreams import replay

pytestmark = pytest.mark.not_quick

B = "/v1/brains/b"
LONG = "The otter sleeps. " * 45


def note(n: int) -> str:
    return f"# Otter {n}\n\n{LONG}Last word of {n}."


async def test_a_search_and_a_recall_tell_every_hit_whole(agent: Agent) -> None:
    for n in range(7):
        await agent.good("memory_remember", content=note(n), path=f"memory/global/otter-{n}.md")
    for tool in ("memory_search", "memory_recall"):
        result = await agent(tool, query="otter", top_k=10)
        summary, full = texts_of(result)
        hits = structured(result)["hits"]
        assert len(hits) >= 7
        assert summary.count("score=") == 5
        for n, hit in enumerate(hits, start=1):
            assert f"=== {n} of {len(hits)}: {hit['path']}" in full
            assert hit["content"] in full
        assert all(f"Last word of {n}." in full for n in range(7))


async def test_what_the_summary_tells_whole_is_told_once(web_agent: Agent) -> None:
    await web_agent.good("memory_remember", content="The otter sleeps.", path="memory/global/otter.md")
    for tool, arguments in (("memory_search", {"query": "otter"}), ("memory_list_brains", {})):
        assert len(texts_of(await web_agent(tool, **arguments))) == 1
    assert texts_of(await web_agent("memory_search", query="xyzzyplugh")) == ["Nothing found."]


async def test_a_title_and_a_date_stand_above_a_hit(tmp_path: Path) -> None:
    hit = {"score": 0.5, "path": "a.md", "title": "Otters", "updated_at": "2026-04-14T16:30:00Z", "content": LONG}
    answers = {f"GET {B}/search": says({"hits": [hit]})}
    summary, full = texts_of(await called(tmp_path, answers, "memory_search", {"query": "x", "brain": "b"}))
    assert summary == f"#1 score=0.500 a.md\n{LONG[:320]}"
    assert full == f"=== 1 of 1: a.md · Otters · 2026-04-14T16:30:00Z ===\n{LONG}"


async def test_an_answer_is_followed_by_its_sources(web_agent: Agent) -> None:
    await web_agent.good("memory_remember", content="The train leaves at 22:10.", path="memory/global/train.md")
    result = await web_agent("memory_ask", query="When does the train leave?")
    summary, full = texts_of(result)
    answer = structured(result)
    assert summary.startswith(answer["answer"])
    assert "Sources" not in answer["answer"]
    assert full.startswith("=== 1 of ")
    for source in answer["retrieved"]:
        assert source["document_id"] in full
        assert source["preview"] in full
    if web_agent.platform == "embedded":
        assert "=== 1 of 1: memory/global/train.md · doc_" in full
        assert " · cited ===\nThe train leaves at 22:10." in full


CITED_ONLY = b"""event: retrieve
data: {"chunks":[{"chunk_id":"c1","document_id":"d1","preview":"one","path":"a.md"}]}

event: citation
data: {"chunk_id":"c2","document_id":"d2","quote":"two"}

event: citation
data: {"chunk_id":"c3","document_id":"d2","quote":"three"}

event: done
data: {"answer":"yes"}

"""


async def test_a_source_that_is_only_cited_is_told_by_its_quotes(tmp_path: Path) -> None:
    result = await called(tmp_path, {f"POST {B}/ask": replay(CITED_ONLY)}, "memory_ask", {"query": "x", "brain": "b"})
    assert texts_of(result) == [
        "yes\n\nSources: d2",
        "=== 1 of 2: a.md · d1 ===\none\n\n=== 2 of 2: d2 · cited ===\ntwo\nthree",
    ]
    assert structured(result)["retrieved"] == [{"chunk_id": "c1", "document_id": "d1", "score": 0.0, "preview": "one"}]


async def test_kv_tells_values_whole_that_its_lines_cut(web_house: House) -> None:
    await web_house.good("kv", "jettson_memory_put", key="short", value="otter")
    for tool, arguments in (("search", {"query": "otter"}), ("list", {})):
        assert len(texts_of(await web_house.good("kv", f"jettson_memory_{tool}", **arguments))) == 1
    value = LONG + "The end."
    await web_house.good("kv", "jettson_memory_put", key="long", value=value, tags=["a"])
    for tool, arguments in (("search", {"query": "otter"}), ("list", {})):
        summary, full = texts_of(await web_house.good("kv", f"jettson_memory_{tool}", **arguments))
        assert "The end." not in summary
        assert " of 2: default/long (importance 5, tags a) · 20" in full
        assert value in full
        assert "otter" in full
    assert texts_of(await web_house.good("kv", "jettson_memory_get", key="long")) == [
        f"Found default/long (importance 5, tags a):\n{value}"
    ]


async def test_team_tells_entries_whole_that_its_lines_cut(web_house: House) -> None:
    short = {"content": "Tea.", "type": "status", "scope": "global", "key": "short"}
    await web_house.good("team", "memory_remember", **short)
    for tool in ("memory_recall", "memory_load_context", "memory_scopes"):
        assert len(texts_of(await web_house.good("team", tool))) == 1
    content = LONG * 3 + "\n\n- The end."
    await web_house.good("team", "memory_remember", content=content, type="decision", scope="global", key="long")
    for tool in ("memory_recall", "memory_load_context"):
        summary, full = texts_of(await web_house.good("team", tool))
        assert "The end." not in summary
        assert "decision [global] long · id global/long · by " in full
        assert content in full
        assert "Tea." in full


async def test_it_is_left_out_where_it_is_not_wanted(tmp_path: Path) -> None:
    with serving(tmp_path, None, full_text="off") as served:
        async with served.over_http("modern") as client:
            await client.call_tool("memory_remember", {"content": note(1)})
            found = await client.call_tool("memory_search", {"query": "otter"})
            asked = await client.call_tool("memory_ask", {"query": "otter"})
    assert len(texts_of(found)) == len(texts_of(asked)) == 1
    assert "Last word of 1." in str(structured(found))


async def test_memo_and_errors_have_one_text(web_house: House) -> None:
    web_house.headers["MEMOAI_PROJECT"] = "apollo"
    await web_house.good("memo", "memoai_memo_record", content=LONG)
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("memo", "memoai_memo_search", {"query": "otter"}),
        ("memory", "memory_search", {"query": ""}),
        ("kv", "jettson_memory_search", {"query": ""}),
        ("team", "memory_recall", {"scope": "a b"}),
        ("memory", "memory_ask", {"query": "x", "brain": "no-such-brain"}),
    ]
    for surface, tool, arguments in calls:
        assert len(texts_of(await web_house(surface, tool, **arguments))) == 1, tool


async def test_what_is_more_than_one_result_holds_is_left_out_and_told(tmp_path: Path) -> None:
    hits = [{"score": 0.5, "path": f"{n}.md", "content": "x" * 300_000} for n in range(5)]
    answers = {f"GET {B}/search": says({"hits": hits, "total": 5})}
    result = await called(tmp_path, answers, "memory_search", {"query": "x", "brain": "b"})
    data = structured(result)
    assert (data["hits"], data["left_out"], data["total"]) == (hits[:3], 2, 5)
    summary, full = texts_of(result)
    assert summary.endswith("\n(2 more are left out: one result holds 1,000,000 characters)")
    assert len(full) <= FULL_LENGTH
    assert " more characters of 1 and 2 to 3. ===" in full


async def test_a_context_of_long_entries_is_bounded(platforms: Any) -> None:
    async with platforms("embedded").over_http("modern", "/team/mcp/main", {"X-Project": "bounded"}) as client:
        entry = {"type": "decision", "scope": "bounded"}
        for n in range(4):
            await client.call_tool("memory_remember", {**entry, "content": f"{n}" * 100_000})
        context = structured(await client.call_tool("memory_load_context", {"scope": "bounded"}))
        decisions = context["groups"][0]
        recalled = structured(await client.call_tool("memory_recall", {"scope": "bounded", "include_global": False}))
    assert [len(entry["content"]) for entry in decisions["entries"]] == [100_000]
    assert decisions["omitted"] == 3
    assert (recalled["count"], recalled["left_out"]) == (4, [])


def test_entries_that_are_too_many_for_a_result_count_as_left_out() -> None:
    read = Read([], [{"scope": "apollo", "notes": 2}], [])
    assert read.left_out_with([]) == read.left_out
    more = [{"scope": "apollo"}, {"scope": "global"}]
    assert read.left_out_with(more) == [{"scope": "apollo", "notes": 3}, {"scope": "global", "notes": 1}]
