"""The `kv` surface in front of the published daemon: the same tests as on the fakes of it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.daemons.real import running_daemon
from tests.gateway.conftest import House, eventually, house_of, structured
from tests.gateway.surfaces.kv.test_surface import COLOR, delete, get, keys, listed, put, search
from tests.gateway.surfaces.kv.test_surface import (
    test_another_put_replaces_and_keeps_when_it_began as test_another_put_replaces_and_keeps_when_it_began,
)
from tests.gateway.surfaces.kv.test_surface import test_reads_are_counted as test_reads_are_counted
from tests.gateway.surfaces.kv.test_surface import (
    test_search_filters_by_namespace_and_by_all_tags as test_search_filters_by_namespace_and_by_all_tags,
)
from tests.gateway.surfaces.kv.test_surface import (
    test_the_examples_of_the_contract as test_the_examples_of_the_contract,
)
from tests.served import Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("daemon")
    with running_daemon(folder) as url, serving(folder / "data", None, upstream_url=url) as made:
        yield made


@pytest.fixture
async def house(served: Served) -> AsyncIterator[House]:
    async for found in house_of(lambda _platform: served, "T", "http", "modern"):
        yield found


@pytest.fixture
def web_house(house: House) -> House:
    return house


async def test_a_memory_is_the_same_after_the_daemon_has_tidied_up(house: House) -> None:
    await put(house, **COLOR)
    before = await get(house, "brand_color", namespace="user_profile")
    await house.good("memory", "memory_consolidate")
    after = await get(house, "brand_color", namespace="user_profile")
    assert after["value"].strip() == before["value"]
    assert (after["importance"], after["created_at"]) == (8, before["created_at"])
    assert set(after["tags"]) >= {"brand", "design"}
    await put(house, **COLOR)
    assert (await get(house, "brand_color", namespace="user_profile"))["updated_at"] == after["updated_at"]
    assert keys(await search(house, "brand color", tags=["design"])) == ["brand_color"]
    assert await delete(house, "brand_color", namespace="user_profile")

    async def is_gone() -> bool:
        # The daemon's own index still names the key, until it is made again.
        return "FF5733" not in str(structured(await house.good("memory", "memory_search", query="primary color")))

    await eventually(is_gone)
    assert await listed(house) == []
