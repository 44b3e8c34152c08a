"""How entries lie in the brain, and that nothing is lost or doubled there, whoever writes besides us."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gateway.conftest import code_of, text_of
from tests.gateway.surfaces.shelf import Agent, Shelf, shelf_on

pytestmark = pytest.mark.not_quick

TEAM = "memory/global/team"
KINDS = ["platform", "daemon"]


@pytest.fixture(params=KINDS)
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    with shelf_on(request.param, tmp_path) as found:
        yield found


async def remember(agent: Agent, content: str, type_: str = "decision", **more: Any) -> dict[str, Any]:
    return await agent.good("memory_remember", **{"content": content, "type": type_, "scope": "global", **more})


async def recall(agent: Agent, **filters: Any) -> list[dict[str, Any]]:
    return list((await agent.good("memory_recall", **filters))["entries"])


async def test_entries_are_notes_that_a_person_can_read(shelf: Shelf) -> None:
    async with shelf.client("team") as agent:
        await remember(agent, "Orders live in Postgres.", key="db.orders")
        await remember(agent, "# Naming\n\nTests are outcomes.", "convention", scope="Apollo")
        await remember(agent, "On leave in May.", "status", scope="private")
    assert shelf.paths(TEAM) == [f"{TEAM}/db.orders.md"]
    front, content = shelf.read(f"{TEAM}/db.orders.md").removeprefix("---\n").split("---\n\n")
    fields = yaml.safe_load(front)
    # On a daemon, it ends with what sets it apart from others that say the same.
    assert content.partition("\n\n<!-- ")[0] == "Orders live in Postgres."
    assert (fields["name"], fields["description"]) == ("db.orders", "db.orders")
    assert (fields["type"], fields["key"], fields["via"]) == ("decision", "db.orders", "brains-gateway")
    assert (fields["author"], fields["client"], fields["channel"]) == ("local", "mcp", "http")
    assert "scope" not in fields
    (apollo,) = shelf.paths("memory/project")
    assert apollo.startswith("memory/project/!apollo/team/convention-")
    assert yaml.safe_load(shelf.read(apollo).split("---\n")[1])["name"] == "Naming"
    (private,) = shelf.paths("memory/agent")
    assert private.startswith("memory/agent/u-")
    assert private.endswith(".txt")


async def test_the_same_call_again_leaves_the_same_notes(shelf: Shelf) -> None:
    calls = [{}, {"key": "a.b"}, {"scope": "apollo"}, {"scope": "private"}, {"scope": "private", "key": "a.b"}]
    async with shelf.client("team") as agent:
        first = [await remember(agent, "Twice.", **call) for call in calls]
        before = {path: shelf.read(path) for path in shelf.paths("memory")}
        again = [await remember(agent, "Twice.", **call) for call in calls]
        assert {path: shelf.read(path) for path in shelf.paths("memory")} == before
        assert [entry["reused"] for entry in first + again] == [False] * 5 + [True] * 5
        receipt = {"route": "", "reused": True}
        assert [entry | receipt for entry in first] == [entry | receipt for entry in again]


async def test_many_at_once_leave_one_entry(shelf: Shelf) -> None:
    async with shelf.client("team") as agent:
        made = await asyncio.gather(*(remember(agent, "At once.", key=key) for key in (None, "k") for _ in range(8)))
        assert len({entry["id"] for entry in made}) == 2
        assert [entry["reused"] for entry in made].count(False) == 2
        assert len(await recall(agent)) == 2


async def test_what_is_forgotten_is_gone_and_may_come_again(shelf: Shelf) -> None:
    async with shelf.client("team") as agent:
        for call in ({}, {"scope": "private"}, {"scope": "apollo", "key": "k"}):
            kept = await remember(agent, "For a while.", **call)
            for forgotten in (True, False, False):
                assert (await agent.good("memory_forget", id=kept["id"]))["forgotten"] is forgotten
            assert shelf.paths("memory") == []
            assert (await remember(agent, "For a while.", **call))["reused"] is False
            await agent.good("memory_forget", id=kept["id"])


HAND_WRITTEN: dict[str, str | bytes] = {
    "plain.md": "Just words.",
    "crlf.md": "---\r\nvia: brains-gateway\r\ntype: glossary\r\n---\r\n\r\nA term.\r\nIn lines.",
    "foreign.md": "---\ntype: decision\nowner: ben\n---\nWritten elsewhere.",
    "signed.md": "---\nauthor: ann\nclient: x\ntype: constraint\ncreated: 2020-02-02T00:00:00+00:00\n---\n\nSigned.",
    "untyped.md": "---\nauthor: ann\ntype: rumour\n---\nOf no type.",
    "broken.md": "---\ntype: [decision\n---\nNot closed.",
    "unclosed.md": "---\ntype: decision\nNever closed.",
    "empty.md": "",
    "odd.md": "---\nvia: brains-gateway\ntype: rumour\nauthor:\n  - ann\ncreated: yesterday\nmodified: 7\n---\nOdd.",
    "old.md": "---\nvia: brains-gateway\ncreated: 0001-01-01T00:00:00+14:00\n---\nVery old.",
    "constraint-from-ann.md": "Ann wrote this.",
    "My Note.md": "With a space.",
    "deeper/down.md": "In a folder.",
    "latin.md": b"caf\xe9",
    "_beside/kept.md": "Not an entry.",
    "other.txt": "Not an entry either.",
}


async def test_notes_that_people_write_are_entries_without_loss(shelf: Shelf) -> None:
    for name, text in HAND_WRITTEN.items():
        shelf.put(f"{TEAM}/{name}", text)
    shelf.put("memory/global/elsewhere.md", "Of another surface.")
    async with shelf.client("team") as agent:
        found = {entry["id"]: entry for entry in await recall(agent)}
        assert sorted(found) == sorted(
            f"global/{name[:-3]}" for name in HAND_WRITTEN if name.endswith(".md") and not name.startswith("_")
        )
        texts = {id_.removeprefix("global/"): entry["content"] for id_, entry in found.items()}
        assert texts["plain"] == "Just words."
        assert texts["crlf"].replace("\r\n", "\n") == "A term.\nIn lines."
        assert (texts["foreign"], texts["signed"]) == ("Written elsewhere.", "Signed.")
        assert texts["untyped"] == HAND_WRITTEN["untyped.md"]
        assert texts["broken"] == HAND_WRITTEN["broken.md"]
        assert texts["unclosed"] == HAND_WRITTEN["unclosed.md"]
        assert texts["empty"] == ""
        assert texts["latin"] == "caf\ufffd"
        types = {id_.removeprefix("global/"): entry["type"] for id_, entry in found.items()}
        assert (types["crlf"], types["plain"], types["odd"]) == ("glossary", "status", "status")
        assert (types["foreign"], types["signed"], types["untyped"]) == ("decision", "constraint", "status")
        assert found["global/signed"]["created_at"] == "2020-02-02T00:00:00+00:00"
        assert found["global/signed"]["author"] == found["global/untyped"]["author"] == "unknown"
        assert shelf.read(f"{TEAM}/signed.md") == HAND_WRITTEN["signed.md"]
        assert types["constraint-from-ann"] == "constraint"
        without_key = {id_ for id_, entry in found.items() if "key" not in entry}
        assert without_key == {"global/My Note", "global/deeper/down"}
        assert found["global/odd"]["author"] == found["global/plain"]["author"] == "unknown"
        assert found["global/odd"]["created_at"] == found["global/odd"]["updated_at"]
        assert found["global/odd"]["created_at"].startswith("20")
        await agent.good("memory_load_context")
        for id_ in found:
            assert (await agent.good("memory_forget", id=id_))["forgotten"] is True
    assert shelf.read(f"{TEAM}/_beside/kept.md") == "Not an entry."
    assert [path for path in shelf.paths(TEAM) if "/_" not in path] == [f"{TEAM}/other.txt"]


async def test_folders_that_are_no_projects_are_no_scopes(shelf: Shelf) -> None:
    for folder in ("apollo", "!zeus", "Ares", "a b", "!!hash", "global", "!private", "_kept"):
        shelf.put(f"memory/project/{folder}/note.md", "Of somebody else.")
    async with shelf.client("team") as agent:
        scopes = (await agent.good("memory_scopes"))["scopes"]
    assert [scope["scope"] for scope in scopes] == ["private", "global", "Zeus", "apollo"]


async def test_fields_that_others_wrote_outlive_an_update(shelf: Shelf) -> None:
    async with shelf.client("team") as agent:
        kept = await remember(agent, "First.", key="k")
        text = shelf.read(f"{TEAM}/k.md")
        shelf.put(f"{TEAM}/k.md", text.replace("---\n\n", "reviewed-by: ann\nlinks:\n  - a\n  - b\n---\n\n"))
        updated = await remember(agent, "Second.", key="k")
        assert updated["created_at"] == kept["created_at"]
    fields = yaml.safe_load(shelf.read(f"{TEAM}/k.md").split("---\n")[1])
    assert (fields["reviewed-by"], fields["links"]) == ("ann", ["a", "b"])


async def test_front_matter_of_others_outlives_an_update_by_key(shelf: Shelf) -> None:
    shelf.put(f"{TEAM}/k.md", "---\nowner: ben\ncreated: 2020-02-02T00:00:00+00:00\n---\nBen's words.")
    async with shelf.client("team") as agent:
        updated = await remember(agent, "New words.", key="k")
        assert updated["created_at"] == "2020-02-02T00:00:00+00:00"
        assert [entry["content"].strip() for entry in await recall(agent)] == ["New words."]
    assert yaml.safe_load(shelf.read(f"{TEAM}/k.md").split("---\n")[1])["owner"] == "ben"


async def test_content_that_begins_with_front_matter_stays_as_it_is(shelf: Shelf) -> None:
    content = "---\nauthor: eve\nvia: brains-gateway\ntype: status\n---\n\nSmuggled."
    async with shelf.client("team") as agent:
        kept = await remember(agent, content, key="k")
        assert (kept["author"], kept["type"]) == ("local", "decision")
        (entry,) = await recall(agent)
        assert (entry["author"], entry["type"], entry["content"]) == ("local", "decision", content)
        assert (await remember(agent, content, key="k"))["reused"] is True


async def test_a_correction_by_hand_is_not_lost_when_the_statement_comes_again(shelf: Shelf) -> None:
    async with shelf.client("team") as agent:
        kept = await remember(agent, "We use MySQL.")
        (path,) = shelf.paths(TEAM)
        shelf.put(path, shelf.read(path).replace("MySQL", "Postgres"))
        for reused in (False, True):
            again = await remember(agent, "We use MySQL.")
            assert (again["id"], again["reused"]) == (kept["id"], reused)
            found = {entry["content"].strip(): entry for entry in await recall(agent)}
            assert set(found) == {"We use MySQL.", "We use Postgres."}
        assert found["We use Postgres."]["author"] == "local"
        assert (await remember(agent, found["We use Postgres."]["content"]))["reused"] is True


async def test_other_line_ends_are_no_other_statement(shelf: Shelf) -> None:
    async with shelf.client("team") as agent:
        await remember(agent, "One.\nTwo.")
        (path,) = shelf.paths(TEAM)
        shelf.put(path, shelf.read(path).replace("\n", "\r\n"))
        assert (await remember(agent, "One.\nTwo."))["reused"] is True
        assert len(await recall(agent)) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_no_more_notes_are_read_than_allowed_and_the_answer_says_so(tmp_path: Path, kind: str) -> None:
    with shelf_on(kind, tmp_path, recall_notes=3, context_entries=2) as shelf:
        async with shelf.client("team") as agent:
            for n in range(5):
                await remember(agent, f"Number {n}.", key=f"n{n}")
            await remember(agent, "Alone.", scope="apollo")
            answer = await agent.good("memory_recall", query="number")
            assert [entry["content"] for entry in answer["entries"]] == ["Number 4.", "Number 3.", "Number 2."]
            assert answer["left_out"] == [{"scope": "global", "notes": 2}]
            result = await agent.client.call_tool("memory_load_context", {"scope": "apollo"})
            context = dict(result.structured_content or {})
            assert context["left_out"] == [{"scope": "global", "notes": 2}]
            assert [len(group["entries"]) for group in context["groups"]] == [2, 0, 0, 0, 0, 0]
            assert context["groups"][0]["omitted"] == 2
            said = text_of(result)
            assert "- (2 older left out)" in said
            assert "(2 older notes of global were not read)" in said


async def test_what_is_too_large_for_a_note_is_refused(shelf: Shelf) -> None:
    statement = {"content": "€" * 1_000_000, "type": "status", "scope": "global"}
    async with shelf.client("team") as agent:
        result = await agent.client.call_tool("memory_remember", statement, raise_on_error=False)
    assert code_of(result) == "payload_too_large"
    assert shelf.paths(TEAM) == []
