"""Answers that say less than the contract, or say it wrongly: results keep to their schema all the same."""

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from tests.gateway.conftest import code_of, structured, text_of
from tests.served import listening, serving
from tests.test_pins import PIN
from tests.upstreams import Answer, Scripted, replay

SCHEMAS = {tool["name"]: tool["outputSchema"] for tool in PIN}
B = "/v1/brains/b"


async def called(
    tmp_path: Path, answers: dict[str, Answer], tool: str, arguments: dict[str, Any], path: str = "/mcp"
) -> Any:
    with (
        listening(Scripted(answers).app()) as url,
        serving(tmp_path, None, upstream_url=url, dialect="platform") as served,
    ):
        async with served.over_http("modern", path) as client:
            return await client.call_tool(tool, arguments, raise_on_error=False)


def says(answer: Any) -> Answer:
    return lambda _request: answer


FRAMES = b"""event: retrieve
data: {"chunks":[{"chunk_id":"c"}]}

event: answer_delta
data: {"delta":"x"}

event: citation
data: {"chunk_id":"c"}

event: done
data: {}

"""
LESS: list[tuple[str, dict[str, Any], dict[str, Answer]]] = [
    ("memory_search", {"query": "x", "brain": "b"}, {f"GET {B}/search": says({"hits": [{}, {"path": None}]})}),
    (
        "memory_recall",
        {"query": "x", "brain": "b", "session_id": "s"},
        {f"POST {B}/sessions/s/recall": says({"chunks": [{"score": 1}]})},
    ),
    ("memory_remember", {"content": "x", "brain": "b"}, {f"POST {B}/documents": says({})}),
    (
        "memory_extract",
        {"messages": [{"role": "user", "content": "x"}], "brain": "b"},
        {f"POST {B}/documents": says({})},
    ),
    ("memory_create_brain", {"name": "x"}, {"POST /v1/brains": says({"id": "b"})}),
    ("memory_list_brains", {}, {"GET /v1/brains": says({"items": [{"id": "b"}, {}]})}),
    ("memory_reflect", {"session_id": "s", "brain": "b"}, {f"POST {B}/sessions/s/close": says({})}),
    (
        "memory_reflect",
        {"session_id": "s", "brain": "b"},
        {f"POST {B}/sessions/s/close": says({"reflection": None, "ended_at": None, "other": None})},
    ),
    ("memory_ask", {"query": "x", "brain": "b"}, {f"POST {B}/ask": replay(FRAMES)}),
]


@pytest.mark.parametrize(("tool", "arguments", "answers"), LESS, ids=[tool for tool, _, _ in LESS])
@pytest.mark.not_quick
async def test_what_a_platform_leaves_out_is_filled_in(
    tmp_path: Path, tool: str, arguments: dict[str, Any], answers: dict[str, Answer]
) -> None:
    result = await called(tmp_path, answers, tool, arguments)
    assert not result.is_error
    Draft202012Validator(SCHEMAS[tool]).validate(structured(result))


@pytest.mark.parametrize(
    ("tool", "arguments", "answers"),
    [
        ("memory_search", {"query": "x", "brain": "b"}, {f"GET {B}/search": says({"hits": [{"path": 3}]})}),
        ("memory_search", {"query": "x", "brain": "b"}, {f"GET {B}/search": says({"hits": [{"score": "high"}]})}),
        ("memory_search", {"query": "x", "brain": "b"}, {f"GET {B}/search": says({"hits": [], "took_ms": "long"})}),
        ("memory_list_brains", {}, {"GET /v1/brains": says({"items": [{"id": ["b"]}]})}),
    ],
)
async def test_what_a_platform_garbles_is_an_error_of_its(
    tmp_path: Path, tool: str, arguments: dict[str, Any], answers: dict[str, Answer]
) -> None:
    assert code_of(await called(tmp_path, answers, tool, arguments)) == "upstream_error"


async def test_what_a_platform_garbles_in_an_answer_is_an_error_in_text_alone(tmp_path: Path) -> None:
    garbled = replay(FRAMES.replace(b'"citation"', b'"c"').replace(b'{"chunk_id":"c"}\n', b'{"quote":1}\n'))
    result = await called(tmp_path, {f"POST {B}/ask": garbled}, "memory_ask", {"query": "x", "brain": "b"})
    assert (result.is_error, result.structured_content) == (True, None)
    assert text_of(result).startswith("upstream_error: ")
