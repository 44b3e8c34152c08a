"""Answer streams as platforms send them: the transcripts of the contract, through the gateway."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp.client.client import CallToolResult

from tests.gateway.conftest import structured, text_of
from tests.served import listening, serving
from tests.upstreams import Answer, Scripted, replay

TRANSCRIPTS = Path(__file__).parents[2] / "contract" / "transcripts"


@asynccontextmanager
async def asked(tmp_path: Path, answer: Answer) -> AsyncIterator[tuple[CallToolResult, list[str]]]:
    platform = Scripted({"POST /v1/brains/main/ask": answer})
    with (
        listening(platform.app()) as upstream,
        serving(tmp_path, None, upstream_url=upstream, dialect="platform") as served,
    ):
        async with served.over_http("modern") as client:
            seen: list[str] = []

            async def on_progress(_progress: float, _total: float | None, message: str | None) -> None:
                seen.append(str(message))

            yield (
                await client.call_tool(
                    "memory_ask", {"query": "x", "brain": "main"}, raise_on_error=False, progress_handler=on_progress
                ),
                seen,
            )


def transcript(name: str) -> bytes:
    return (TRANSCRIPTS / f"{name}.sse").read_bytes()


def frames(name: str, kind: str) -> list[dict[str, Any]]:
    """What a transcript holds, read naively: enough for files we wrote ourselves."""
    found = []
    for block in transcript(name).decode().split("\n\n"):
        lines = block.splitlines()
        if f"event: {kind}" in lines:
            data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
            found.append(json.loads("".join(data)))
    return found


@pytest.mark.parametrize("name", ["plain", "citations"])
async def test_a_whole_stream_is_a_whole_answer(tmp_path: Path, name: str) -> None:
    async with asked(tmp_path, replay(transcript(name))) as (result, seen):
        answer = structured(result)
        assert seen == [frame["delta"] for frame in frames(name, "answer_delta")] != []
        assert answer["answer"] == "".join(seen)
        assert answer["citations"] == frames(name, "citation")
        assert answer["retrieved"] == frames(name, "retrieve")[0]["chunks"]


def error_of(result: CallToolResult) -> dict[str, Any]:
    """The error of an answer stream: text alone, one sentence and one line of JSON."""
    assert result.is_error
    assert result.structured_content is None
    sentence, line = text_of(result).split("\n")
    error = dict(json.loads(line))
    assert sentence == f"{error['code']}: {error['message']}"
    return error


async def test_an_error_midway_ends_the_answer_as_text_alone(tmp_path: Path) -> None:
    (said,) = frames("error-midway", "error")
    async with asked(tmp_path, replay(transcript("error-midway"))) as (result, seen):
        error = error_of(result)
        assert seen == [frame["delta"] for frame in frames("error-midway", "answer_delta")]
        assert error["partial_answer"] == "".join(seen) != ""
        assert (error["code"], error["retryable"]) == (said["code"], said["retryable"])
        assert error["message"].startswith(f"{said['message']} What came of the answer")


async def test_an_error_is_final_whatever_follows(tmp_path: Path) -> None:
    body = b'event: error\ndata: {"message":"model failed"}\n\nevent: done\ndata: {"ok":true,"answer":"fine"}\n\n'
    async with asked(tmp_path, replay(body)) as (result, _):
        error = error_of(result)
        assert (error["code"], error["message"]) == ("upstream_error", "model failed")
        assert "partial_answer" not in text_of(result), "nothing came"


async def test_a_stream_that_is_cut_off_is_no_answer(tmp_path: Path) -> None:
    async with asked(tmp_path, replay(transcript("cut-off"))) as (result, seen):
        error = error_of(result)
        assert (error["code"], error["retryable"]) == ("stream_truncated", True)
        assert error["partial_answer"] == "".join(seen) == "The office is on the"
        assert "incomplete" in error["message"]


async def test_a_malformed_frame_is_no_answer(tmp_path: Path) -> None:
    async with asked(tmp_path, replay(transcript("malformed"))) as (result, seen):
        error = error_of(result)
        assert error["code"] == "upstream_error"
        assert error["partial_answer"] == "".join(seen) == "The office"


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(fields, ensure_ascii=False)}\n\n".encode()


SAID = event("answer_delta", delta="Otters\u2028sleep.\n") + event("answer_delta", delta="") + event("answer_delta")
CITED = {"chunk_id": "c", "document_id": "d", "answer_start": 0, "answer_end": 6, "quote": "Otters"}


@pytest.mark.parametrize("garbled", [event("citation", chunk_id=3), event("retrieve", chunks=[{"score": "high"}])])
async def test_a_frame_with_something_else_in_a_field_breaks_the_stream(tmp_path: Path, garbled: bytes) -> None:
    async with asked(tmp_path, replay(SAID + garbled + event("done", answer="x"))) as (result, seen):
        error = error_of(result)
        assert error["code"] == "upstream_error"
        assert error["partial_answer"] == "".join(seen) == "Otters\u2028sleep.\n"


async def test_frames_may_come_in_any_order(tmp_path: Path) -> None:
    second = event("retrieve", chunks=[{"chunk_id": "second"}])
    body = event("citation", **CITED) + SAID + event("retrieve", chunks=[{"chunk_id": "first"}]) + second
    async with asked(tmp_path, replay(body + event("done") + SAID + event("error"))) as (result, seen):
        answer = structured(result)
        assert seen == ["Otters\u2028sleep.\n", "", ""]
        assert answer["answer"] == "".join(seen)
        assert answer["citations"] == [{"type": "citation", **CITED}]
        assert [chunk["chunk_id"] for chunk in answer["retrieved"]] == ["first"]


@pytest.mark.parametrize(("said", "answer"), [("Quite another.", "Quite another."), ("", ""), (None, "a"), (3, "a")])
async def test_what_the_platform_says_at_the_end_wins_over_its_pieces(tmp_path: Path, said: Any, answer: str) -> None:
    async with asked(tmp_path, replay(event("answer_delta", delta="a") + event("done", answer=said))) as (result, seen):
        assert seen == ["a"]
        assert structured(result)["answer"] == answer


async def test_what_the_platform_says_of_its_answer_is_passed_on(tmp_path: Path) -> None:
    note = "The notes' own words, because the language model cannot be reached."
    async with asked(tmp_path, replay(event("done", answer="At seven.", note=note))) as (result, _):
        assert structured(result)["note"] == note
        assert text_of(result) == f"At seven.\n\n({note})"
    async with asked(tmp_path, replay(event("done", answer="At seven.", note=7))) as (result, _):
        assert "note" not in structured(result)


async def test_an_answer_that_grows_too_long_is_given_up_with_what_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.upstream.sse.ANSWER_BYTES", 1000)
    async with asked(tmp_path, replay(event("answer_delta", delta="x" * 300) * 4 + event("done"))) as (result, seen):
        error = error_of(result)
        assert error["code"] == "upstream_error"
        assert error["partial_answer"] == "".join(seen) == "x" * 900


async def test_an_event_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstream.sse.EVENT_BYTES", 1_000_000)
    async with asked(tmp_path, replay(b"event: answer_delta\ndata: " + b"x" * 1_100_000)) as (result, _):
        assert error_of(result)["code"] == "upstream_error"
