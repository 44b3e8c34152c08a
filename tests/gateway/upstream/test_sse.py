"""From the bytes of an event stream to frames."""

import gzip
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.operations.errors import CATALOGUE, StreamBroken
from gateway.upstream import sse
from gateway.upstream.sse import read_frames

# A busy machine is no failure.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

RETRIEVE = b'event: retrieve\ndata: {"type":"retrieve","chunks":[]}\n\n'
DELTA = 'event: answer_delta\ndata: {"type":"answer_delta","delta":"größe 😀"}\n\n'.encode()
DONE = b'event: done\ndata: {"type":"done","answer":"x"}\n\n'
WHOLE = RETRIEVE + DELTA + DONE
FRAMES: list[dict[str, Any]] = [
    {"type": "retrieve", "chunks": []},
    {"type": "answer_delta", "delta": "größe 😀"},
    {"type": "done", "answer": "x"},
]


Headers = dict[str, str]
GZIP = {"content-encoding": "gzip"}


def response(
    chunks: Iterable[bytes], ending: Exception | None = None, headers: Headers | None = None
) -> httpx.Response:
    async def stream() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk
        if ending is not None:
            raise ending

    return httpx.Response(200, headers={"content-type": "text/event-stream", **(headers or {})}, content=stream())


async def read(*chunks: bytes, ending: Exception | None = None, headers: Headers | None = None) -> list[dict[str, Any]]:
    return [frame async for together in read_frames(response(chunks, ending, headers)) for frame in together]


async def broken(
    *chunks: bytes, ending: Exception | None = None, headers: Headers | None = None, secrets: Sequence[str] = ()
) -> StreamBroken:
    return (await read_until_broken(response(chunks, ending, headers), secrets))[1]


async def read_until_broken(
    answer: httpx.Response, secrets: Sequence[str] = ()
) -> tuple[list[dict[str, Any]], StreamBroken]:
    seen: list[dict[str, Any]] = []
    try:
        async for together in read_frames(answer, secrets):
            seen += together
    except StreamBroken as error:
        return seen, error
    pytest.fail(f"the stream was whole: {seen}")


def in_chunks(body: bytes, size: int) -> list[bytes]:
    return [body[start : start + size] for start in range(0, len(body), size)]


async def test_frames_come_in_order_and_done_is_the_last() -> None:
    assert await read(WHOLE) == FRAMES


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
async def test_lines_may_end_in_any_of_three_ways(newline: bytes) -> None:
    assert await read(WHOLE.replace(b"\n", newline)) == FRAMES


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
async def test_a_stream_may_be_cut_into_chunks_at_every_byte(newline: bytes) -> None:
    whole = WHOLE.replace(b"\n", newline)
    assert await read(*(whole[i : i + 1] for i in range(len(whole)))) == FRAMES
    for cut in range(1, len(whole)):
        assert await read(whole[:cut], whole[cut:]) == FRAMES


async def test_a_line_end_of_two_characters_is_one_however_it_is_cut() -> None:
    """Taken for two it would end the event after its name, and the data would be of no known kind."""
    whole = b'event: answer_delta\r\ndata: {"delta":"x"}\r\n\r\nevent: done\r\ndata: {}\r\n\r\n'
    for cut in range(1, len(whole)):
        assert await read(whole[:cut], whole[cut:]) == [{"type": "answer_delta", "delta": "x"}, {"type": "done"}]


async def test_what_comes_after_done_is_not_read() -> None:
    assert await read(WHOLE + DELTA + DONE, ending=httpx.ReadError("cut")) == FRAMES


@pytest.mark.parametrize(
    "between",
    [
        b": keep-alive\n\n",
        b":\n\n\n\n",
        b"id: 7\n\n",
        b"retry: 100\n\n",
        b"event: ping\n\n",
        b"event: ping\ndata:\n\n",
        b"event: ping\ndata: 2026-01-01T00:00:00Z\n\n",
        b"event: usage\ndata: [1]\n\n",
        b"unknown: field\n\n",
        b"data\n\n",
        b"data:\n\n",
    ],
)
async def test_what_says_nothing_is_passed_over(between: bytes) -> None:
    assert await read(b"id: 1\n" + RETRIEVE, between, DELTA, between, DONE) == FRAMES


@pytest.mark.parametrize(
    "event",
    [
        b'event: thinking\ndata: {"step": 1}\n\n',
        b'event: thinking\ndata: {"type": "done", "answer": "y"}\n\n',
        b'event: DONE\ndata: {"answer": "y"}\n\n',
        b'data: {"type": "thinking"}\n\n',
        b'data: {"type": ["done"]}\n\n',
        b'data: {"type": null, "delta": "c"}\n\n',
        b'data: {"delta":"c"}\n\n',
        b"event: message\ndata: {}\n\n",
    ],
)
async def test_an_event_of_an_unknown_kind_is_passed_over(event: bytes) -> None:
    assert await read(event, RETRIEVE, event, DELTA, event, DONE) == FRAMES


async def test_the_kind_of_an_event_is_its_name_or_else_what_its_data_says() -> None:
    found = await read(
        b'data: {"type":"answer_delta","delta":"a"}\n\n',
        b'event: answer_delta\ndata: {"type":"other","delta":"b"}\n\n',
        b'event: message\ndata: {"type":"answer_delta","delta":"c"}\n\n',
        b'data: {"type":"done"}\n\n',
    )
    assert [(frame["type"], frame.get("delta")) for frame in found] == [
        ("answer_delta", "a"),
        ("answer_delta", "b"),
        ("answer_delta", "c"),
        ("done", None),
    ]


async def test_data_in_several_lines_is_one_value() -> None:
    assert await read(b'event: done\ndata: {"answer":\ndata: "x"}\n\n') == [{"type": "done", "answer": "x"}]


async def test_a_byte_order_mark_is_not_part_of_the_first_event() -> None:
    found = await read(b"\xef\xbb\xbf" + b'event: answer_delta\ndata: {"delta":"x"}\n\n', DONE)
    assert found[0] == {"type": "answer_delta", "delta": "x"}


@pytest.mark.parametrize("size", [1, 2, 3, 4])
async def test_a_byte_order_mark_may_come_in_pieces(size: int) -> None:
    first = b'event: answer_delta\ndata: {"delta":"x"}\n\n'
    found = await read(b"", *in_chunks(b"\xef\xbb\xbf" + first, size), DONE)
    assert found[0] == {"type": "answer_delta", "delta": "x"}


@pytest.mark.parametrize("start", [b"\xef", b"\xef\xbb", b"\xef\xbb\xbf\xef\xbb\xbf"])
async def test_what_is_no_byte_order_mark_or_a_second_one_belongs_to_the_first_line(start: bytes) -> None:
    found = await read(start, b'event: answer_delta\ndata: {"delta":"x"}\n\n', DONE)
    assert [frame["type"] for frame in found] == ["done"], "a line of an unknown field, and data of no known kind"


async def test_a_byte_order_mark_anywhere_else_is_text() -> None:
    found = await read('event: answer_delta\ndata: {"delta":"\ufeffx"}\n\n'.encode(), DONE)
    assert found[0]["delta"] == "\ufeffx"
    assert await read(RETRIEVE, b'\xef\xbb\xbfdata: {"type":"done"}\n\n', DELTA, DONE) == FRAMES


async def test_invalid_bytes_are_replaced_and_end_nothing() -> None:
    found = await read(b'event: answer_delta\ndata: {"delta":"a\xffb\xe2\x82"}\n\n', DONE)
    assert found[0]["delta"] == "a\ufffdb\ufffd"


async def test_a_nul_may_be_said_and_not_sent() -> None:
    assert (await read(b'event: answer_delta\ndata: {"delta":"a\\u0000b"}\n\n', DONE))[0]["delta"] == "a\0b"
    assert (await broken(b'event: answer_delta\ndata: {"delta":"a\0b"}\n\n', DONE)).code == "upstream_error"
    assert await read(b"event: ping\0\ndata: \0\nid: \0\n\n", WHOLE) == FRAMES


async def test_line_separators_inside_a_value_end_nothing() -> None:
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"
    # JSON takes the first three as they are, and control characters in escapes alone.
    event = f"event: done\ndata: {json.dumps({'answer': text}, ensure_ascii=False)}\n\n"
    assert await read(event.encode()) == [{"type": "done", "answer": text}]
    assert await read(b"event: ping\x0bevent: done\x0cdata: x\x1c\x1c\n\n", WHOLE) == FRAMES


async def test_half_a_character_is_replaced() -> None:
    found = await read(b'event: answer_delta\ndata: {"delta":"cut \\ud83d"}\n\n', DONE)
    assert found[0]["delta"] == "cut \ufffd"


async def test_a_stream_that_comes_squeezed_is_read() -> None:
    assert await read(gzip.compress(WHOLE), headers=GZIP) == FRAMES


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/event-stream; charset=utf-8"},
        {"content-type": "Text/Event-Stream"},
        {"content-type": "text/event-stream; charset=utf-16"},
        {},
    ],
)
async def test_the_media_type_may_have_parameters_or_be_missing(headers: dict[str, str]) -> None:
    """Whatever it says of the characters: an event stream is UTF-8."""
    answer = httpx.Response(200, headers=headers, stream=response([WHOLE]).stream)
    assert [frame async for together in read_frames(answer) for frame in together] == FRAMES


async def test_an_answer_may_come_whole() -> None:
    citation = {"chunk_id": "c", "quote": "x"}
    answer = {"answer": "größe", "citations": [citation, "none"], "retrieved": [{"chunk_id": "c"}], "model": "m"}
    found = await read(json.dumps(answer).encode(), headers={"content-type": "application/json; charset=utf-8"})
    assert found == [
        {"type": "retrieve", "chunks": [{"chunk_id": "c"}]},
        {**citation, "type": "citation"},
        {**answer, "type": "done"},
    ]


@pytest.mark.parametrize("body", [b"", b"<html>secret</html>", b"[]", b"{}", b'{"answer":3}', b'{"answer":"', b"\xff"])
async def test_a_whole_answer_without_an_answer_is_an_error_of_the_platform(body: bytes) -> None:
    error = await broken(body, headers={"content-type": "application/json"})
    assert error.code == "upstream_error"
    assert "secret" not in error.message


async def test_a_whole_answer_has_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "WHOLE_BYTES", 1000)
    error = await broken(*[b'{"answer":"' + b"x" * 600] * 2, headers={"content-type": "application/json"})
    assert (error.code, error.message) == ("upstream_error", "The platform's answer is too large.")


async def test_a_platform_without_a_language_model_is_told_so() -> None:
    error = await broken(b'event: error\ndata: {"message":"no LLM provider configured: hunter2"}\n\n')
    assert (error.code, error.retryable) == ("not_implemented", False)
    assert "language model" in error.message
    assert "hunter2" not in error.message


@pytest.mark.parametrize("content_type", ["text/html", "text/plain"])
async def test_what_is_no_event_stream_is_an_error_of_the_platform(content_type: str) -> None:
    error = await broken(b"<html>secret</html>", headers={"content-type": content_type})
    assert (error.code, error.message) == ("upstream_error", "The platform's answer is not a stream of events.")


@pytest.mark.parametrize(
    "cut",
    [
        b"",
        RETRIEVE,
        RETRIEVE + DELTA,
        RETRIEVE + DELTA + DONE[:-2],
        RETRIEVE + DELTA + DONE[:-1],
        RETRIEVE + b"event: done\n\n",
        b": nothing but comments\n\n" * 10,
    ],
    ids=len,
)
async def test_a_stream_that_ends_without_done_is_truncated(cut: bytes) -> None:
    error = await broken(cut)
    assert (error.code, error.retryable) == ("stream_truncated", True)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (httpx.ReadError("http://inside"), "stream_truncated"),
        (httpx.RemoteProtocolError("x"), "stream_truncated"),
        (httpx.DecodingError("x"), "stream_truncated"),
        (httpx.ReadTimeout("x"), "timeout"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_a_connection_that_fails_midway_is_a_broken_stream(failure: Exception, code: str) -> None:
    error = await broken(RETRIEVE, DELTA, ending=failure)
    assert error.code == code
    assert error.__cause__ is failure
    assert "inside" not in error.message


async def test_squeezed_bytes_that_are_none_break_the_stream() -> None:
    assert (await broken(WHOLE, headers=GZIP)).code == "stream_truncated"


@pytest.mark.parametrize(
    "kind", [b"", b"event: retrieve\n", b"event: answer_delta\n", b"event: done\n", b"event: error\n"]
)
@pytest.mark.parametrize("data", [b"secret", b"{", b"[]", b"7", b"null", b'"x"', b"[DONE]", b"{" * 100_000])
async def test_a_frame_that_is_no_object_is_an_error_of_the_platform(kind: bytes, data: bytes) -> None:
    error = await broken(RETRIEVE, kind + b"data: " + data + b"\n\n", DONE)
    assert (error.code, error.retryable) == ("upstream_error", False)
    assert error.message == "The platform sent an event that is not a JSON object."


FAILED, OURS = "upstream_error", "The platform reported an error while it was answering."


@pytest.mark.parametrize(
    ("said", "told", "message", "retryable", "code"),
    [
        ({"code": "rate_limited", "message": "Slow down.", "retryable": True}, None, "Slow down.", True, None),
        ({"code": "rate_limited", "message": "hunter2", "retryable": False}, None, OURS, False, None),
        ({"code": "timeout"}, None, OURS, True, None),
        ({"code": "llm_failed", "message": "It fell over.", "retryable": True}, None, "It fell over.", True, FAILED),
        ({"code": "_"}, None, OURS, False, FAILED),
        ({"code": "a" * 64}, None, OURS, False, FAILED),
        ({"code": "llm_4"}, FAILED, OURS, False, FAILED),
        ({"code": "Hunter!"}, FAILED, OURS, False, FAILED),
        ({"code": ""}, FAILED, OURS, False, FAILED),
        ({"code": "a" * 65}, FAILED, OURS, False, FAILED),
        ({"code": ["rate_limited"]}, FAILED, OURS, False, FAILED),
        ({"message": "the provider said hunter2"}, FAILED, "the provider said […]", False, FAILED),
        ({"message": ["secret"]}, FAILED, OURS, False, FAILED),
        ({"retryable": "yes"}, FAILED, OURS, False, FAILED),
        ({}, FAILED, OURS, False, FAILED),
    ],
)
async def test_an_error_frame_ends_the_stream_in_its_own_words_if_they_can_be_shown(
    said: dict[str, Any], told: str | None, message: str, retryable: bool, code: str | None
) -> None:
    """Callers are told the stream's own code; to the gateway itself, and in its log, it is one of the list."""
    event = f"event: error\ndata: {json.dumps(said)}\n\n".encode()
    error = await broken(RETRIEVE, DELTA, event, DONE)
    shown = {"code": told or said["code"], "message": message, "retryable": retryable, "request_id": "r"}
    assert (error.as_json("r"), error.code) == (shown, code or said["code"])
    assert error.code in CATALOGUE


async def test_a_credential_is_neither_a_code_nor_in_a_message() -> None:
    said = {"code": "kestrel_kestrel", "message": "kestrel_kestrel is not known, and kestrel_kestrel neither"}
    event = f"event: error\ndata: {json.dumps(said)}\n\n".encode()
    error = await broken(RETRIEVE, DELTA, event, DONE, secrets=["kestrel_kestrel"])
    assert (error.as_json("r")["code"], error.message) == (FAILED, "[…] is not known, and […] neither")


@pytest.mark.parametrize("error_event", [b"event: error\n\n", b"event: error\ndata:\n\n"])
async def test_an_error_without_a_word_is_an_error(error_event: bytes) -> None:
    assert (await broken(RETRIEVE, DELTA, error_event, DONE)).code == "upstream_error"


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
async def test_an_event_is_delivered_as_soon_as_it_is_whole(newline: bytes) -> None:
    """Nothing has to follow it: a platform may hold its connection open."""
    after: list[str] = []

    def sent() -> Iterator[bytes]:
        for event in (RETRIEVE, DELTA, DONE):
            yield event.replace(b"\n", newline)
            after.append("more was asked for")

    async with aclosing(read_frames(response(sent()))) as found:
        assert await anext(found) == [FRAMES[0]]
        assert after == []
        assert await anext(found) == [FRAMES[1]]
        assert len(after) == 1
        assert await anext(found) == [FRAMES[2]]
        assert len(after) == 2


async def test_frames_before_a_failure_are_delivered() -> None:
    seen, error = await read_until_broken(response([RETRIEVE, DELTA]))
    assert (seen, error.code) == (FRAMES[:2], "stream_truncated")


@pytest.mark.parametrize("failure", [b"event: error\n\n", b"event: done\ndata: no JSON\n\n"])
async def test_frames_that_come_together_with_a_failure_are_delivered_before_it(failure: bytes) -> None:
    seen, error = await read_until_broken(response([RETRIEVE + DELTA + failure]))
    assert (seen, error.code) == (FRAMES[:2], "upstream_error")


async def test_frames_that_come_together_stay_together() -> None:
    parts = [RETRIEVE + DELTA[:9], DELTA[9:] + DELTA * 2 + DELTA[:5], DELTA[5:] + DONE]
    found = [together async for together in read_frames(response(parts))]
    assert found == [FRAMES[:1], FRAMES[1:2] * 3, FRAMES[1:]]


async def test_what_says_nothing_is_nothing_that_came() -> None:
    """Whoever waits for the next frame waits on: a platform that only pings is silent."""
    parts = [RETRIEVE, b": ping\n\n", b"event: usage\ndata: 1\n\n", DELTA, b"\n", DONE]
    assert [together async for together in read_frames(response(parts))] == [FRAMES[:1], FRAMES[1:2], FRAMES[2:]]


@UNHURRIED
@given(st.lists(st.binary(max_size=40), max_size=8))
async def test_no_bytes_whatsoever_fail_otherwise_than_as_a_broken_stream(chunks: list[bytes]) -> None:
    try:
        found = await read(*chunks)
    except StreamBroken:
        return
    assert found[-1]["type"] == "done"


@UNHURRIED
@given(st.data())
async def test_a_mutated_stream_is_an_answer_or_a_broken_stream(data: st.DataObject) -> None:
    mutated = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = await read(bytes(mutated))
    except StreamBroken:
        return
    assert found[-1]["type"] == "done"
    assert all(frame["type"] != "error" for frame in found)


@pytest.mark.parametrize(
    "event",
    [
        b'event: retrieve\ndata: {"chunks": "x"}\n\n',
        b'event: retrieve\ndata: {"chunks": 3}\n\n',
        b'event: retrieve\ndata: {"chunks": {"a": 1}}\n\n',
        b'event: retrieve\ndata: {"chunks": [null]}\n\n',
        b'data: {"type": "retrieve", "chunks": [[]]}\n\n',
        b'event: answer_delta\ndata: {"delta": 3}\n\n',
        b'event: answer_delta\ndata: {"text": ["a"]}\n\n',
    ],
)
async def test_a_frame_whose_parts_are_something_else_is_an_error_of_the_platform(event: bytes) -> None:
    error = await broken(event, DONE)
    assert (error.code, error.retryable) == ("upstream_error", False)


async def test_more_sources_than_an_answer_needs_are_cut_off_and_that_is_told() -> None:
    chunks = json.dumps([{"chunk_id": str(n)} for n in range(201)])
    found = await read(f'event: retrieve\ndata: {{"chunks": {chunks}}}\n\n'.encode(), DONE)
    assert len(found[0]["chunks"]) == 200
    assert found[0]["is_cut"] is True


async def test_null_in_a_frame_is_nothing() -> None:
    found = await read(
        b'event: retrieve\ndata: {"chunks": null}\n\n',
        b'event: retrieve\ndata: {"mode": "auto"}\n\n',
        b'event: answer_delta\ndata: {"delta": null, "n": null}\n\n',
        DONE,
    )
    assert found[0] == {"type": "retrieve", "chunks": []}
    assert found[1] == {"type": "retrieve", "chunks": [], "mode": "auto"}
    assert found[2] == {"type": "answer_delta", "n": None}


@pytest.mark.parametrize("held", [3, "x", {"a": 1}, None, [3], [None]])
async def test_citations_of_a_whole_answer_that_are_none_are_passed_over(held: Any) -> None:
    whole = json.dumps({"answer": "x", "citations": held}).encode()
    found = await read(whole, headers={"content-type": "application/json"})
    assert [frame["type"] for frame in found] == ["retrieve", "done"]


@pytest.mark.parametrize("held", [3, "x", {"a": 1}, [3], [None]])
async def test_what_a_whole_answer_found_must_be_a_list_of_objects(held: Any) -> None:
    whole = json.dumps({"answer": "x", "retrieved": held}).encode()
    assert (await broken(whole, headers={"content-type": "application/json"})).code == "upstream_error"
