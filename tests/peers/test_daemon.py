"""All eleven tools in front of the published daemon, by a real client: without a language model and with one."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from starlette.responses import HTMLResponse

from tests.daemons.llm import Script, ScriptedLLM
from tests.daemons.real import running_daemon
from tests.gateway.conftest import eventually, structured, text_of
from tests.peers.test_typescript_clients import driven
from tests.served import Era, Served, listening, serving
from tests.test_pins import PIN
from tests.upstreams import Scripted
from tests.web import web_on

PAGE = "<html><body><h1>Birds</h1><p>{name} stand on one leg.</p></body></html>"
TOKENS = ["Otters ", "hold ", "hands ", "while ", "they ", "sleep."]
SAID = [
    {"role": "user", "content": "I prefer green tea."},
    {"role": "assistant", "content": "Noted."},
]


@dataclass
class Stage:
    """A gateway in front of a daemon, and the model behind it, if it has one."""

    served: Served
    daemon_url: str
    script: Script | None
    pages_url: str

    def connect(self, transport: str, era: Era) -> Client[Any]:
        if transport == "http":
            return self.served.over_http(era)
        return self.served.over_stdio(era, TEST_PAGES=self.pages_url)


@pytest.fixture(params=["no model", "scripted model"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    script = None if request.param == "no model" else talkative()
    with ExitStack() as stack:
        llm_url = None if script is None else stack.enter_context(listening(ScriptedLLM(script).app()))
        pages = Scripted({"GET /herons": lambda _: page("herons"), "GET /egrets": lambda _: page("egrets")})
        stack.enter_context(web_on(pages_url := stack.enter_context(listening(pages.app()))))
        daemon = stack.enter_context(running_daemon(tmp_path / "daemon", llm_url=llm_url))
        root = tmp_path / "files"
        root.mkdir()
        served = stack.enter_context(serving(tmp_path / "data", root, upstream_url=daemon))
        yield Stage(served, daemon, script, pages_url)


def talkative() -> Script:
    memory = {
        "action": "create",
        "filename": "tea.md",
        "name": "Tea",
        "description": "What to drink",
        "type": "user",
        "content": "The user prefers green tea.",
        "indexEntry": "tea",
        "scope": "global",
    }
    reflection = {
        "outcome": "success",
        "summary": "We spoke of tea.",
        "retryFeedback": "",
        "shouldRecordEpisode": True,
        "openQuestions": [],
        "heuristics": [],
    }
    return Script(tokens=TOKENS, delay=0.1, memories=[memory], reflection=reflection)


def page(name: str) -> HTMLResponse:
    return HTMLResponse(PAGE.format(name=name))


@pytest.mark.parametrize(("transport", "era"), [("http", "modern"), ("stdio", "legacy")])
async def test_eleven_tools_of_eleven_work(stage: Stage, transport: str, era: Era) -> None:
    async with stage.connect(transport, era) as client:
        worked = {name async for name in working_tools(client, stage)}
    assert worked == {tool["name"] for tool in PIN}
    assert len(worked) == 11


async def working_tools(client: Client[Any], stage: Stage) -> Any:
    """Each tool's name, once what it did was seen."""

    async def good(tool: str, **arguments: Any) -> dict[str, Any]:
        result = await client.call_tool(tool, arguments, raise_on_error=False)
        assert not result.is_error, text_of(result)
        return structured(result)

    brain = (await good("memory_create_brain", name="Peers"))["id"]
    assert (await good("memory_create_brain", name="Peers"))["reused"] is True
    yield "memory_create_brain"
    assert [item["id"] for item in (await good("memory_list_brains"))["items"]] == [brain]
    yield "memory_list_brains"
    stored = await good("memory_remember", content="# Otters\n\nOtters hold hands while they sleep.", tags=["animals"])
    assert (await good("memory_remember", content=stored_content(), tags=["animals"]))["reused"] is True
    yield "memory_remember"
    found = await good("memory_search", query="otters", sort="recency")
    assert [hit["path"] for hit in found["hits"]] == [stored["path"]]
    assert found["hits"][0]["content"] == stored_content()
    yield "memory_search"
    (stage.served.root / "trains.txt").write_text("The night train to Vienna leaves at 22:10.", encoding="utf-8")
    ingested = await good("memory_ingest_file", path="trains.txt")
    assert (await good("memory_ingest_file", path="trains.txt"))["reused"] is True
    assert (await good("memory_search", query="Vienna"))["hits"][0]["path"] == ingested["path"]
    yield "memory_ingest_file"
    birds = [await good("memory_ingest_url", url=f"http://pages.example/{name}") for name in ("herons", "egrets")]
    assert [(bird["path"], bird["outcome"]) for bird in birds] == [("fallback", "stored")] * 2
    found = (await good("memory_search", query="leg"))["hits"]
    assert {hit["path"]: hit["content"] for hit in found} == {
        bird["document"]["path"]: f"# Birds\n\n{name} stand on one leg."
        for bird, name in zip(birds, ("herons", "egrets"), strict=True)
    }
    again = await good("memory_ingest_url", url="http://pages.example/herons")
    assert again["document"]["reused"] is True
    yield "memory_ingest_url"
    said = await good("memory_extract", session_id="Talk", messages=SAID)
    assert [message["content"] for message in said["messages"]] == [message["content"] for message in SAID]

    async def is_extracted() -> bool:
        hits = (await good("memory_search", query="green tea", scope="global"))["hits"]
        return any(hit["path"].startswith("memory/global/extracted-") for hit in hits)

    await eventually(is_extracted)
    transcript = await good("memory_extract", messages=[{"role": "user", "content": "The cabin key is blue."}])
    assert (await good("memory_search", query="cabin key"))["hits"][0]["path"] == transcript["document"]["path"]
    yield "memory_extract"
    recalled = await good("memory_recall", query="drinks or otters", session_id="Talk")
    assert {"memory/global/extracted", "memory/global/otters"} <= {
        c["path"].partition("-")[0] for c in recalled["chunks"]
    }
    assert (await good("memory_recall", query="otters"))["hits"]
    yield "memory_recall"
    closed = await good("memory_reflect", session_id="Talk")
    assert closed["reflection_attempted"] is True
    assert closed["reflection_status"] == ("no_result" if stage.script is None else "completed")
    yield "memory_reflect"
    assert "errors" in (await good("memory_consolidate"))["result"]
    yield "memory_consolidate"
    await (asked_without_model if stage.script is None else asked_token_by_token)(client, stage)
    yield "memory_ask"


def stored_content() -> str:
    return "# Otters\n\nOtters hold hands while they sleep."


async def asked_without_model(client: Client[Any], _stage: Stage) -> None:
    """The error of a stream: text alone, in our words."""
    result = await client.call_tool("memory_ask", {"query": "What do otters do?"}, raise_on_error=False)
    assert result.is_error
    assert result.structured_content is None
    summary, _, body = text_of(result).partition("\n")
    assert summary.startswith("not_implemented: The platform has no language model")
    assert json.loads(body)["retryable"] is False


async def asked_token_by_token(client: Client[Any], stage: Stage) -> None:
    assert stage.script is not None
    spoken_before = stage.script.said
    seen: list[tuple[float, str | None, int]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        assert stage.script is not None
        assert total is None
        seen.append((progress, message, stage.script.said - spoken_before))

    question = {"query": "What do otters do while they sleep?"}
    result = await client.call_tool("memory_ask", question, progress_handler=on_progress)
    answer = structured(result)
    assert answer["answer"] == "".join(TOKENS)
    assert [(progress, message) for progress, message, _ in seen] == list(enumerate(TOKENS))
    # When a token arrives, the model has not spoken the last ones yet.
    assert [spoken < len(TOKENS) for _, _, spoken in seen[:3]] == [True] * 3
    quoted = [c for c in answer["citations"] if c["answer_end"] > 0]
    assert quoted
    for citation in quoted:
        assert answer["answer"][citation["answer_start"] : citation["answer_end"]].lower() == citation["quote"].lower()


def test_a_client_of_another_make_uses_the_daemon(stage: Stage, tmp_path: Path) -> None:
    """The TypeScript SDK, as its own test drives it; only the question needs a model."""
    (stage.served.root / "otters.txt").write_text("Sea otters eat urchins.", encoding="utf-8")
    seen = driven("modern", "http", stage.served.url + "/mcp", cwd=tmp_path, data_dir=tmp_path / "unused")
    failed = [
        step["result"]["content"][0]["text"].partition(":")[0]
        for step in seen["results"]
        if step["result"].get("isError")
    ]
    without_model = ["not_implemented"] if stage.script is None else []
    assert failed == [*without_model, "fetch_blocked", "validation_error"]


async def test_two_gateways_in_front_of_one_daemon(stage: Stage, tmp_path: Path) -> None:
    """They share nothing but the daemon: what one writes the other finds, and nothing is doubled or lost."""
    with serving(tmp_path / "other", None, upstream_url=stage.daemon_url) as other:
        async with stage.served.over_http("modern") as one, other.over_http("legacy") as two:
            brain = structured(await one.call_tool("memory_create_brain", {"name": "Shared"}))["id"]

            async def say(n: int) -> None:
                messages = [{"role": "user", "content": f"message {n} of the {'one' if n % 2 else 'other'}"}]
                arguments = {"brain": brain, "session_id": "both", "messages": messages}
                await (one if n % 2 else two).call_tool("memory_extract", arguments)

            async def remember(client: Client[Any]) -> str:
                note = {"brain": brain, "content": "# Shared\n\nThe lighthouse is red."}
                return str(structured(await client.call_tool("memory_remember", note))["path"])

            await asyncio.gather(*(say(n) for n in range(30)))
            paths = await asyncio.gather(*(remember(client) for client in (one, two) * 5))
            assert len(set(paths)) == 1
            found = structured(await two.call_tool("memory_search", {"brain": brain, "query": "lighthouse"}))
            assert [hit["path"] for hit in found["hits"]] == [paths[0]]
            session = {"brain": brain, "session_id": "both"}
            closed = structured(await two.call_tool("memory_reflect", session))
            again = structured(await one.call_tool("memory_reflect", session))
            assert again | {"route": None} == closed | {"route": None}
    (log,) = (tmp_path / "daemon").glob("**/sessions/*/both-*.jsonl")
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line]
    said = sorted(line["content"] for line in lines if line["kind"] == "message")
    assert said == sorted(f"message {n} of the {'one' if n % 2 else 'other'}" for n in range(30))
