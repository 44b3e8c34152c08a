"""Every surface finds by meaning what the embedded brain can find so."""

from collections.abc import AsyncIterator

import pytest

from tests.gateway.conftest import House, Platforms, house_of, structured, text_of
from tests.gateway.surfaces.being.beings import patrolled, scene
from tests.gateway.surfaces.memo.test_surface import in_project, search

pytestmark = pytest.mark.needs_offline_model

NOTE = "The automobile is in the garage on Elm Street."
QUESTION = "Where is my car parked?"


@pytest.fixture
async def house(platforms: Platforms) -> AsyncIterator[House]:
    async for found in house_of(platforms, "embedded", "http", "modern"):
        yield found


async def test_memory(house: House) -> None:
    await house.good("memory", "memory_remember", content=NOTE)
    found = structured(await house.good("memory", "memory_search", query=QUESTION))
    assert found["hits"][0]["content"].strip() == NOTE
    assert found["method"] == "hybrid"
    scores = found["hits"][0]["component_scores"]
    assert scores["keyword"] == 0
    assert 0 < scores["semantic"] <= 1
    recalled = structured(await house.good("memory", "memory_recall", query=QUESTION))
    assert recalled["hits"][0]["content"].strip() == NOTE


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "keyword"])
async def test_kv(house: House, mode: str) -> None:
    await house.good("kv", "jettson_memory_put", key="place", value=NOTE)
    (found,) = structured(await house.good("kv", "jettson_memory_search", query=QUESTION, mode=mode))["results"]
    assert found["value"] == NOTE
    assert (found["breakdown"]["semantic"] > 0) == (mode != "keyword")
    assert 0 <= found["score"] < 1


async def test_memo(house: House) -> None:
    in_project(house)
    await house.good("memo", "memoai_memo_record", content=NOTE)
    (memo,) = await search(house, QUESTION)
    assert memo["content"] == NOTE
    assert 0 < memo["similarity"] < 1
    # It may be found, as the nearest there is.
    assert all(memo["similarity"] < 0.3 for memo in await search(house, "How do whales sing?"))


async def test_being(house: House) -> None:
    await patrolled(house, scene(NOTE))
    found = text_of(await house.good("being", "search_memory", query=QUESTION))
    assert found.startswith("Vector search: 1 node.")
    assert NOTE in found
    assert NOTE in text_of(await house.good("being", "recall", user_message=QUESTION))
    assert text_of(await house.good("being", "search_memory", query=QUESTION, mode="and")).startswith("Keyword search")
