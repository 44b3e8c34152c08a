"""The canonical tools, through a real client, by every way in and on every platform."""

import hashlib
import json
import re
from typing import Any
from uuid import uuid4

import pytest

from tests.gateway.conftest import Agent, code_of, eventually, structured, text_of
from tests.pdf import pdf

RUN = "# Saturday run\n\nI finished the 10k route in under 55 minutes."


async def test_a_memory_is_stored_and_found(agent: Agent) -> None:
    stored = await agent.good("memory_remember", content=RUN, tags=["running", "health"])

    assert re.fullmatch(r"memory/global/saturday-run-[0-9a-f]{12}\.md", stored["path"])
    assert stored["title"] == "Saturday run"
    assert stored["source"] == "ingest"
    assert stored["metadata"] == {"tags": "running,health"}
    assert stored["byte_size"] == len(RUN.encode())
    assert stored["checksum_sha256"] == hashlib.sha256(RUN.encode()).hexdigest()
    method = "POST" if agent.platform == "embedded" else "PUT"
    assert (stored["outcome"], stored["route"]) == ("stored", f"{method} /v1/brains/{{brain}}/documents")
    assert "searchable" not in stored

    found = await agent("memory_search", query="10k route")
    hits = structured(found)["hits"]
    assert [hit["path"] for hit in hits] == [stored["path"]]
    assert hits[0]["content"] == RUN
    assert structured(found).keys() >= {"query", "brain_id", "hits", "took_ms"}
    assert text_of(found) == f"#1 score={hits[0]['score']:.3f} {stored['path']}\n{RUN}"


async def test_remembering_the_same_again_is_the_same_memory(agent: Agent) -> None:
    first = await agent.good("memory_remember", content=RUN, title="Run", tags=["a"])
    again = await agent.good("memory_remember", content=RUN, title="Run", tags=["a"])
    other = await agent.good("memory_remember", content=RUN, title="Run", tags=["b"])

    assert again["id"] == first["id"]
    assert again["reused"] is True
    assert other["id"] != first["id"]
    assert len((await agent.good("memory_search", query="10k"))["hits"]) == 2


async def test_a_path_is_written_once(agent: Agent) -> None:
    first = await agent.good("memory_remember", content="one", path="/memory/project/x/plan.md")
    again = await agent.good("memory_remember", content="one", path="memory/project/x/plan.md")
    other = await agent("memory_remember", content="two", path="memory/project/x/plan.md")

    assert first["path"] == again["path"] == "memory/project/x/plan.md"
    assert again["reused"] is True
    assert code_of(other) == "conflict"


async def test_search_shows_five_hits_of_320_characters_and_returns_all(agent: Agent) -> None:
    for n in range(7):
        await agent.good("memory_remember", content=f"# Note {n}\n\nkingfisher " + "é" * 400)
    found = await agent("memory_search", query="kingfisher", top_k=6)

    assert len(structured(found)["hits"]) == 6
    blocks = text_of(found).split("\n\n#")
    assert [block.lstrip("#").split()[0] for block in blocks] == ["1", "2", "3", "4", "5"]
    content = structured(found)["hits"][0]["content"]
    assert text_of(found).split("\n", 1)[1].startswith(content[:320] + "\n\n#2 ")


async def test_scope_is_an_exact_namespace_and_sort_puts_the_newest_first(agent: Agent) -> None:
    await agent.good("memory_remember", content="otter one", path="memory/global/one.md")
    await agent.good("memory_remember", content="otter two otter otter", path="memory/project/p/two.md")
    await agent.good("memory_remember", content="otter three", path="memory/agent/a/three.md")

    async def paths(**options: Any) -> list[str]:
        return [hit["path"] for hit in (await agent.good("memory_search", query="otter", **options))["hits"]]

    assert await paths(scope="global") == ["memory/global/one.md"]
    assert await paths(scope="project") == ["memory/project/p/two.md"]
    assert await paths(scope="agent") == ["memory/agent/a/three.md"]
    assert sorted(await paths(scope="all")) == sorted(await paths()) != []
    assert await paths(scope="agent", sort="recency") == ["memory/agent/a/three.md"]
    newest_first = ["memory/agent/a/three.md", "memory/project/p/two.md", "memory/global/one.md"]
    assert await paths(sort="recency") == newest_first


async def test_recall_without_a_session_is_a_search(agent: Agent) -> None:
    await agent.good("memory_remember", content=RUN)
    recalled = await agent.good("memory_recall", query="10k")
    assert [hit["content"] for hit in recalled["hits"]] == [RUN]
    assert recalled.keys() >= {"query", "brain_id", "hits", "took_ms"}


async def test_recall_in_a_session_weighs_what_was_said(agent: Agent) -> None:
    await agent.good("memory_remember", content="The jaguar is a cat of the rainforest.", path="memory/global/cat.md")
    await agent.good("memory_remember", content="The Jaguar is a car with an engine.", path="memory/global/car.md")

    async def first(topic: str) -> str:
        session = f"s-{uuid4()}"
        talk = [{"role": "user", "content": topic}, {"role": "assistant", "content": "Go on."}]
        await agent.good("memory_extract", session_id=session, messages=talk)
        recalled = await agent.good("memory_recall", query="jaguar", session_id=session)
        return str(recalled["chunks"][0]["path"])

    assert await first("Tell me of engines and motors of the car.") == "memory/global/car.md"
    assert await first("Which animals live in the rainforest?") == "memory/global/cat.md"


async def test_messages_go_to_a_session_without_their_metadata(agent: Agent) -> None:
    messages = [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "I prefer tea over coffee."},
    ]
    result = await agent("memory_extract", session_id="talk", messages=messages, actor_id="ada")
    answer = structured(result)

    assert answer["mode"] == "session"
    assert [{"role": m["role"], "content": m["content"]} for m in answer["messages"]] == messages
    assert all(m["session_id"] == "talk" and m["id"] and m["created_at"] for m in answer["messages"])
    assert not any("metadata" in m for m in answer["messages"])
    assert (answer["appended"], answer["remaining"]) == (3, 0)

    async def is_extracted() -> bool:
        hits = (await agent.good("memory_search", query="tea"))["hits"]
        return bool(hits) and hits[0]["path"].startswith("memory/global/extracted-")

    await eventually(is_extracted)


async def test_a_transcript_is_kept_once(agent: Agent) -> None:
    messages = [{"role": "user", "content": "Remember that the cabin key is under the blue pot."}]
    first = await agent.good("memory_extract", messages=messages)
    again = await agent.good("memory_extract", messages=messages)

    assert first["mode"] == "transcript"
    assert re.fullmatch(r"raw/documents/transcript-[0-9a-f]{12}\.md", first["document"]["path"])
    assert first["document"]["source"] == "extract"
    assert again["document"]["id"] == first["document"]["id"]


async def test_reflecting_closes_a_session(agent: Agent) -> None:
    await agent.good("memory_extract", session_id="day", messages=[{"role": "user", "content": "We fixed the pump."}])
    result = await agent("memory_reflect", session_id="day")
    answer = structured(result)

    assert answer["reflection_status"] == "completed"
    assert answer["reflection_attempted"] is True
    reflection = answer["reflection"]
    assert reflection.keys() >= {"outcome", "should_record_episode", "path"}
    for shown in (reflection["outcome"], reflection["path"], answer["ended_at"], "Record episode: "):
        assert shown in text_of(result)


async def test_reflecting_on_an_unknown_session_has_no_result(agent: Agent) -> None:
    answer = await agent.good("memory_reflect", session_id="never-was")
    assert answer["reflection_status"] == "no_result"
    assert answer["reflection_attempted"] is False


async def test_a_file_is_ingested_once(agent: Agent) -> None:
    served = agent.served
    name = f"trains-{uuid4()}.md"
    (served.root / name).write_text("# Trains\n\nThe night train to Vienna leaves at 22:10.", encoding="utf-8")
    first = await agent.good("memory_ingest_file", path=name)
    again = await agent.good("memory_ingest_file", path=str(served.root / name))

    assert (first["status"], first["outcome"], first["reused"]) == ("completed", "stored", False)
    assert first["hash"] == hashlib.sha256((served.root / name).read_bytes()).hexdigest()
    assert again["reused"] is True
    assert again["path"] == first["path"]
    # Whatever the platform says of a file that it has: the contract has these always.
    assert {type(again[key]) for key in ("chunk_count", "embedded_count", "duration_ms")} == {int}
    found = await agent.good("memory_search", query="Vienna")
    assert [hit["path"] for hit in found["hits"]] == [first["path"]]


@pytest.mark.not_quick
@pytest.mark.parametrize(
    ("name", "kind", "body"),
    [
        ("data.json", None, b'{"colour": "vermilion"}'),
        ("data.txt", None, b"the colour vermilion"),
        ("data.bin", "text", b"the colour vermilion"),
        ("data", "markdown", b"# Colours\n\nvermilion"),
        ("data.pdf", None, pdf("the colour vermilion")),
        ("data.html", None, b"<p>the colour <b>vermilion</b></p><script>vermilion()</script>"),
    ],
)
async def test_kinds_of_files_are_told_by_extension_or_argument(
    web_agent: Agent, name: str, kind: str | None, body: bytes
) -> None:
    folder = web_agent.served.root / str(uuid4())
    folder.mkdir()
    (folder / name).write_bytes(body)
    options = {} if kind is None else {"as": kind}
    await web_agent.good("memory_ingest_file", path=f"{folder.name}/{name}", **options)
    (hit,) = (await web_agent.good("memory_search", query="vermilion"))["hits"]
    assert "vermilion" in hit["content"]
    assert "%PDF" not in hit["content"]
    assert "<script" not in hit["content"]


async def test_a_file_of_bytes_alone_is_refused(web_agent: Agent) -> None:
    (web_agent.served.root / "bytes.dat").write_bytes(bytes(range(256)) * 10)
    assert code_of(await web_agent("memory_ingest_file", path="bytes.dat")) == "validation_error"


async def test_a_page_nobody_may_fetch_is_refused(agent: Agent) -> None:
    for url in ("http://127.0.0.1:8787/", "http://169.254.169.254/latest/", "ftp://example.com/x", "http://[::1]/"):
        assert code_of(await agent("memory_ingest_url", url=url)) == "fetch_blocked"


async def test_consolidating_returns_what_the_platform_says(agent: Agent) -> None:
    answer = await agent.good("memory_consolidate")
    assert answer["result"]
    assert answer["route"] == "POST /v1/brains/{brain}/consolidate"


async def test_a_brain_is_created_once_by_name(agent: Agent) -> None:
    name = f"Küche & Garten {uuid4()}"
    first = await agent.good("memory_create_brain", name=name)
    again = await agent.good("memory_create_brain", name=name)
    public = await agent("memory_create_brain", name=name, visibility="public")
    taken = await agent("memory_create_brain", name="Other", slug=first["slug"])

    assert first["slug"].startswith("kuche-garten-")
    assert (first["name"], first["visibility"]) == (name, "private")
    assert again["id"] == first["id"]
    assert again["reused"] is True
    assert code_of(public) == "conflict"
    assert code_of(taken) == "conflict"
    listed = (await agent.good("memory_list_brains"))["items"]
    assert [(b["name"], b["visibility"]) for b in listed if b["id"] == first["id"]] == [(name, "private")]
    assert all(brain.keys() >= {"id", "slug", "name", "visibility"} for brain in listed)


async def test_a_brain_goes_by_slug_too(agent: Agent) -> None:
    slug = f"s{uuid4()}"
    created = await agent.good("memory_create_brain", name="Named", slug=slug)
    await agent.good("memory_remember", content=RUN, brain=slug)
    assert (await agent.good("memory_search", query="10k", brain=created["id"]))["hits"][0]["content"] == RUN


async def test_an_answer_streams_and_cites(agent: Agent) -> None:
    await agent.good("memory_remember", content="The night train to Vienna leaves at 22:10 from platform 9.")
    seen: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    result = await agent.client.call_tool(
        "memory_ask",
        {"query": "When does the night train to Vienna leave?", "brain": agent.brain},
        progress_handler=on_progress,
    )
    answer = structured(result)

    assert set(answer) == {"answer", "citations", "retrieved"}
    assert "22:10" in answer["answer"]
    assert [progress for progress, _, _ in seen] == list(range(len(seen)))
    assert all(total is None for _, total, _ in seen)
    assert "".join(str(message) for _, _, message in seen) == answer["answer"]
    assert len(seen) > 1
    (citation,) = answer["citations"]
    assert set(citation) == {"type", "chunk_id", "document_id", "answer_start", "answer_end", "quote"}
    assert citation["quote"] in answer["answer"][citation["answer_start"] : citation["answer_end"]]
    assert [set(chunk) for chunk in answer["retrieved"]] == [{"chunk_id", "document_id", "score", "preview"}]
    assert text_of(result).startswith(answer["answer"])


async def test_results_are_summaries_never_dumps(agent: Agent) -> None:
    await agent.good("memory_remember", content=RUN)
    for tool, arguments in {
        "memory_search": {"query": "10k"},
        "memory_ask": {"query": "10k?"},
        "memory_list_brains": {},
        "memory_consolidate": {},
    }.items():
        result = await agent(tool, **arguments)
        with pytest.raises(json.JSONDecodeError):
            json.loads(text_of(result))
