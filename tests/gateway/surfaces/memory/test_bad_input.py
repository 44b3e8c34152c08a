"""Bad input of every kind to every tool: a clear error with a code, nothing made, nothing leaked."""

import json
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.operations.errors import CATALOGUE
from tests.gateway.conftest import Agent, code_of, structured, text_of
from tests.served import Era, Served, messages_of, raw_call
from tests.tiers import nth

pytestmark = pytest.mark.not_quick

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "bad-ids.json").read_text(encoding="utf-8"))
# Ids that look odd and are none the less plain names.
FINE_AS_ID = {"con", "nul.md"}
# An empty one is the same as none.
BAD_IDS = [value for value in VECTORS if value and value not in FINE_AS_ID]

GOOD: dict[str, dict[str, Any]] = {
    "memory_search": {"query": "x"},
    "memory_recall": {"query": "x"},
    "memory_remember": {"content": "x"},
    "memory_ingest_file": {"path": "x.md"},
    "memory_ingest_url": {"url": "https://example.com"},
    "memory_extract": {"messages": [{"role": "user", "content": "x"}]},
    "memory_reflect": {"session_id": "s"},
    "memory_consolidate": {},
    "memory_create_brain": {"name": "x"},
    "memory_list_brains": {},
    "memory_ask": {"query": "x"},
}
TAKES_BRAIN = [tool for tool in GOOD if tool not in {"memory_create_brain", "memory_list_brains"}]

LIMITS: list[tuple[str, dict[str, Any], str]] = [
    ("memory_search", {"query": "x" * 4097}, "query must have at most 4,096 characters"),
    ("memory_search", {"query": " \n"}, "query must not be blank."),
    ("memory_search", {"top_k": 0}, "top_k must be at least 1"),
    ("memory_search", {"top_k": 101}, "top_k must be at most 100"),
    ("memory_search", {"scope": "everything"}, "scope must be one of 'all', 'global', 'project' or 'agent'"),
    ("memory_search", {"sort": "age"}, "sort must be one of"),
    ("memory_recall", {"query": "x" * 4097}, "query must have at most 4,096 characters"),
    ("memory_recall", {"top_k": 51}, "top_k must be at most 50"),
    ("memory_recall", {"scope": "all"}, "scope must be one of 'global', 'project' or 'agent'"),
    ("memory_remember", {"content": "x" * 5_000_001}, "content must have at most 5,000,000 characters"),
    ("memory_remember", {"content": " \t\n"}, "content must not be blank."),
    ("memory_remember", {"title": "x" * 513}, "title must have at most 512 characters"),
    ("memory_remember", {"tags": ["x"] * 65}, "tags must have at most 64 entries"),
    ("memory_remember", {"tags": ["x" * 65]}, "tags[0] must have at most 64 characters"),
    ("memory_remember", {"tags": [""]}, "tags[0] must have at least 1 character(s)"),
    ("memory_remember", {"tags": "a,b"}, "tags must be a list"),
    ("memory_remember", {"path": "x" * 1022 + ".md"}, "path must have at most 1,024 characters"),
    ("memory_ingest_file", {"as": "word"}, "as must be one of 'markdown', 'text', 'pdf' or 'json'"),
    ("memory_ingest_file", {"path": "x" * 4097}, "path must have at most 4,096 characters"),
    ("memory_ingest_url", {"url": "https://example.com/".ljust(8193, "x")}, "url must have at most 8,192 characters"),
    ("memory_ingest_url", {"url": "not a url"}, "url must be a valid URL"),
    ("memory_ingest_url", {"url": "/relative"}, "url must be a valid URL"),
    ("memory_extract", {"messages": []}, "messages must have at least 1 entry"),
    (
        "memory_extract",
        {"messages": GOOD["memory_extract"]["messages"] * 501},
        "messages must have at most 500 entries",
    ),
    ("memory_extract", {"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role must be one of"),
    ("memory_extract", {"messages": [{"role": "user"}]}, "messages[0].content is required"),
    ("memory_extract", {"messages": ["hello"]}, "messages[0] must be an object"),
    ("memory_extract", {"messages": [{"role": "user", "content": "x", "name": "y"}]}, "name is not an argument"),
    ("memory_create_brain", {"name": "x" * 129}, "name must have at most 128 characters"),
    ("memory_create_brain", {"name": "   "}, "name must not be blank."),
    ("memory_create_brain", {"slug": "x" * 65}, "slug must have at most 64 characters"),
    ("memory_create_brain", {"slug": "Not-Lower"}, "slug must match ^[a-z0-9][a-z0-9-]*$"),
    ("memory_create_brain", {"visibility": "secret"}, "visibility must be one of 'private', 'tenant' or 'public'"),
    ("memory_ask", {"query": "x" * 8193}, "query must have at most 8,192 characters"),
    ("memory_ask", {"query": " "}, "query must not be blank."),
    ("memory_ask", {"top_k": 51}, "top_k must be at most 50"),
    ("memory_ask", {"top_k": 1.5}, "top_k must be a whole number"),
    ("memory_ask", {"top_k": True}, "top_k must be a whole number"),
    ("memory_ask", {"top_k": "3"}, "top_k must be a whole number"),
]


async def state_of(agent: Agent) -> tuple[Any, ...]:
    """All there is to see of what is stored."""
    brains = (await agent.good("memory_list_brains"))["items"]
    found = await agent.good("memory_search", query="x", top_k=100)
    return sorted(brain["id"] for brain in brains if brain["id"] == agent.brain), found["hits"]


def plain(result: Any) -> str:
    """The text of an error, after checking that it gives nothing away."""
    text = text_of(result)
    for leak in ("pydantic", "Traceback", "input_value", "/tmp/", "/root", 'File "', "127.0.0.1", "site-packages"):
        assert leak not in text
    assert structured(result)["code"] in CATALOGUE
    return text


@pytest.mark.parametrize(("tool", "wrong", "sentence"), LIMITS, ids=[f"{row[0]}-{row[2]}" for row in LIMITS])
@pytest.mark.sampled(7)
async def test_limits_are_named(web_agent: Agent, tool: str, wrong: dict[str, Any], sentence: str) -> None:
    before = await state_of(web_agent)
    result = await web_agent(tool, **{**GOOD[tool], **wrong})
    assert code_of(result) == "validation_error"
    assert sentence in plain(result)
    assert await state_of(web_agent) == before


@pytest.mark.parametrize("tool", GOOD)
async def test_unknown_arguments_are_refused_by_name(web_agent: Agent, tool: str) -> None:
    result = await web_agent(tool, **GOOD[tool], shoe_size=44)
    assert code_of(result) == "validation_error"
    assert "shoe_size is not an argument of this tool" in plain(result)


@pytest.mark.parametrize("tool", [tool for tool, arguments in GOOD.items() if arguments])
@pytest.mark.parametrize("wrong", [None, 7, True, {"a": 1}, "", "nul\0nul"], ids=repr)
@pytest.mark.sampled(11)
async def test_required_arguments_are_checked(web_agent: Agent, tool: str, wrong: Any) -> None:
    name = next(iter(GOOD[tool]))
    result = await web_agent(tool, **{name: wrong})
    assert code_of(result) == "validation_error"
    assert plain(result).startswith(f"validation_error: {name} must ")


@pytest.mark.parametrize("tool", [tool for tool, arguments in GOOD.items() if arguments])
async def test_missing_arguments_are_named(web_agent: Agent, tool: str) -> None:
    result = await web_agent(tool)
    assert code_of(result) == "validation_error"
    assert f"{next(iter(GOOD[tool]))} is required" in plain(result)


@pytest.mark.not_quick
async def test_ids_that_could_leave_their_place_are_refused(web_agent: Agent) -> None:
    before = await state_of(web_agent)
    for bad in nth(BAD_IDS, 9):
        for tool in TAKES_BRAIN:
            result = await web_agent(tool, **{**GOOD[tool], "brain": bad})
            assert code_of(result) == "validation_error", (tool, bad)
            plain(result)
        for tool in ("memory_recall", "memory_extract", "memory_reflect"):
            result = await web_agent(tool, **{**GOOD[tool], "session_id": bad})
            assert code_of(result) == "validation_error", (tool, bad)
            plain(result)
    assert await state_of(web_agent) == before


async def test_paths_that_could_leave_their_place_are_refused(web_agent: Agent) -> None:
    before = await state_of(web_agent)
    for bad in filter(None, VECTORS):
        result = await web_agent("memory_remember", content="x", path=bad)
        assert code_of(result) == "validation_error", bad
        plain(result)
    assert await state_of(web_agent) == before


@pytest.mark.parametrize(
    "path",
    [
        "sessions/x.md",
        "memory/global/_index.md",
        "_top/x.md",
        "memory/agent/u-abc/x.md",
        "memory/global/kv/n/x.md",
        "Memory/Global/Team/x.md",
        "memory/project/p/memo/x.md",
        "memory/global/being/x.md",
        "memory/global/MEMORY.md",
        "memory/project/p/memory.md",
    ],
)
async def test_reserved_paths_are_refused(web_agent: Agent, path: str) -> None:
    assert code_of(await web_agent("memory_remember", content="x", path=path)) == "forbidden"


@pytest.mark.parametrize("tool", TAKES_BRAIN)
async def test_a_brain_that_does_not_exist_is_never_made(web_agent: Agent, tool: str) -> None:
    served = web_agent.served
    (served.root / "x.md").write_text("x", encoding="utf-8")
    arguments = {**GOOD[tool], "brain": "no-such-brain"}
    if tool == "memory_recall":
        arguments["session_id"] = "s"
    if tool == "memory_extract":
        arguments["session_id"] = "s"
    assert code_of(await web_agent(tool, **arguments)) == "no_brain"
    brains = (await web_agent.good("memory_list_brains"))["items"]
    assert "no-such-brain" not in {brain["slug"] for brain in brains}


async def test_a_transcript_for_a_brain_that_does_not_exist_is_refused(web_agent: Agent) -> None:
    assert code_of(await web_agent("memory_extract", **GOOD["memory_extract"], brain="no-such-brain")) == "no_brain"


async def test_only_files_of_the_root_are_read(web_agent: Agent, tmp_path: Path) -> None:
    served = web_agent.served
    outside = tmp_path / "secret.md"
    outside.write_text("secret", encoding="utf-8")
    (served.root / "folder").mkdir(exist_ok=True)
    (served.root / "empty.md").touch()
    for name, target in {"link.md": outside, "link-dir": tmp_path}.items():
        if not (served.root / name).is_symlink():
            (served.root / name).symlink_to(target)
    if not (served.root / "pipe.md").exists():
        os.mkfifo(served.root / "pipe.md")
    with (served.root / "large.md").open("wb") as large:
        large.truncate(26_214_401)

    expected = {
        "missing.md": "not_found",
        "folder": "validation_error",
        "empty.md": "validation_error",
        "pipe.md": "file_not_allowed",
        "large.md": "file_too_large",
        "link.md": "file_not_allowed",
        "link-dir/secret.md": "file_not_allowed",
        "../secret.md": "file_not_allowed",
        "folder/../../x.md": "file_not_allowed",
        str(outside): "file_not_allowed",
        str(tmp_path / "missing.md"): "file_not_allowed",
        "/proc/self/environ": "file_not_allowed",
        "/etc/passwd": "file_not_allowed",
        "/dev/zero": "file_not_allowed",
    }
    for path, code in expected.items():
        result = await web_agent("memory_ingest_file", path=path)
        assert code_of(result) == code, path
        plain(result)


async def test_a_session_message_is_capped(web_agent: Agent) -> None:
    messages = [{"role": "user", "content": "x" * 1_000_001}]
    result = await web_agent("memory_extract", messages=messages, session_id="s")
    assert code_of(result) == "validation_error"
    assert "1,000,000" in plain(result)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_lone_surrogates_are_refused_and_the_server_stays_up(served: Served, era: Era) -> None:
    async with httpx.AsyncClient() as http:
        request = raw_call(era, "memory_remember", {"content": "PLACEHOLDER"})
        body = json.dumps(request["json"]).replace("PLACEHOLDER", "\\ud800")
        headers = {**request["headers"], "content-type": "application/json"}
        response = await http.post(served.url + "/mcp", content=body, headers=headers)
        assert response.status_code in {200, 400}
        (answer,) = messages_of(response)
        assert "error" in answer or answer["result"]["structuredContent"]["code"] == "validation_error"
        healthy = await http.post(served.url + "/mcp", **raw_call(era, "memory_list_brains", {}))
        assert messages_of(healthy)[-1]["result"]["isError"] is False


@pytest.mark.parametrize("empty", [None, ""], ids=repr)
async def test_an_empty_optional_argument_is_the_same_as_none(web_agent: Agent, empty: Any) -> None:
    result = await web_agent.good("memory_search", query="x", scope=empty, sort=empty, top_k=empty)
    assert result["hits"] == []


async def test_what_hosts_add_and_how_they_write_numbers_is_taken(web_agent: Agent) -> None:
    result = await web_agent.good("memory_search", query="x", top_k=10.0, wait_for_previous=True)
    assert result["hits"] == []
