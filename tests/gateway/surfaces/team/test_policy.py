"""Where a statement goes that names no scope, as the team itself decided: by a note in its brain."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.brain.notebook import Notebook
from gateway.operations.caller import Call
from gateway.operations.notes import Note, open_note
from gateway.surfaces.team.policy import PATH, Policy
from tests.gateway.conftest import code_of
from tests.gateway.surfaces.shelf import Shelf, shelf_on

KINDS = ["platform", "daemon"]
STATEMENT = {"content": "We deploy on Fridays.", "type": "decision"}


@pytest.fixture(params=KINDS)
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    with shelf_on(request.param, tmp_path, write_scope="project", project="apollo") as found:
        yield found


def policy(write_scope: str) -> str:
    return f"---\nwrite_scope: {write_scope}\n---\n\nWhat names no scope goes there.\n"


@pytest.mark.not_quick
async def test_a_note_of_the_team_decides_before_the_setting(shelf: Shelf) -> None:
    async with shelf.client("team") as agent:
        assert (await agent.good("memory_remember", **STATEMENT))["scope"] == "apollo"
        shelf.put(PATH, policy("global"))
        assert (await agent.good("memory_remember", **STATEMENT))["scope"] == "global"
        assert (await agent.good("memory_remember", **STATEMENT, scope="zeus"))["scope"] == "zeus"
        shelf.put(PATH, policy("ask"))
        refused = await agent.client.call_tool("memory_remember", STATEMENT, raise_on_error=False)
        assert code_of(refused) == "validation_error"
        for nothing in ("", "no front matter", policy("everywhere"), policy("[global]"), "---\nwrite_scope: [\n---\n"):
            shelf.put(PATH, nothing)
            assert (await agent.good("memory_remember", **STATEMENT))["scope"] == "apollo"
    assert shelf.read(PATH) == "---\nwrite_scope: [\n---\n"


@pytest.mark.not_quick
async def test_the_policy_is_no_entry_and_no_tool_writes_it(shelf: Shelf) -> None:
    shelf.put(PATH, policy("global"))
    async with shelf.client("team") as agent:
        await agent.good("memory_remember", **STATEMENT)
        entries = (await agent.good("memory_recall"))["entries"]
        assert [entry["content"] for entry in entries] == [STATEMENT["content"]]
        for key in ("_policy", "../team/_policy"):
            refused = await agent.client.call_tool("memory_remember", {**STATEMENT, "key": key}, raise_on_error=False)
            assert code_of(refused) == "validation_error"
        gone = await agent.client.call_tool("memory_forget", {"id": "global/_policy"}, raise_on_error=False)
        assert code_of(gone) == "not_found"
    async with shelf.client("memory") as agent:
        refused = await agent.client.call_tool(
            "memory_remember", {"content": policy("ask"), "path": PATH}, raise_on_error=False
        )
        assert code_of(refused) == "forbidden"
    assert shelf.read(PATH) == policy("global")


@pytest.mark.not_quick
async def test_a_policy_costs_one_read_and_none_where_a_scope_is_named(shelf: Shelf) -> None:
    async with shelf.client("team") as agent:
        await agent.good("memory_recall", scope="global")
        counts = []
        for scope in ({"scope": "apollo"}, {}):
            before = shelf.counted.requests
            await agent.good("memory_remember", **STATEMENT, **scope)
            counts.append(shelf.counted.requests - before)
    # The second one finds what the first one wrote.
    assert counts == [2, 2]


class Kept(Notebook):
    """A notebook with one note."""

    def __init__(self, body: bytes | None) -> None:
        self.body = body

    async def read(self, call: Call, path: str) -> Note | None:
        assert path == PATH
        return None if self.body is None else open_note(self.body)


@pytest.mark.parametrize("choice", ["ask", "project", "global"])
@pytest.mark.parametrize(
    "front", ["write_scope: {}", "via: brains-gateway\nwrite_scope: '{}'", "x: 1\nwrite_scope:  {} "]
)
async def test_a_policy_is_read_from_anybodys_front_matter(choice: str, front: str) -> None:
    body = f"---\n{front.format(choice)}\n---\nWords.".encode()
    assert await Policy(Kept(body), "otherwise").write_scope(Call()) == choice


async def test_a_policy_that_cannot_be_used_is_logged_once_for_each_brain_without_what_it_says() -> None:
    told = Policy(Kept(b"---\nwrite_scope: hunter2\n---\n"), "project")
    with capture_logs() as logs:
        for brain in ("one", "one", "two"):
            assert await told.write_scope(Call(brain=brain)) == "project"
    assert [(entry["event"], entry["brain"]) for entry in logs] == [
        ("team.policy_ignored", "one"),
        ("team.policy_ignored", "two"),
    ]
    assert "hunter2" not in str(logs)


async def test_without_a_note_nothing_is_logged() -> None:
    with capture_logs() as logs:
        assert await Policy(Kept(None), "global").write_scope(Call()) == "global"
    assert logs == []
