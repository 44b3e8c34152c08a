"""Steps that run while a stream is open, and when of a stream without an end enough was heard."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from contract.outcome import Result
from tests.contract.platform.serving import served
from tests.contract.targets import case_of, check, knowable, reference_app

LISTENING = """
- listening:
    request: {method: GET, path: "${b}/events", take: 2}
    expect:
      status: 200
      sse: [{event: ready, data: ok}, {event: change, data: {path: a.md}}]
    meanwhile:
      - request: {method: PUT, path: "${b}/documents", query: {path: a.md}, text: tea}
        expect: {status: 204}
      - request: {method: GET, path: "${b}/documents/stat", query: {path: a.md}}
        expect: {status: 200}
        save: {size: json.size}
- request: {method: GET, path: "${b}/documents/stat", query: {path: a.md}}
  expect: {status: 200, json: {size: "${size}"}}
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with reference_app() as app, served(app) as base:
        yield base


def result(url: str, steps: str, **more: Any) -> Result:
    seconds = more.pop("seconds", 30)
    return check(url, [case_of(steps, **{"brain": "own", **more})], seconds=seconds).results[0]


def test_what_happens_meanwhile_is_heard_and_what_was_saved_is_known_afterwards(url: str) -> None:
    told = result(url, LISTENING)
    assert (told.outcome, told.failure) == ("passed", None)


def test_a_stream_that_tells_something_else_fails(url: str) -> None:
    failure = result(url, LISTENING.replace("{path: a.md}}]", "{path: b.md}}]")).failure
    assert failure is not None
    assert failure.request.endswith("/events")
    assert failure.expected == 'event 2 (change).path should be "b.md", not "a.md"'


def test_a_step_that_fails_meanwhile_is_the_failure_and_the_stream_is_left(url: str) -> None:
    # Who waited for the stream here would wait for longer than a test may take.
    steps = LISTENING.replace("status: 204", "status: 205").replace("take: 2", "take: 99")
    failure = result(url, steps, seconds=1000).failure
    assert failure is not None
    assert failure.request.startswith("PUT ")
    assert failure.expected == "the status should be 205, not 204"


def test_a_stream_that_does_not_begin_is_the_failure_and_nothing_else_is_sent(url: str) -> None:
    failure = result(url, LISTENING.replace("/events", "/nothing").replace("status: 204", "status: 205")).failure
    assert failure is not None
    assert failure.expected == "the status should be 200, not 404"


def test_what_does_not_come_in_time_is_missing_and_not_silence(url: str) -> None:
    steps = LISTENING.replace("take: 2", "take: 3").replace("path: a.md}}]", "path: a.md}}, {event: change}]")
    failure = result(url, steps, seconds=2).failure
    assert failure is not None
    assert failure.expected == "event 3 should be change, and was the end; the stream was: ready, change"


@contextmanager
def saying(*pieces: bytes) -> Iterator[str]:
    """A target whose every answer is these pieces, and then nothing more for as long as somebody waits."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for piece in pieces if scope["path"] == "/ticks" else ():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        while scope["path"] == "/ticks" and (await receive())["type"] != "http.disconnect":
            pass
        await send({"type": "http.response.body", "body": b""})

    with served(knowable(app)) as base:
        yield base


TICKS: dict[str, tuple[bytes, ...]] = {
    "with pings and comments": (b": hi\n\nevent: ping\ndata: x\n\n", b"event: tick\ndata: 1\n\n: a\n\ndata: 2\n\n"),
    "in lines of CR and LF": (b"event: tick\r\ndata: 1\r\n\r\n", b"data: 2\r\n\r\n"),
    "cut anywhere": tuple(bytes([byte]) for byte in b"event: tick\ndata: 1\n\ndata: 2\n\n"),
    "more at once": (b"event: tick\ndata: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4\n\n",),
}


@pytest.mark.parametrize("name", TICKS)
def test_a_stream_is_left_after_the_events_that_were_asked_for_however_they_come(name: str) -> None:
    steps = """
- request: {method: GET, path: /ticks, take: 2}
  expect: {status: 200, sse: [{event: tick, data: 1}, {event: message, data: 2}]}
"""
    with saying(*TICKS[name]) as base:
        told = result(base, steps, brain="none")
    assert (told.outcome, told.failure) == ("passed", None)
