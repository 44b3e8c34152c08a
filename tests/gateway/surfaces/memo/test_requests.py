"""How many requests the tools of the `memo` surface make upstream: no more than it takes."""

from collections.abc import AsyncIterator
from functools import partial

import pytest

from tests.gateway.conftest import eventually
from tests.gateway.surfaces.memo.memos import EXAMPLE, PROJECT, TIMEOUT, Desk, desk, memos_of, path_of, with_brain

pytestmark = pytest.mark.not_quick


@pytest.fixture(params=["platform", "daemon"])
async def one(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    with desk(request.param, tmp_path_factory.mktemp("desk")) as made:
        async for found in with_brain(made):
            # The first write, so that the routes for it are known.
            await found.record("The very first memo.")
            await eventually(partial(_has_settled, found, request.param))
            yield found


async def _has_settled(desk: Desk, dialect: str) -> bool:
    """Whether the platform has been asked to sort the first memo, which it cannot: it is asked once."""
    return dialect != "platform" or any(path.endswith("/derive") for path in desk.counted.paths)


async def test_a_record_looks_and_writes_and_a_repeat_only_looks(one: Desk) -> None:
    async with one.client() as client:
        for expected in (2, 1, 1):
            before = one.counted.requests
            await client.call_tool("memoai_memo_record", EXAMPLE)
            assert one.counted.requests - before == expected


async def test_a_search_reads_what_it_answers_with_and_no_more(one: Desk) -> None:
    for n in range(6):
        await one.record(f"Lesson {'pump ' * (n + 1)}", source=f"s{n}")
    async with one.client() as client:
        for limit, expected in ((1, 2), (3, 4), (100, 7)):
            before = one.counted.requests
            await client.call_tool("memoai_memo_search", {"query": "pump", "limit": limit})
            assert one.counted.requests - before == expected
        before = one.counted.requests
        await client.call_tool("memoai_memo_search", {"query": "xylophone"})
        assert one.counted.requests - before == 1


async def test_long_memos_cost_a_second_search_and_nothing_else(one: Desk) -> None:
    """To the platform they are many parts each; the daemon knows whole notes alone."""
    words = "Then wait for the pressure to settle and look at the gauge again. " * 13
    for n in range(12):
        parts = [f"{'Grease the pump. ' * (12 - n)} {words} Memo{n} part {m}." for m in range(8)]
        await one.record("\n\n".join(parts))
    async with one.client() as client:
        before = one.counted.requests
        found = memos_of(await client.call_tool("memoai_memo_search", {"query": "grease"}))
        assert one.counted.requests - before == (12 if one.name == "platform" else 11)
    # The best of all, although the others are newer.
    assert [f"Memo{n} " in memo["content"] for n, memo in enumerate(found)] == [True] * 10


async def test_a_memo_that_does_not_say_when_it_was_recorded_costs_one_listing(one: Desk) -> None:
    await one.put(f"memory/project/{PROJECT}/memo/grease.md", "Pumps need grease.")
    await one.put(f"memory/project/{PROJECT}/memo/grease2.md", "Pumps need more grease.")
    async with one.client() as client:
        before = one.counted.requests
        await client.call_tool("memoai_memo_search", {"query": "grease"})
        assert one.counted.requests - before == 4


async def test_bad_arguments_and_a_missing_project_ask_nothing_of_the_platform(one: Desk) -> None:
    before = one.counted.requests
    await one("search", query="a", limit=0)
    await one("record", content=7)
    one.headers = {}
    await one("search", query="a")
    await one("record", content=TIMEOUT)
    assert one.counted.requests == before
    assert len(await one.paths()) == 1


async def test_ids_are_the_names_of_notes(one: Desk) -> None:
    memo_id = await one.record(**EXAMPLE)
    assert path_of(memo_id) in await one.paths()
