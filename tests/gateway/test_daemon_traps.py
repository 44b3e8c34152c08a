"""What is said to be stored can be found, and what is forgotten cannot, on every make of the daemon."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import pytest
from fastmcp.client.client import CallToolResult
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from gateway.operations import notes
from tests.daemons.fake import FakeDaemon, G, Script, T, Traits, Y
from tests.gateway.conftest import code_of, structured, text_of
from tests.served import Served, listening, serving
from tests.web import web_on

MAKES = [pytest.param(traits, id=traits.name) for traits in (T, Y, G)]
TITLE = "<html><head><title>Tea</title></head><body><h1>Tea</h1>"
INDEX = "memory/global/MEMORY.md"
pytestmark = [pytest.mark.not_quick, pytest.mark.sampled(2)]


@dataclass
class House:
    """A brain of a fake daemon, a gateway in front of it, and a web of pages for that."""

    daemon: FakeDaemon
    served: Served
    pages: dict[str, str]
    brain: str = ""

    @property
    def files(self) -> dict[str, str]:
        return {path: body.decode() for path, (body, _) in self.daemon.brains[self.brain].items()}

    def write(self, path: str, body: bytes) -> None:
        self.daemon.state.write(self.brain, path, body)

    async def __call__(self, surface: str, tool: str, **arguments: Any) -> CallToolResult:
        async with self.served.over_http("modern", f"/{surface}/mcp/{self.brain}") as client:
            result: CallToolResult = await client.call_tool(tool, arguments, raise_on_error=False)
            return result

    async def good(self, surface: str, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self(surface, tool, **arguments)
        assert not result.is_error, text_of(result)
        return structured(result)

    async def found(self, query: str, **more: Any) -> list[dict[str, Any]]:
        return list((await self.good("memory", "memory_search", query=query, top_k=50, **more))["hits"])

    async def paths(self, query: str, **more: Any) -> list[str]:
        return sorted(hit["path"] for hit in await self.found(query, **more))


@contextmanager
def built(traits: Traits, made: pytest.TempPathFactory, **settings: Any) -> Iterator[House]:
    daemon, pages = FakeDaemon(traits, llm=Script()), dict[str, str]()

    async def page(request: Request) -> HTMLResponse:
        return HTMLResponse(pages[request.url.path])

    with ExitStack() as stack:
        web = stack.enter_context(listening(Starlette(routes=[Route("/{name}", page)])))
        stack.enter_context(web_on(web))
        everything = {"upstream_url": stack.enter_context(listening(daemon.app())), **settings}
        everything["surfaces"] = "memory,kv,team,being,memo"
        yield House(
            daemon, stack.enter_context(serving(made.mktemp("data"), made.mktemp("files"), **everything)), pages
        )


@pytest.fixture(scope="module", params=MAKES)
def building(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with built(request.param, tmp_path_factory) as found:
        yield found


@pytest.fixture
def house(building: House) -> House:
    """With a brain of its own."""
    brain = f"b{uuid4()}"
    building.daemon.brains[brain] = {}
    return replace(building, brain=brain)


# Pages.


async def test_two_pages_of_one_title_are_two_documents(house: House) -> None:
    house.pages.update({"/a": f"{TITLE}<p>Green leaves.</p>", "/b": f"{TITLE}<p>Black leaves.</p>"})
    receipts = [await house.good("memory", "memory_ingest_url", url=f"https://pages.example/{n}") for n in "ab"]
    assert [(one["path"], one["outcome"]) for one in receipts] == [("fallback", "stored")] * 2
    paths = [one["document"]["path"] for one in receipts]
    assert await house.paths("leaves") == sorted(paths)
    assert len(set(paths)) == 2
    assert [one["document"].get("reused", False) for one in receipts] == [False, False]


async def test_a_page_is_kept_as_text_and_known_again(house: House) -> None:
    house.pages["/a"] = f"{TITLE}<p>Green leaves.</p>"
    url = "https://pages.example/a"
    first, again = [await house.good("memory", "memory_ingest_url", url=url) for _ in range(2)]
    assert (again["document"]["path"], again["document"]["reused"]) == (first["document"]["path"], True)
    (hit,) = await house.found("leaves")
    assert hit["content"] == "# Tea\n\nGreen leaves."
    house.pages["/a"] = f"{TITLE}<p>Other leaves.</p>"
    changed = await house.good("memory", "memory_ingest_url", url=url)
    assert changed["document"]["path"] != first["document"]["path"]
    assert len(await house.paths("leaves")) == 2


async def test_a_page_takes_no_more_than_two_requests(house: House) -> None:
    house.pages["/a"] = f"{TITLE}<p>Green leaves.</p>"
    await house.found("x")
    before = len(house.daemon.requests)
    await house.good("memory", "memory_ingest_url", url="https://pages.example/a")
    assert len(house.daemon.requests) - before == 2
    assert not any("/ingest/url" in request for request in house.daemon.requests[before:])


@pytest.mark.parametrize("traits", MAKES)
async def test_where_nothing_may_be_fetched_here_no_page_is_ingested(
    traits: Traits, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The daemon would store it under a name that another page may have."""
    with built(traits, tmp_path_factory, fetch="off") as found:
        found.daemon.brains["main"] = {}
        house = replace(found, brain="main")
        refused = await house("memory", "memory_ingest_url", url="https://pages.example/a")
    assert code_of(refused) == "not_implemented"
    assert house.files == {}


# Files.


@pytest.mark.parametrize("name", ["tea.txt", "a very long name that says all there is to say about tea " * 3 + ".txt"])
async def test_reused_is_what_happened_to_a_file(house: House, name: str) -> None:
    bodies = ["Green leaves.", "Black leaves."]
    receipts = []
    for body in bodies * 2:
        (house.served.root / name).write_text(body, encoding="utf-8")
        receipts.append(await house.good("memory", "memory_ingest_file", path=name))
    assert [one["reused"] for one in receipts] == [False, False, True, True]
    assert await house.paths("leaves") == sorted({one["path"] for one in receipts})
    assert len(house.files) == 2


async def test_of_one_file_that_is_ingested_twice_at_once_one_is_reused(house: House) -> None:
    (house.served.root / "tea.txt").write_text("Green leaves.", encoding="utf-8")
    receipts = await asyncio.gather(*(house.good("memory", "memory_ingest_file", path="tea.txt") for _ in range(2)))
    assert sorted(one["reused"] for one in receipts) == [False, True]


# Notes of agents.


@pytest.mark.parametrize("scope", [{}, {"scope": "all"}], ids=["no scope", "all"])
async def test_notes_of_agents_are_found_by_a_search_for_all(house: House, scope: dict[str, str]) -> None:
    await house.good("memory", "memory_remember", content="Otters hold hands.", path="memory/agent/bot/otters.md")
    await house.good("memory", "memory_remember", content="Otters swim.", path="memory/global/otters.md")
    await house.good("memory", "memory_remember", content="Cats sleep.", path="memory/agent/bot/cats.md")
    assert await house.paths("otters", **scope) == ["memory/agent/bot/otters.md", "memory/global/otters.md"]
    assert await house.paths("otters", sort="recency", **scope) == await house.paths("otters", **scope)
    recalled = await house.good("memory", "memory_recall", query="otters")
    assert len(recalled["hits"]) == 2
    assert all("<!--" not in hit["content"] for hit in await house.found("otters", **scope))


async def test_private_notes_stay_out_of_a_search_for_all(house: House) -> None:
    await house.good("team", "memory_remember", content="Otters are mine.", type="decision", scope="private")
    house.write("memory/agent/u-somebodyelse/a.txt", b"Otters are theirs.")
    house.write("memory/agent/u-somebodyelse/b.md", b"Otters are theirs too.")
    assert await house.paths("otters") == []


# Notes that say the same.


async def test_equal_values_under_different_keys_are_all_found(house: House) -> None:
    for n in range(3):
        await house.good("kv", "jettson_memory_put", key=f"key-{n}", value="Otters hold hands.\n")
    results = (await house.good("kv", "jettson_memory_search", query="otters"))["results"]
    assert {(one["key"], one["value"]) for one in results} == {(f"key-{n}", "Otters hold hands.\n") for n in range(3)}
    assert (await house.good("kv", "jettson_memory_get", key="key-1"))["value"] == "Otters hold hands.\n"
    assert {hit["content"] for hit in await house.found("otters")} <= {"Otters hold hands.", "Otters hold hands.\n"}
    assert len(await house.paths("otters")) == 3


async def test_equal_documents_are_all_found_and_each_is_one_write(house: House) -> None:
    said = {"content": "# Otters\n\nOtters hold hands."}
    tagged = [await house.good("memory", "memory_remember", tags=[tag], **said) for tag in ("a", "b")]
    placed = await house.good("memory", "memory_remember", path="memory/project/p/otters.md", **said)
    assert await house.paths("otters") == sorted(one["path"] for one in (*tagged, placed))
    assert {hit["content"] for hit in await house.found("otters")} == {said["content"]}
    assert (await house.good("memory", "memory_remember", tags=["a"], **said))["reused"] is True


async def test_what_a_person_changes_in_a_note_is_what_is_read(house: House) -> None:
    await house.good("kv", "jettson_memory_put", key="a", value="Otters.")
    ((path, body),) = house.files.items()
    house.write(path, body.replace("Otters.", "Sea otters.").encode())
    assert (await house.good("kv", "jettson_memory_get", key="a"))["value"] == "Sea otters."
    # As it was before notes were set apart.
    house.write(path, notes.write("Old otters.", {"key": "a", "namespace": "default", "version": "1"}))
    assert (await house.good("kv", "jettson_memory_get", key="a"))["value"] == "Old otters."
    await house.good("kv", "jettson_memory_put", key="a", value="New otters.")
    assert (await house.good("kv", "jettson_memory_get", key="a"))["value"] == "New otters."


# What is forgotten.


async def test_after_a_consolidation_what_is_forgotten_stands_nowhere(house: House) -> None:
    said = {"content": "The codename is Bluebird.", "type": "decision", "scope": "global"}
    entry = await house.good("team", "memory_remember", **said)
    await house.good("memory", "memory_remember", content="# Otters\n\nOtters swim.", path="memory/global/otters.md")
    await house.good("memory", "memory_consolidate")
    assert "otters.md" in house.files[INDEX]
    assert (await house.good("team", "memory_forget", id=entry["id"]))["forgotten"] is True
    assert not any("Bluebird" in body for body in house.files.values())
    assert "otters.md" in house.files[INDEX]


async def test_two_who_forget_at_once_are_both_forgotten(house: House) -> None:
    entries = [
        await house.good("team", "memory_remember", content=f"Codename {n}.", type="decision", scope="global")
        for n in range(2)
    ]
    await house.good("memory", "memory_consolidate")
    await asyncio.gather(*(house.good("team", "memory_forget", id=entry["id"]) for entry in entries))
    assert not any("Codename" in body for body in house.files.values())


async def test_what_is_forgotten_while_the_daemon_consolidates_stands_in_no_index(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes its index after the note is gone, from what it has read before."""
    said = {"content": "The codename is Bluebird.", "type": "decision", "scope": "global"}
    entry = await house.good("team", "memory_remember", **said)
    await house.good("memory", "memory_remember", content="Otters swim.", path="memory/global/otters.md")
    write = house.daemon.state.write

    def late(brain: str, path: str, content: bytes, reason: str | None = None) -> None:
        for gone in [path for path in house.files if "/team/" in path and reason == "consolidate"]:
            del house.daemon.brains[brain][gone]
        write(brain, path, content, reason)

    with monkeypatch.context() as patched:
        patched.setattr(house.daemon.state, "write", late)
        await house.good("memory", "memory_consolidate")
    assert "otters.md" in house.files[INDEX]
    assert not any("Bluebird" in body for body in house.files.values())
    assert (await house.good("team", "memory_forget", id=entry["id"]))["forgotten"] is False


async def test_an_answer_draws_on_no_index_that_tells_of_what_is_gone(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.write(INDEX, b"- team/gone.md: The codename is Bluebird\n")
    house.write("memory/global/otters.md", b"The codename of otters is not known.")
    monkeypatch.setattr(house.daemon.state, "llm", Script(tokens=["It is Bluebird."]))
    answer = await house.good("memory", "memory_ask", query="What is the codename?")
    assert "Bluebird" not in str(answer)
    assert "otters" in answer["answer"]
    house.write("memory/global/team/gone.md", b"The codename is Bluebird")
    answer = await house.good("memory", "memory_ask", query="What is the codename?")
    assert answer["answer"] == "It is Bluebird."


async def test_a_deleted_value_is_told_by_no_index(house: House) -> None:
    await house.good("kv", "jettson_memory_put", key="bluebird", value="The codename.")
    await house.good("memory", "memory_consolidate")
    assert ("bluebird" in house.files.get(INDEX, "")) is (house.daemon.traits is T)
    await house.good("kv", "jettson_memory_delete", key="bluebird")
    assert "bluebird" not in house.files.get(INDEX, "")
