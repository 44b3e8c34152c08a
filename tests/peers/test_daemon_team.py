"""The five tools of `team` in front of the published daemon, by a real client."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastmcp import Client

from tests.daemons.real import running_daemon
from tests.gateway.conftest import structured, text_of
from tests.served import Era, Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    folder = tmp_path_factory.mktemp("daemon")
    with (
        running_daemon(folder / "daemon") as daemon,
        serving(folder / "data", None, upstream_url=daemon) as found,
    ):
        httpx.post(f"{daemon}/v1/brains", json={"brainId": "peers"}, trust_env=False).raise_for_status()
        yield found, folder / "daemon"


async def good(client: Client[Any], tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments, raise_on_error=False)
    assert not result.is_error, text_of(result)
    return structured(result)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_team_remembers_recalls_and_forgets(served: tuple[Served, Path], era: Era) -> None:
    gateway, _ = served
    statement = {"type": "decision", "scope": f"apollo-{era}", "key": "db.system-of-record"}
    async with gateway.over_http(era, "/team/mcp/peers") as client:
        first = await good(client, "memory_remember", content="Orders live in Postgres.", **statement)
        again = await good(client, "memory_remember", content="Orders live in Postgres.", **statement)
        assert (again["id"], again["reused"]) == (first["id"], True)
        await good(client, "memory_remember", content="Orders live in CockroachDB.", **statement)
        found = await good(client, "memory_recall", scope=statement["scope"], query="cockroach")
        assert [(entry["id"], entry["content"].strip()) for entry in found["entries"]] == [
            (first["id"], "Orders live in CockroachDB.")
        ]
        assert found["entries"][0]["created_at"] == first["created_at"]
        scopes = (await good(client, "memory_scopes"))["scopes"]
        assert {"scope": statement["scope"], "kind": "project"} in scopes
        groups = (await good(client, "memory_load_context", scope=statement["scope"]))["groups"]
        assert [entry["id"] for entry in groups[0]["entries"]] == [first["id"]]
        assert (await good(client, "memory_forget", id=first["id"]))["forgotten"] is True
        assert (await good(client, "memory_forget", id=first["id"]))["forgotten"] is False
        assert (await good(client, "memory_recall", scope=statement["scope"], include_global=False))["entries"] == []


async def test_what_holds_for_all_is_searched_and_what_is_private_is_not(served: tuple[Served, Path]) -> None:
    gateway, folder = served
    async with gateway.over_http("modern", "/team/mcp/peers") as client:
        term = {"content": "Ottoline keeps the light.", "type": "glossary", "scope": "global"}
        kept = await good(client, "memory_remember", **term)
        await good(client, "memory_remember", content="Ottoline is me.", type="status", scope="private")
        found = await good(client, "memory_recall", scope="private", query="OTTOLINE")
        assert sorted(entry["scope"] for entry in found["entries"]) == ["global", "private"]
    async with gateway.over_http("modern", "/mcp/peers") as client:
        hits = (await good(client, "memory_search", query="Ottoline"))["hits"]
        assert [hit["path"].removeprefix("/") for hit in hits] == [f"memory/global/team/{kept['id'][7:]}.md"]
    (private,) = folder.glob("**/memory/agent/u-*/*.txt")
    assert "Ottoline is me." in private.read_text(encoding="utf-8")


async def test_a_note_edited_on_disk_is_read_and_its_fields_kept(served: tuple[Served, Path]) -> None:
    gateway, folder = served
    async with gateway.over_http("modern", "/team/mcp/peers") as client:
        await good(client, "memory_remember", content="First.", type="constraint", scope="global", key="edited")
        (note,) = folder.glob("**/memory/global/team/edited.md")
        text = note.read_text(encoding="utf-8")
        note.write_text(text.replace("via:", "reviewed-by: ann\nvia:").replace("First.", "By hand."), encoding="utf-8")
        found = await good(client, "memory_recall", scope="global", type="constraint")
        assert [entry["content"].strip() for entry in found["entries"]] == ["By hand."]
        await good(client, "memory_remember", content="Second.", type="constraint", scope="global", key="edited")
        assert "reviewed-by: ann" in note.read_text(encoding="utf-8")


async def test_what_is_forgotten_after_a_consolidation_stands_in_no_file(served: tuple[Served, Path]) -> None:
    """The daemon copies the titles of notes to an index, and the first words of this one are its title."""
    gateway, folder = served
    everything = gateway.over_http("modern", "/mcp/peers")
    async with gateway.over_http("modern", "/team/mcp/peers") as team, everything as all_:
        said = {"content": "The codename is Bluebird.", "type": "decision", "scope": "global"}
        entry = await good(team, "memory_remember", **said)
        await good(all_, "memory_consolidate")
        assert "Bluebird" in (folder / "home/brains/peers/memory/global/MEMORY.md").read_text(encoding="utf-8")
        await good(team, "memory_forget", id=entry["id"])
        found = await good(all_, "memory_search", query="Bluebird")
    assert found["hits"] == []
    notes = (folder / "home/brains/peers/memory").rglob("*.md")
    assert not any("Bluebird" in note.read_text(encoding="utf-8") for note in notes)
