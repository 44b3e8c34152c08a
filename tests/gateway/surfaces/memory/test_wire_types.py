"""The wire types of the contract, in front of platforms that say more than it, or less."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from tests.gateway.conftest import Agent, structured
from tests.gateway.test_ask import asked, event
from tests.served import listening, serving
from tests.upstreams import Answer, Scripted, replay

pytestmark = pytest.mark.not_quick

B = "/v1/brains/b"
COMPLETED = {
    "document_id": "doc_1",
    "path": "raw/documents/readme.md",
    "hash": "2fbe9c",
    "chunk_count": 18,
    "embedded_count": 18,
    "duration_ms": 412,
    "reused": False,
}
QUEUED = {**COMPLETED, "status": "queued", "job_id": "job_1", "chunk_count": 0, "embedded_count": 0}
MORE = {"language": "en", "Pages": [1, {"of": 2}]}


@asynccontextmanager
async def scripted(folder: Path, answers: dict[str, Answer]) -> AsyncIterator[tuple[Client[Any], Scripted]]:
    platform = Scripted(answers)
    with (
        listening(platform.app()) as url,
        serving(folder, folder, upstream_url=url, dialect="platform") as served,
    ):
        async with served.over_http("modern") as client:
            yield client, platform


async def ingested(folder: Path, said: dict[str, Any]) -> dict[str, Any]:
    """What `memory_ingest_file` makes of what a platform said."""
    (folder / "readme.md").write_text("# Read me", encoding="utf-8")
    answers: dict[str, Answer] = {f"POST {B}/documents/ingest/file": lambda _request: said}
    async with scripted(folder, answers) as (client, platform):
        result = structured(await client.call_tool("memory_ingest_file", {"path": "readme.md", "brain": "b"}))
    assert f"POST {B}/documents/ingest/file" in platform.requests
    return result


@pytest.mark.parametrize("said", [{**COMPLETED, "status": "completed"}, QUEUED], ids=["completed", "queued"])
async def test_what_a_platform_adds_to_an_ingest_is_passed_on(tmp_path: Path, said: dict[str, Any]) -> None:
    result = await ingested(tmp_path, {**said, **MORE})
    assert result.items() >= {**said, **MORE}.items()
    assert ("job_id" in result) is (said is QUEUED)


@pytest.mark.parametrize("status", [{}, {"status": "ingested"}], ids=str)
async def test_what_a_platform_leaves_out_of_an_ingest_is_filled_in(tmp_path: Path, status: dict[str, str]) -> None:
    result = await ingested(tmp_path, {"document_id": "doc_1", "path": "a.md", "hash": "2fbe9c", **status})
    numbers = {"chunk_count": 0, "embedded_count": 0, "duration_ms": 0}
    assert result.items() >= {"status": "completed", "reused": False, **numbers}.items()


async def test_no_metadata_of_a_message_is_shown_even_if_a_platform_sends_it(tmp_path: Path) -> None:
    record = {"id": "m", "session_id": "s", "role": "tool", "content": "x", "created_at": "2026-04-18T08:12:00+00:00"}
    record["name"] = "clock"
    answers: dict[str, Answer] = {
        f"POST {B}/sessions/s/messages": lambda _request: {**record, "metadata": {"skip_extract": False}},
        f"GET {B}/sessions/s/messages": lambda _request: {"items": []},
    }
    said = {"messages": [{"role": "tool", "content": "x"}], "session_id": "s", "brain": "b"}
    async with scripted(tmp_path, answers) as (client, _platform):
        (message,) = structured(await client.call_tool("memory_extract", said))["messages"]
    assert message == record


async def test_what_was_retrieved_is_thin_even_if_a_platform_sends_more(tmp_path: Path) -> None:
    thin = {"chunk_id": "c", "document_id": "d", "score": 0.9, "preview": "Otters"}
    rich = {**thin, "brain_id": "main", "metadata": {}, "highlights": ["Otters"], "component_scores": {"vector": 1.0}}
    frames = event("retrieve", chunks=[rich]) + event("done", answer="x")
    async with asked(tmp_path, replay(frames)) as (result, _seen):
        assert structured(result)["retrieved"] == [thin]


async def test_what_a_document_is_not_told_is_empty(web_agent: Agent) -> None:
    stored = await web_agent.good("memory_remember", content="Otters hold hands.")
    assert (stored["metadata"], stored["content_type"], stored["deleted_at"]) == ({}, "text/markdown", None)
