"""Scores of `memo` and `kv` say how well a memory answers, whatever else there is: everyday notes, on both dialects."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.gateway.surfaces.everyday import THIRD, Everyday
from tests.gateway.surfaces.memo.memos import memos_of
from tests.gateway.surfaces.shelf import BRAIN, Agent, Shelf, shelf_on

pytestmark = pytest.mark.not_quick

PROJECT = {"X-MemoAI-Project": "home"}
# The same words in each, but not as often.
SAME_WORDS = {f"pump{n}": f"The pump {'of the pump ' * n}needs grease, seen {n} times." for n in (4, 1, 5, 2, 3)}


@pytest.fixture(scope="module", params=["platform", "daemon"])
def shelf(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    """Filled once: the tests only read."""
    with shelf_on(request.param, tmp_path_factory.mktemp("everyday")) as made:
        for name, note in (THIRD.notes | SAME_WORDS).items():
            made.put(f"memory/project/home/memo/{name}.md", note)
            made.put(f"memory/global/kv/default/{name}.md", note)
        yield made


@pytest.fixture
async def memo(shelf: Shelf) -> AsyncIterator[Agent]:
    async with shelf.client("memo", **PROJECT) as agent:
        yield agent


@pytest.fixture
async def kv(shelf: Shelf) -> AsyncIterator[Agent]:
    async with shelf.client("kv") as agent:
        yield agent


async def memos(memo: Agent, query: str, **arguments: Any) -> list[dict[str, Any]]:
    return memos_of(await memo.client.call_tool("memoai_memo_search", {"query": query, **arguments}))


async def memories(kv: Agent, query: str, **arguments: Any) -> list[dict[str, Any]]:
    return list((await kv.good("jettson_memory_search", query=query, **arguments))["results"])


async def test_no_memo_is_much_like_a_query_that_none_answers(memo: Agent) -> None:
    found = {query: await memos(memo, query) for query in THIRD.unanswered}
    assert [(query, m["content"]) for query, all_ in found.items() for m in all_ if m["similarity"] > 0.5] == []
    # They do share words.
    assert sum(map(bool, found.values())) >= 15


@pytest.mark.slow
async def test_no_memory_scores_high_for_a_query_that_none_answers(kv: Agent) -> None:
    for mode in ("hybrid", "semantic", "keyword"):
        for query in THIRD.unanswered:
            high = [m["key"] for m in await memories(kv, query, mode=mode) if m["score"] > 0.5]
            assert high == [], query


async def test_what_answers_comes_first_and_mostly_as_a_good_match(memo: Agent, kv: Agent) -> None:
    await assert_answered(THIRD, memo, kv)


async def assert_answered(everyday: Everyday, memo: Agent, kv: Agent) -> None:
    best = {query: (await memos(memo, query), await memories(kv, query)) for query in everyday.answered}
    found = {query: both for query, both in best.items() if all(both)}
    # By a daemon that knows no stems, some are found by other words alone.
    assert len(found) >= len(best) - 3
    firsts = {query: (memo_[0]["content"], memory[0]["key"]) for query, (memo_, memory) in found.items()}
    assert firsts == {query: (everyday.notes[everyday.answered[query]], everyday.answered[query]) for query in found}
    assert sum(memo_[0]["similarity"] > 0.7 for memo_, _ in found.values()) > len(found) / 2
    assert sum(memory[0]["score"] > 0.7 for _, memory in found.values()) > len(found) / 2


async def test_of_the_same_words_the_platforms_order_stays(shelf: Shelf, memo: Agent, kv: Agent) -> None:
    async with shelf.client("memory") as agent:
        for query in ("pump", "grease", "pump grease"):
            hits = (await agent.good("memory_search", brain=BRAIN, query=query, top_k=50))["hits"]
            of_memo = [hit for hit in hits if hit["path"].startswith("memory/project/home/memo/")]
            found = await memos(memo, query)
            assert {m["content"] for m in found} == set(SAME_WORDS.values())
            scores = {hit["content"]: hit["score"] for hit in of_memo}
            assert [scores[m["content"]] for m in found] == sorted(scores.values(), reverse=True)
            assert all(m["similarity"] > 0.85 for m in found)
            assert [m["similarity"] for m in found] == sorted((m["similarity"] for m in found), reverse=True)
            parts = {m["value"]: m["breakdown"]["keyword"] for m in await memories(kv, query)}
            assert sorted(parts, key=lambda note: -parts[note]) == sorted(parts, key=lambda note: -scores[note])


async def test_what_a_memo_scores_does_not_depend_on_the_others(shelf: Shelf, memo: Agent) -> None:
    query = "photo of the new colleagues"
    (before,) = [m["similarity"] for m in await memos(memo, query) if m["content"] == THIRD.notes["onboarding"]]
    path = "memory/project/home/memo/better.md"
    shelf.put(path, "The photo of the new colleagues is on the intranet.")
    try:
        better, *others = await memos(memo, query)
        (after,) = [m["similarity"] for m in others if m["content"] == THIRD.notes["onboarding"]]
        assert better["similarity"] == 1.0
        assert after == pytest.approx(before, abs=0.01)
    finally:
        shelf.http.delete(shelf.documents(), params={"path": path})
