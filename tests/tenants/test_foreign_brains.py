"""What is not yours looks as if it were not there, to the byte; and who brings no token gets nowhere."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gateway.operations.names import private_tree
from tests.served import Era, raw_call
from tests.tenants.people import CANARY, PROVIDER, House, Person, house, name_of, result_of, words_of
from tests.tenants.test_isolation import ERAS, TOOLS, WITHOUT_A_BRAIN, arguments_of

ANN, BEN = Person("ann", "web", "red"), Person("ben", "web", "red")
MISSING = "never-was"
WAYS = [
    (tool, way)
    for tool in TOOLS
    for way in ("argument", "header", "path")
    if way == "path" or tool not in WITHOUT_A_BRAIN
]


@pytest.fixture(scope="module", params=[403, 404])
def two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Two tenants, on a platform that answers for a brain of somebody else as it likes."""
    with house(tmp_path_factory.mktemp("two"), [ANN, BEN], foreign_status=request.param) as found:
        yield found


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("tool", "way"), WAYS)
@pytest.mark.sampled(5)
async def test_a_brain_of_somebody_else_is_told_as_one_that_is_not_there(
    two: House, tool: str, way: str, era: Era
) -> None:
    foreign = [f"id-{name_of(BEN.tenant)}", f"own-{name_of(BEN.tenant)}", f"hidden-{name_of(BEN.tenant)}"]
    told: list[str] = []
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        for brain in (MISSING, *foreign):
            named = {"brain": brain} if way == "argument" else {}
            answer = await two.call(
                http,
                ANN,
                era,
                tool,
                {**arguments_of(tool, ANN, 1), **named},
                path=f"/mcp/{brain}" if way == "path" else "/mcp",
                **({"x-brain": brain} if way == "header" else {}),
            )
            assert answer.status_code == 200
            assert BEN.canary not in answer.text
            told.append(words_of(answer))
    assert set(told) == {told[0]}
    assert '"code": "forbidden"' in told[0] if tool == "memory_create_brain" else '"code": "no_brain"' in told[0]


@pytest.mark.parametrize("era", ERAS)
async def test_a_file_of_somebody_else_is_told_as_one_outside(two: House, tmp_path: Path, era: Era) -> None:
    """Each caller has a folder of their own below the root, and none of them is above it."""
    (roots,) = two.gateway.brain._roots._roots  # type: ignore[union-attr]  # there is one root
    folders = sorted(path for path in roots[1].iterdir())
    told: set[str] = set()
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        for folder in folders:
            arguments = {"path": str(folder / "note.md"), "brain": "notes"}
            answer = await two.call(http, ANN, era, "memory_ingest_file", arguments)
            told |= {words_of(answer)} if result_of(answer)["isError"] else set(CANARY.findall(answer.text))
        outside = {"path": str(tmp_path / "none" / "note.md"), "brain": "notes"}
        expected = words_of(await two.call(http, ANN, era, "memory_ingest_file", outside))
    assert told == {ANN.canary, expected}
    assert '"code": "file_not_allowed"' in expected


@pytest.mark.parametrize("era", ERAS)
async def test_nobody_sees_the_private_tree_of_another_whatever_a_platform_finds(
    two: House, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees = [private_tree(PROVIDER, person.subject) for person in (ANN, BEN)]
    paths = [f"memory/agent/{tree}/a.md" for tree in trees] + ["memory/global/a.md"]

    monkeypatch.setattr(two.platform, "found_at", paths)
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        arguments = {"query": "x", "brain": "notes", "session_id": "s"}
        answer = await two.call(http, ANN, era, "memory_recall", arguments)
        asked = await two.call(http, ANN, era, "memory_ask", {"query": "x", "brain": "notes"})
    assert [chunk["path"] for chunk in result_of(answer)["structuredContent"]["chunks"]] == [paths[0], paths[2]]
    # The platform's answer draws on what is another's: it is not passed on, and what is theirs is quoted instead.
    told = result_of(asked)["structuredContent"]
    assert [chunk["chunk_id"] for chunk in told["retrieved"]] == ["memory/global/a.md"]
    assert [citation["chunk_id"] for citation in told["citations"]] == ["memory/global/a.md"]
    assert told["answer"] == f"From the notes that you may see:\n\n> It is {ANN.canary}."


SPELLINGS = ["/mcp", "/mcp/", "/mcp/notes", "/mcp/notes/", "/mcp/a/b", "/mcp//notes", "/mcp/notes%20", "/%6dcp/notes"]
BREAKS = ["/mcp/%0A", "/mcp/notes%0A", "/mcp/%0Anotes", "/mcp/notes%0A/", "/mcp/a%0Ab"]


@pytest.mark.parametrize("path", [*SPELLINGS, *BREAKS, "/mcp%0A"])
async def test_without_a_token_no_spelling_of_the_path_leads_anywhere(two: House, path: str) -> None:
    asked = [raw_call(era, "memory_list_brains", {}) for era in ERAS]
    asked += [{**call, "json": {**call["json"], "method": "tools/list", "params": {}}} for call in asked[1:]]
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        url = httpx.URL(two.url).copy_with(raw_path=path.encode())
        answers = await asyncio.gather(*(http.post(url, **call) for call in asked))
    assert {answer.status_code for answer in answers} <= {401, 404}
    assert not any("memory_" in answer.text for answer in answers)
