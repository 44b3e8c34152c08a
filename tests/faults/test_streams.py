"""Mutated answer streams, in a number that suits the suite; and proof that the judge would object."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from itertools import islice
from typing import Any

import httpx
import pytest

from gateway.operations.errors import StreamBroken
from gateway.operations.table import JsonObject
from gateway.surfaces.memory.answer import Answer
from gateway.upstream import exchange, sse
from tests.faults import streams
from tests.faults.mutations import MUTATIONS, drawn
from tests.faults.reading import events_of, read

DELTA = b'event: answer_delta\ndata: {"delta": "a"}\n\n'
DONE = b'event: done\ndata: {"answer": "b"}\n\n'


@pytest.mark.slow
def test_a_mutated_stream_is_the_answer_it_holds_or_a_typed_error() -> None:
    part = streams.run(full=False)
    assert part.failures == []
    assert sorted(name for name, *_ in part.rows) == sorted([*MUTATIONS, "all"])
    total = dict(zip(part.headers, part.rows[-1], strict=True))
    assert (total["streams"], total["wrong"], total["hung"]) == (str(streams.SMALL), "0", "0")
    # Neither of the two is what always happens.
    assert int(total["complete"]) > streams.SMALL / 4
    assert int(total["stream_truncated"]) > streams.SMALL / 10
    assert int(total["upstream_error"]) > streams.SMALL / 10
    assert int(total["timeout"]) > 0


def objections(count: int, *names: str) -> set[str]:
    """What is said against the relay as it is now, over so many streams of these mutations."""
    chosen = islice((item for item in drawn(streams.SEED, 100 * count) if item[0] in names), count)
    with streams.lower_caps():
        found = asyncio.run(streams.outcomes(chosen))
    return {said.partition(":")[0] for _, sent, outcome in found for said in streams.objections(sent, outcome)}


Frames = Callable[[httpx.Response, Sequence[str]], AsyncGenerator[list[JsonObject], None]]


def frames_with(change: Callable[[AsyncIterator[JsonObject]], AsyncGenerator[JsonObject, None]]) -> Frames:
    real = sse.read_frames

    async def changed(response: httpx.Response, secrets: Sequence[str]) -> AsyncGenerator[list[JsonObject], None]:
        one_by_one = (frame async for together in real(response, secrets) for frame in together)
        async for frame in change(one_by_one):
            yield [frame]

    return changed


async def takes_an_end_for_done(found: AsyncIterator[JsonObject]) -> AsyncGenerator[JsonObject, None]:
    try:
        async for frame in found:
            yield frame
    except StreamBroken as error:
        if error.code != "stream_truncated":
            raise
        yield {"type": "done"}


async def takes_an_error_for_done(found: AsyncIterator[JsonObject]) -> AsyncGenerator[JsonObject, None]:
    try:
        async for frame in found:
            yield frame
    except StreamBroken as error:
        if "reported an error" not in error.message:
            raise
        yield {"type": "done"}


async def loses_a_piece(found: AsyncIterator[JsonObject]) -> AsyncGenerator[JsonObject, None]:
    count = 0
    async for frame in found:
        count += frame["type"] == "answer_delta"
        if frame["type"] != "answer_delta" or count != 2:
            yield frame


async def swaps_pieces(found: AsyncIterator[JsonObject]) -> AsyncGenerator[JsonObject, None]:
    held: list[JsonObject] = []
    async for frame in found:
        if frame["type"] == "answer_delta" and not held:
            held.append(frame)
            continue
        yield frame
        while held:
            yield held.pop()


async def repeats_citations(found: AsyncIterator[JsonObject]) -> AsyncGenerator[JsonObject, None]:
    async for frame in found:
        yield frame
        if frame["type"] == "citation":
            yield frame


async def fails_otherwise(found: AsyncIterator[JsonObject]) -> AsyncGenerator[JsonObject, None]:
    async for frame in found:
        yield frame
        raise KeyError("delta")


@pytest.mark.parametrize(
    ("change", "mutation", "objection"),
    [
        (takes_an_end_for_done, "cut at any byte", "an answer where there is none (ended)"),
        (takes_an_error_for_done, "error frames inserted", "an answer where there is none (error)"),
        (loses_a_piece, "none, in random chunks", "progress is not the pieces in their order"),
        (swaps_pieces, "none, in random chunks", "progress is not the pieces in their order"),
        (repeats_citations, "none, in random chunks", "other citations or sources"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_relay_that_is_wrong_is_found_out(
    change: Any, mutation: str, objection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "read_frames", frames_with(change))
    assert objection in objections(25, mutation)


def test_a_relay_that_crashes_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "read_frames", frames_with(fails_otherwise))
    assert "no error of ours" in objections(2, "none, in random chunks")


def test_a_relay_that_refuses_everything_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "EVENTS", 0)
    monkeypatch.setitem(streams.CAPS, "EVENTS", 0)
    assert "no answer where there is one" in objections(25, "none, in random chunks")


def test_an_error_that_keeps_what_came_to_itself_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Answer, "broken_off", lambda _self, error: error)
    assert "the error does not say what came before it" in objections(25, "no `done`")


def test_a_relay_that_waits_for_ever_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "CLOCKS", dict.fromkeys(streams.CLOCKS, streams.PATIENT))
    monkeypatch.setattr(streams, "HUNG_SECONDS", 0.5)
    assert objections(4, "never ends") == {"hung"}


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"data: a\n\n", [("message", "a")]),
        (b"\xef\xbb\xbfevent:x\r\rdata:  a\rdata\r\n\r\n", [("message", " a\n")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [("x", "a"), ("message", "b")]),
        (b"event: x\n: c\nid: 3\ndata: a\n", []),
        (b"event: x\n\ndata: a\n\n", [("message", "a")]),
        ("data: a\u2028b\x85c\n\n".encode(), [("message", "a\u2028b\x85c")]),
        (b"data: \xff\n\r\n", [("message", "\ufffd")]),
    ],
)
def test_the_judge_reads_events_as_the_standard_has_it(body: bytes, events: list[tuple[str, str]]) -> None:
    assert events_of(body) == events


@pytest.mark.parametrize(
    ("body", "complete", "answer", "why"),
    [
        (DELTA + DONE, True, "b", "ended"),
        (DELTA + b"event: done\ndata: {}\n\n", True, "a", "ended"),
        (DELTA + DONE[:-1], False, "", "ended"),
        (DELTA + b'data: {"type": "error"}\n\n' + DONE, False, "", "error"),
        (DONE + b"event: error\ndata: {}\n\n", True, "b", "ended"),
        (b"event: answer_delta\ndata: {\n\n" + DONE, False, "", "no JSON"),
    ],
)
def test_the_judge_takes_done_alone_for_an_answer(body: bytes, complete: bool, answer: str, why: str) -> None:
    reading = read(body)
    assert (reading.complete, reading.answer, reading.why) == (complete, answer, why)


def test_the_same_seed_draws_the_same_streams() -> None:
    first, second = list(drawn(1, 60)), list(drawn(1, 60))
    assert first == second != list(drawn(2, 60))
    assert {name for name, _ in first} == set(MUTATIONS)
    assert any(b"\\ud83d" in sent.body for _, sent in drawn(1, 400)), "half a character is among them"
