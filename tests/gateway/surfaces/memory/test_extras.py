"""The four tools beside the contract: notes are listed, read, corrected and forgotten, on any platform."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from tests.daemons.fake import FakeDaemon
from tests.gateway.cli.running import run
from tests.gateway.conftest import DAEMONS, FEW_PLATFORMS, structured, text_of
from tests.gateway.surfaces.shelf import shelf_on
from tests.served import Served, listening, serving

KV_REPORT = "memory/global/kv/default/report.md"


@pytest.fixture(params=FEW_PLATFORMS)
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    with ExitStack() as stack:
        settings = {}
        if request.param != "embedded":
            fake = FakeDaemon(DAEMONS[request.param])
            fake.brains.update({"main": {}, "other": {}})
            settings["upstream_url"] = stack.enter_context(listening(fake.app()))
        yield stack.enter_context(serving(tmp_path, None, extra_tools="on", default_brain="main", **settings))


async def called(client: Client[Any], tool: str, **arguments: Any) -> dict[str, Any]:
    return structured(await client.call_tool(tool, arguments))


async def refusal(client: Client[Any], tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments, raise_on_error=False)
    assert result.is_error
    return str(structured(result)["code"])


async def test_a_memory_is_listed_read_corrected_and_forgotten(served: Served) -> None:
    async with served.over_http("modern") as client:
        stored = await called(client, "memory_remember", content="# Tea\n\nSixty degrees.", tags=["drinks"])
        path = stored["path"]
        listed = await called(client, "memory_list", folder="memory/global", limit=5)
        assert [item["path"] for item in listed["items"]] == [path]
        read = await called(client, "memory_read", path=path)
        assert (read["title"], read["tags"]) == ("Tea", ["drinks"])
        assert read["content"].strip() == "# Tea\n\nSixty degrees."

        fixed = {"path": path, "content": "# Tea\n\nFifty degrees.", "checksum_sha256": read["checksum_sha256"]}
        changed = await called(client, "memory_update", **fixed)
        assert changed["changed"] is True
        again = await called(client, "memory_read", path=path)
        assert again["checksum_sha256"] == changed["checksum_sha256"]
        assert (again["title"], again["tags"]) == ("Tea", ["drinks"])
        assert again["content"].strip() == "# Tea\n\nFifty degrees."
        hits = (await called(client, "memory_search", query="fifty degrees"))["hits"]
        assert path in [hit["path"] for hit in hits]
        # The same call again is the same; another one with what was read before is a conflict.
        assert (await called(client, "memory_update", **fixed))["changed"] is False
        assert await refusal(client, "memory_update", **{**fixed, "content": "Forty."}) == "conflict"

        forgotten = await client.call_tool("memory_forget", {"path": path})
        assert f"brains-gateway undo {path}" in text_of(forgotten)
        assert structured(await client.call_tool("memory_forget", {"path": path}))["forgotten"] is True
        assert await refusal(client, "memory_read", path=path) == "not_found"
        assert (await called(client, "memory_list"))["total"] == 0
        assert await refusal(client, "memory_forget", path="memory/global/never.md") == "not_found"


async def test_what_a_tool_forgot_or_changed_the_person_brings_back(served: Served, tmp_path: Path) -> None:
    settings = {"BRAINS_DATA_DIR": str(served.data_dir), "BRAINS_DEFAULT_BRAIN": "main"}
    if served.upstream_url is not None:
        settings["BRAINS_UPSTREAM_URL"] = served.upstream_url
    async with served.over_http("modern") as client:
        path = (await called(client, "memory_remember", content="Sixty degrees."))["path"]
        read = await called(client, "memory_read", path=path)
        new = {"path": path, "content": "Fifty.", "checksum_sha256": read["checksum_sha256"]}
        await called(client, "memory_update", **new, title="Heat", tags=["hot"])
        assert (await called(client, "memory_read", path=path))["title"] == "Heat"
        await called(client, "memory_forget", path=path)
    for expected in ("Fifty.", "Sixty degrees."):
        undone = await asyncio.to_thread(run, tmp_path, "undo", path, **settings)
        assert undone.returncode == 0, undone.stderr
        shown = await asyncio.to_thread(run, tmp_path, "show", path, **settings)
        assert expected in shown.stdout


async def test_a_note_whose_name_ends_in_a_number_is_no_version_of_another(tmp_path: Path) -> None:
    settings = {"BRAINS_DATA_DIR": str(tmp_path), "BRAINS_DEFAULT_BRAIN": "main"}
    path, other = "memory/global/report.md", "memory/global/report-2.md"
    with serving(tmp_path, None, default_brain="main") as served:
        async with served.over_http("modern") as client:
            await called(client, "memory_remember", content="The second.", path=other)
            await called(client, "memory_forget", path=other)
            assert await refusal(client, "memory_forget", path=path) == "not_found"
        async with served.over_http("modern", "/kv/mcp") as client:
            for value in ("one", "two"):
                await called(client, "jettson_memory_put", key="report", value=value)
    for command in (("undo",), ("rm", "--purge", "--yes")):
        assert (await asyncio.to_thread(run, tmp_path, *command, path, **settings)).returncode == 3
    assert (await asyncio.to_thread(run, tmp_path, "undo", other, **settings)).returncode == 0
    # A value of kv has the number of its version there.
    assert (await asyncio.to_thread(run, tmp_path, "undo", KV_REPORT, **settings)).returncode == 0
    assert "one" in (await asyncio.to_thread(run, tmp_path, "show", KV_REPORT, **settings)).stdout


@pytest.mark.parametrize(
    "path",
    [
        "memory/global/kv/default/a.md",
        "memory/global/team/a.md",
        "memory/project/p/memo/a.md",
        "sessions/a.md",
        "memory/_deleted/a.md",
    ],
)
async def test_the_trees_of_other_surfaces_are_not_changed(tmp_path: Path, path: str) -> None:
    with serving(tmp_path, None) as served:
        async with served.over_http("modern") as client:
            assert await refusal(client, "memory_forget", path=path) == "forbidden"
            new = {"path": path, "content": "x", "checksum_sha256": "0" * 64}
            assert await refusal(client, "memory_update", **new) == "forbidden"


UNCLEAR = [
    "./memory/global",
    "memory/./global",
    "memory//global",
    "x/../memory/global",
    "../../etc",
    "memory%2fglobal",
    "memory/global/_versions",
    "memory/global/_deleted",
    "memory/global/\uff3fdeleted",
]


async def test_a_path_that_is_not_plain_never_gets_to_the_platform(tmp_path: Path) -> None:
    with shelf_on("reference", tmp_path, extra_tools="on") as shelf:
        async with shelf.client("memory") as agent:
            # What the gateway asks of a platform before its first call.
            await agent.good("memory_list")
            before = shelf.counted.requests
            for folder in UNCLEAR:
                assert await refusal(agent.client, "memory_read", path=f"{folder}/a.txt") == "not_found"
                assert await refusal(agent.client, "memory_list", folder=folder) == "not_found"
            assert shelf.counted.requests == before


async def test_a_value_that_has_expired_is_neither_listed_nor_read(served: Served) -> None:
    async with served.over_http("modern", "/kv/mcp") as client:
        await called(client, "jettson_memory_put", key="report", value="It stays.")
        await called(client, "jettson_memory_put", key="over", value="It is over.", expires_in_days=1e-9)
    async with served.over_http("modern") as client:
        assert "It stays." in (await called(client, "memory_read", path=KV_REPORT))["content"]
        assert await refusal(client, "memory_read", path=KV_REPORT.replace("report", "over")) == "not_found"
        for folder in ("memory", "memory/global/kv"):
            assert [one["path"] for one in (await called(client, "memory_list", folder=folder))["items"]] == [KV_REPORT]


async def test_a_note_that_is_too_long_to_be_read_whole_has_no_checksum(tmp_path: Path) -> None:
    with serving(tmp_path, None) as served:
        async with served.over_http("modern") as client:
            for length, is_cut in ((900_000, False), (900_001, True)):
                path = (await called(client, "memory_remember", content="a" * length, title="Long"))["path"]
                read = await called(client, "memory_read", path=path)
                assert ("checksum_sha256" not in read, read.get("truncated", False)) == (is_cut, is_cut)


async def test_a_folder_may_be_named_with_slashes_around_it(tmp_path: Path) -> None:
    with serving(tmp_path, None) as served:
        async with served.over_http("modern") as client:
            path = (await called(client, "memory_remember", content="Sixty degrees."))["path"]
            for folder in ("", "/", "/memory/", "memory/global/"):
                assert [one["path"] for one in (await called(client, "memory_list", folder=folder))["items"]] == [path]
            assert (await called(client, "memory_read", path=f"/{path}"))["path"] == path


async def test_a_brain_that_is_named_is_the_one_that_is_meant(served: Served) -> None:
    async with served.over_http("modern") as client:
        if served.upstream_url is None:
            await called(client, "memory_create_brain", name="Other", slug="other")
        path = (await called(client, "memory_remember", content="Elsewhere.", brain="other"))["path"]
        assert (await called(client, "memory_read", path=path, brain="other"))["content"].strip() == "Elsewhere."
        assert await refusal(client, "memory_read", path=path) == "not_found"
    async with served.over_http("modern", "/mcp/main") as client:
        assert await refusal(client, "memory_read", path=path, brain="other") == "forbidden"
