"""How much of a stream is read before it is given up."""

import gzip
import json
from collections.abc import Iterator

import pytest

from gateway.upstream import sse
from tests.gateway.upstream.test_sse import (
    DELTA,
    DONE,
    FRAMES,
    RETRIEVE,
    WHOLE,
    Headers,
    broken,
    in_chunks,
    read,
    read_until_broken,
    response,
)

# Smaller than in use, so that no test has to move tens of megabytes.
EVENT_BYTES = 1024 * 1024


@pytest.fixture(autouse=True)
def _small_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "EVENT_BYTES", EVENT_BYTES)


def event_of(size: int) -> bytes:
    """A `done` event of that many bytes, its blank line not counted."""
    empty = b'event: done\ndata: {"answer":""}'
    return empty[:-2] + b"x" * (size - len(empty)) + b'"}'


@pytest.mark.parametrize("size", [1000, 65_536, 2 * EVENT_BYTES])
async def test_an_event_of_exactly_the_cap_is_taken_and_one_byte_more_is_not(size: int) -> None:
    (frame,) = await read(*in_chunks(event_of(EVENT_BYTES) + b"\n\n", size))
    assert frame["type"] == "done"
    error = await broken(*in_chunks(event_of(EVENT_BYTES + 1) + b"\n\n", size))
    assert (error.code, error.message) == ("upstream_error", "The platform sent an event that is too large.")


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
async def test_an_event_in_many_lines_is_one_event(newline: bytes) -> None:
    line = b"data: " + b" " * 1000 + newline
    lines = [line] * (EVENT_BYTES // 1000 + 1)
    assert (await broken(*lines, newline)).message == "The platform sent an event that is too large."


async def test_an_event_that_never_ends_is_given_up_at_the_cap() -> None:
    delivered = 0

    def endless() -> Iterator[bytes]:
        nonlocal delivered
        yield RETRIEVE + b"event: answer_delta\ndata: "
        while True:
            delivered += 65_536
            yield b"x" * 65_536

    seen, error = await read_until_broken(response(endless()))
    assert (seen, error.code) == (FRAMES[:1], "upstream_error")
    assert delivered <= EVENT_BYTES + 65_536


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("line_by_line", [True, False])
async def test_many_small_events_are_no_large_one_however_they_are_sent(newline: bytes, line_by_line: bool) -> None:
    """Some servers write an event and its blank line apart; together such a stream may well pass the cap."""
    delta = b'event: answer_delta\ndata: {"delta":"' + b"x" * 10_000 + b'"}\n'
    sent: list[bytes] = []
    for _ in range(2 * EVENT_BYTES // len(delta)):
        sent += [delta, b"\n"] if line_by_line else [delta + b"\n"]
    found = await read(*(chunk.replace(b"\n", newline) for chunk in [*sent, DONE]))
    assert len(found) == 2 * EVENT_BYTES // len(delta) + 1


@pytest.mark.not_quick
async def test_a_chunk_that_holds_many_events_is_no_large_event() -> None:
    many = b'event: answer_delta\ndata: {"delta":"x"}\n\n' * 50_000
    assert len(many) > EVENT_BYTES
    assert len(await read(many + DONE)) == 50_001


def caps(monkeypatch: pytest.MonkeyPatch, **values: int) -> None:
    for name, value in values.items():
        monkeypatch.setattr(sse, name, value)


def delta_of(**fields: str) -> bytes:
    return f"event: answer_delta\ndata: {json.dumps(fields, ensure_ascii=False)}\n\n".encode()


@pytest.mark.parametrize("filler", [b": keep-alive\n\n", b"event: ping\ndata: 1\n\n", DELTA])
async def test_a_stream_has_a_cap_whatever_it_is_made_of(filler: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    fillers = [filler] * 50
    caps(monkeypatch, STREAM_BYTES=len(filler) * 50 + len(DONE))
    assert (await read(*fillers, DONE))[-1]["type"] == "done"
    error = await broken(*fillers, b"\n", DONE)
    assert (error.code, error.message) == ("upstream_error", "The platform sent a stream that is too long.")


async def test_a_stream_without_end_is_given_up_at_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    caps(monkeypatch, STREAM_BYTES=100_000)
    delivered = 0

    def endless() -> Iterator[bytes]:
        nonlocal delivered
        while True:
            delivered += 1000
            yield b": " + b"x" * 996 + b"\n\n"

    seen, error = await read_until_broken(response(endless()))
    assert (seen, error.code) == ([], "upstream_error")
    assert delivered <= 101_000


@pytest.mark.parametrize("key", ["delta", "text"])
async def test_what_is_said_in_pieces_has_a_cap(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    caps(monkeypatch, ANSWER_BYTES=100)
    pieces = [delta_of(**{key: "größe 67890"})] * 7
    assert len(await read(*pieces, delta_of(**{key: "123456789"}), DONE)) == 9
    seen, error = await read_until_broken(response([*pieces, delta_of(**{key: "12345678901234567"}), DONE]))
    assert len(seen) == 7
    assert (error.code, error.message) == ("upstream_error", "The platform sent an answer that is too long.")


@pytest.mark.parametrize("whole", [True, False])
async def test_what_is_said_at_the_end_has_a_cap(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    caps(monkeypatch, ANSWER_BYTES=100)

    def sent(answer: str) -> tuple[bytes, Headers]:
        data = json.dumps({"answer": answer}).encode()
        return (data, {"content-type": "application/json"}) if whole else (b"event: done\ndata: " + data + b"\n\n", {})

    body, headers = sent("é" * 50)
    assert (await read(body, headers=headers))[-1]["answer"] == "é" * 50
    body, headers = sent("é" * 50 + "x")
    error = await broken(body, headers=headers)
    assert (error.code, error.message) == ("upstream_error", "The platform sent an answer that is too long.")


async def test_what_is_not_said_does_not_count_as_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    caps(monkeypatch, ANSWER_BYTES=10)
    large = json.dumps({"chunks": [{"content": "x" * 100}], "answer": "x" * 100, "delta": "x" * 100})
    retrieve = f"event: retrieve\ndata: {large}\n\n".encode()
    assert len(await read(retrieve, delta_of(delta="x", other="x" * 100), DONE)) == 3


@pytest.mark.parametrize("event", [DELTA, b"event: ping\ndata: 1\n\n", b"data: {}\n\n"])
async def test_events_are_counted_and_comments_are_not(event: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    caps(monkeypatch, EVENTS=20)
    comments = b"id: 7\n: keep-alive\n\nevent: ping\n\n" * 50
    assert (await read(comments, *[event] * 19, comments, DONE))[-1]["type"] == "done"
    error = await broken(comments, *[event] * 20, DONE)
    assert (error.code, error.message) == ("upstream_error", "The platform sent more events than an answer needs.")


def test_the_caps_are_what_the_readme_may_say() -> None:
    assert (sse.STREAM_BYTES, sse.ANSWER_BYTES, sse.EVENTS) == (32 * 1024**2, 2 * 1024**2, 100_000)


async def test_what_is_packed_twice_is_not_unpacked() -> None:
    error = await broken(gzip.compress(gzip.compress(WHOLE)), headers={"content-encoding": "gzip, gzip"})
    assert (error.code, error.message) == (
        "upstream_error",
        "The platform's answer is packed in more than one way.",
    )
