"""The memo surface in front of the published daemon, by real clients: the contract's own examples, and what lasts."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from fastmcp import Client

from tests.daemons.real import running_daemon
from tests.gateway.conftest import structured
from tests.gateway.surfaces.memo.memos import EXAMPLE, METADATA, PROJECT, RELEASE, TIMEOUT, error_of, id_of, memos_of
from tests.served import Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("home")
    with running_daemon(home / "daemon") as url, serving(home / "data", None, upstream_url=url) as made:
        yield made


@pytest.fixture
async def memo(served: Served, request: pytest.FixtureRequest) -> AsyncIterator[Client[Any]]:
    """A client with a brain of its own."""
    async with served.over_http("modern") as client:
        brain = structured(await client.call_tool("memory_create_brain", {"name": request.node.name}))["id"]
    async with served.over_http("modern", f"/memo/mcp/{brain}", {"MEMOAI_PROJECT": PROJECT}) as client:
        yield client


async def record(memo: Client[Any], **arguments: Any) -> str:
    return id_of(await memo.call_tool("memoai_memo_record", arguments))


async def search(memo: Client[Any], query: str, **arguments: Any) -> list[dict[str, Any]]:
    return memos_of(await memo.call_tool("memoai_memo_search", {"query": query, **arguments}))


async def test_the_contracts_examples_work(memo: Client[Any]) -> None:
    first = await record(memo, **EXAMPLE)
    second = await record(memo, content=RELEASE, source="manual", metadata={"tags": ["best-practice"]})
    found = await search(memo, "DuckDB timeout error", limit=5)
    assert [m["id"] for m in found] == [first, second]
    assert [m["content"] for m in found] == [TIMEOUT, RELEASE]
    assert [m["tags"] for m in found] == [[], ["best-practice"]]
    assert found[0]["extra_metadata"] == METADATA
    assert 1 >= found[0]["similarity"] > found[1]["similarity"] > 0


async def test_a_memo_is_found_by_its_metadata_and_recorded_once(memo: Client[Any]) -> None:
    metadata = {"ticket": "OPS-1234", "author": "Grace Hopper", "note": "it's \"odd\", isn't it: yes", "build": 8421}
    first = await record(memo, content="Always release connections.", metadata=metadata)
    assert await record(memo, content="Always release connections.", metadata=metadata) == first
    for query in ("OPS-1234", "hopper", "odd", "8421"):
        (found,) = await search(memo, query)
        assert (found["id"], found["extra_metadata"], found["tags"]) == (first, metadata, [])
    assert await search(memo, "xylophone") == []


async def test_projects_do_not_see_each_other(served: Served, memo: Client[Any]) -> None:
    await record(memo, content="The alpha secret.")
    brain = str(memo.transport.url).rpartition("/")[2]
    async with served.over_http("legacy", f"/memo/mcp/{brain}", {"X-MemoAI-Project": "Other"}) as other:
        assert await search(other, "secret") == []
        await record(other, content="The other secret.")
        assert [m["content"] for m in await search(other, "secret")] == ["The other secret."]
    assert [m["content"] for m in await search(memo, "secret")] == ["The alpha secret."]
    async with served.over_http("legacy", f"/memo/mcp/{brain}") as nowhere:
        answer = await nowhere.call_tool("memoai_memo_search", {"query": "secret"}, raise_on_error=False)
    assert error_of(answer)["type"] == "configuration_error"


async def test_the_platforms_tidying_up_changes_no_memo(served: Served, memo: Client[Any]) -> None:
    await record(memo, **EXAMPLE)
    before = await search(memo, "DuckDB")
    brain = str(memo.transport.url).rpartition("/")[2]
    async with served.over_http("modern") as client:
        await client.call_tool("memory_consolidate", {"brain": brain})
    assert await search(memo, "DuckDB") == before
    await record(memo, **EXAMPLE)
    assert await search(memo, "DuckDB") == before
