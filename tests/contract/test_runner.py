"""How cases are run: names, savings, parallel steps, streams, and targets that do not behave."""

import asyncio
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from contract import case
from contract.command import main
from contract.exchange import parsed_events
from contract.machines import as_json
from contract.outcome import Result, Run, Unchecked
from contract.report import Report
from tests.broken.wrapping import Asked, Forward, Said, said, wrapped
from tests.contract.platform.serving import served
from tests.contract.targets import case_of, check, check_app, knowable, reference_app
from tests.daemons.fake import FakeDaemon, T

PUT_AND_READ = """
- request: {method: PUT, path: "${b}/documents", query: {path: "${here}/a.md"}, text: "${unique}"}
  expect: {status: 204}
- request: {method: GET, path: "${b}/documents/read", query: {path: "${here}/a.md"}}
  expect: {status: 200, text: "${unique}"}
"""


def only(done: Run[Any]) -> Result:
    assert len(done.results) == 1
    return done.results[0]


def on_platform(steps: str, **more: Any) -> Result:
    with reference_app() as app:
        return only(check_app(app, [case_of(steps, **more)], more.pop("token", "a-test-token")))


def test_a_case_writes_into_a_brain_of_the_run_that_is_gone_afterwards() -> None:
    with reference_app() as app:
        done = check_app(app, [case_of(PUT_AND_READ), case_of(PUT_AND_READ, id="http/test/own", brain="own")])
        assert [result.outcome for result in done.results] == ["passed", "passed"]
        assert len(done.target.brains) == 2
        again = check_app(
            app,
            [
                case_of(
                    "[{request: {method: GET, path: /v1/brains}, expect: {status: 200, json: "
                    '{items: {lacks: [{id: "' + done.target.brains[0] + '"}]}}}}]'
                )
            ],
        )
        assert only(again).outcome == "passed"


def test_what_was_saved_is_used_with_its_type() -> None:
    steps = """
- request: {method: POST, path: "${b}/documents", json: {content: tea, path: "${here}/a.md"}}
  expect: {status: 201}
  save: {size: json.byte_size, id: json.id}
- request: {method: GET, path: "${b}/documents/stat", query: {path: "${here}/a.md"}}
  expect: {status: 200, json: {size: "${size}", document: {id: "${id}"}}}
"""
    assert on_platform(steps).outcome == "passed"


def test_what_cannot_be_saved_or_was_not_is_a_failure() -> None:
    steps = """
- request: {method: GET, path: /healthz}
  expect: {status: 200}
  save: {id: json.items.0.id}
"""
    result = on_platform(steps)
    assert result.failure is not None
    assert result.failure.seen == "the answer has no json.items.0.id to save"
    result = on_platform('[{request: {method: GET, path: "/v1/brains/${never}"}, expect: {status: 200}}]')
    assert result.failure is not None
    assert result.failure.seen == "nothing was saved as never"


def test_a_parallel_step_counts_and_its_first_failure_is_the_failure() -> None:
    steps = """
- parallel:
    times: 5
    step:
      request: {method: PUT, path: "${b}/documents", query: {path: "${here}/${n}.md"}, text: "${n}"}
      expect: {status: 204}
- request: {method: GET, path: "${b}/documents", query: {dir: "${here}"}}
  expect: {status: 200, json: {items: {length: 5}}}
"""
    assert on_platform(steps).outcome == "passed"
    result = on_platform(steps.replace("status: 204", "status: 205"))
    assert result.failure is not None
    assert result.failure.expected == "the status should be 205, not 204"


def test_a_failure_is_told_as_request_expected_and_seen_without_the_token() -> None:
    result = on_platform('[{request: {method: GET, path: "${b}/search"}, expect: {status: 200}}]')
    assert result.failure is not None
    assert result.failure.request.startswith("GET /v1/brains/brn_")
    assert result.failure.expected == "the status should be 200, not 400"
    assert result.failure.seen.startswith("400 application/problem+json {")
    assert "a-test-token" not in repr(result)


def test_a_case_that_needs_what_was_not_given_is_not_tested() -> None:
    with reference_app(token=None) as app:
        done = check_app(app, [case_of(PUT_AND_READ, needs="token")], token=None)
    assert (only(done).outcome, only(done).why) == ("not tested", "it needs a token: give --token")
    assert Report(done).holds


def test_a_missing_route_is_a_failure_unless_the_case_says_it_may_be_missing() -> None:
    steps = '[{request: {method: POST, path: "${b}/nowhere", json: {}}, expect: {status: 200}}]'
    assert on_platform(steps).outcome == "failed"
    assert on_platform(steps, optional=True).outcome == "not supported"
    missing = steps.replace("${b}", "/v1/brains/ghost").replace("nowhere", "ask")
    assert on_platform(missing, optional=True).outcome == "failed"


def test_a_daemon_is_recognised_with_and_without_brains() -> None:
    daemon = FakeDaemon(T).app()
    cases = [case_of(PUT_AND_READ), case_of(PUT_AND_READ, id="http/test/other", dialect="platform")]
    for _ in range(2):
        done = check_app(daemon, cases, token=None)
        assert done.target.dialect == "daemon"
        assert only(done).outcome == "passed"
        assert done.left_out == {"of the platform dialect": 1}
        asyncio.run(_brain(daemon))


async def _brain(app: Any) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://daemon.test") as client:
        await client.post("/v1/brains", json={"brainId": "somebody-s"})


@pytest.mark.parametrize("named", ["id", "slug"])
@pytest.mark.parametrize("after", [0, 1])
def test_a_brain_that_was_there_before_is_neither_played_in_nor_deleted(after: int, named: str) -> None:
    mine, asked, made = {"id": "brn_mine", "slug": "mine", "name": "Mine"}, list[tuple[str, str]](), list[str]()

    async def always_the_same(request: Asked, _forward: Forward) -> Said:
        asked.append((request.method, request.path))
        if request.path == "/v1/brains" and request.method == "GET":
            return said(200, {"items": [mine]})
        if request.path == "/v1/brains":
            made.append(request.path)
            # Under another id, its slug still says which brain it is.
            return said(200, {**mine, "id": "brn_mine" if named == "id" else "1"} if len(made) > after else {"id": "2"})
        return said(200, {"items": []}) if request.path == "/v1/brains/2/documents" else said(204)

    with reference_app() as app:
        cases = case.selected(case.load(), ["http/brains/delete", "http/brains/create", "http/documents/put"])
        done = check_app(wrapped(app, always_the_same), cases)
    theirs = "brn_mine" if named == "id" else "1"
    assert [one for one in asked if one[1].startswith(f"/v1/brains/{theirs}")] == []
    assert (("DELETE", "/v1/brains/2") in asked) is bool(after)
    assert done.target.left == [theirs]
    assert f"Not deleted, because it was there before the run: {theirs}. POST /v1/brains" in Report(done).text()


def test_brains_that_cannot_be_deleted_are_named() -> None:
    with reference_app() as app:

        async def keeps(scope: Any, receive: Any, send: Any) -> None:
            if scope["method"] == "DELETE":
                await send({"type": "http.response.start", "status": 405, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
            await app(scope, receive, send)

        done = check_app(keeps, [case_of(PUT_AND_READ)])
    assert done.target.left == done.target.brains
    told = Report(done).text()
    assert f"Left behind: 1 brain that could not be deleted: {done.target.brains[0]}. `contract clean` tries" in told


def test_events_are_read_as_browsers_do() -> None:
    text = ': hello\n\nevent: a\ndata: {"x":\ndata: 1}\n\nid: 3\ndata:plain\r\n\r\nevent: cut\ndata: {"y": 2}'
    assert [(frame.event, frame.data) for frame in parsed_events(text)] == [("a", {"x": 1}), ("message", "plain")]


# --- targets that do not behave

OK = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
BEHAVIOURS: dict[str, Callable[[socket.socket], None]] = {
    "hangs": lambda peer: _until_closed(peer),
    "says nothing": lambda peer: peer.close(),
    "is no HTTP": lambda peer: peer.sendall(b"\x00\xff garbage garbage\r\n\r\n"),
    "answers HTML": lambda peer: _sent(peer, "HTTP/1.1 200 OK\r\ncontent-type: text/html", "<h1>Welcome</h1>"),
    "answers bad JSON": lambda peer: _sent(peer, OK.strip(), '{"items": ['),
    "answers deep JSON": lambda peer: _sent(peer, OK.strip(), "[" * 100_000),
    "promises more than it sends": lambda peer: peer.sendall(f"{OK}content-length: 1000\r\n\r\n{{}}".encode()),
    "sends more than it promised": lambda peer: peer.sendall(f"{OK}content-length: 2\r\n\r\n{{}}{{}}".encode()),
    "breaks its chunks": lambda peer: peer.sendall(f"{OK}transfer-encoding: chunked\r\n\r\nzz\r\n".encode()),
    "lies about compression": lambda peer: _sent(peer, f"{OK}content-encoding: gzip", "not gzip"),
    "redirects for ever": lambda peer: _sent(peer, "HTTP/1.1 307 Again\r\nlocation: /", ""),
    "trickles": lambda peer: _trickle(peer),
}


def patience(name: str) -> float:
    """Seconds for an answer: few where none comes, and else more than a busy machine takes."""
    return 1.0 if name in {"hangs", "trickles"} else 30.0


def _sent(peer: socket.socket, head: str, body: str) -> None:
    peer.sendall(f"{head}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode())


def _until_closed(peer: socket.socket) -> None:
    while peer.recv(65536):
        pass


def _whole_request(peer: socket.socket) -> bytes:
    asked = b""
    while piece := peer.recv(65536):
        asked += piece
        head, _, body = asked.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        if asked != head and len(body) >= (int(length[1]) if length else 0):
            break
    return asked


def _trickle(peer: socket.socket) -> None:
    peer.sendall(f"{OK.replace('application/json', 'text/event-stream')}\r\n".encode())
    peer.settimeout(0.01)
    while True:
        peer.sendall(b": still here\n\n")
        try:
            if not peer.recv(65536):
                return
        except TimeoutError:
            continue


@contextmanager
def misbehaving(behave: Callable[[socket.socket, bytes], None]) -> Iterator[str]:
    def serve(peer: socket.socket) -> None:
        with peer:
            try:
                behave(peer, _whole_request(peer))
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(peer,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


LISTED = '{"items": []}'
MADE = '{"id": "brn_1"}'


def after_it_is_known(behave: Callable[[socket.socket], None]) -> Callable[[socket.socket, bytes], None]:
    """A platform that lists and makes brains as it should, and misbehaves otherwise."""

    def serve(peer: socket.socket, asked: bytes) -> None:
        if asked.startswith(b"GET /v1/brains HTTP"):
            _sent(peer, OK.strip(), LISTED)
        elif asked.startswith(b"POST /v1/brains HTTP"):
            _sent(peer, OK.strip().replace("200 OK", "201 Created"), MADE)
        else:
            behave(peer)

    return serve


@pytest.mark.parametrize("name", BEHAVIOURS)
@pytest.mark.sampled(3)
@pytest.mark.few(6)
def test_a_platform_that_misbehaves_ends_with_a_card(name: str) -> None:
    some = case.selected(case.load(), ["http/documents/put*", "http/ask"])
    with misbehaving(after_it_is_known(BEHAVIOURS[name])) as url:
        done = check(url, some, seconds=patience(name))
    assert len(done.results) == len([one for one in some if one.speaks(done.target.dialect)])
    assert [r for r in done.results if not r.is_wrong] == []
    report = Report(done)
    assert not report.holds
    assert "The contract is not kept" in report.text()
    assert "Traceback" not in report.text()
    assert json.loads(as_json(report))["holds"] is False


@pytest.mark.parametrize("name", sorted(BEHAVIOURS.keys() - {"sends more than it promised"}))
@pytest.mark.sampled(3)
def test_what_is_no_platform_is_one_sentence(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with misbehaving(lambda peer, _asked: BEHAVIOURS[name](peer)) as url:
        assert main(["check", "--http", url, "--timeout", str(patience(name))]) == 2
        told = capsys.readouterr().out
        assert told.startswith(f"{url} is no platform: GET /v1/brains")
        assert told.endswith(".\nNo case was run, so nothing is known of the contract here.\n")
        assert main(["check", "--http", url, "--timeout", str(patience(name)), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["holds"] is False


def test_a_platform_that_wants_another_token_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with reference_app() as app, served(app) as url:
        assert main(["record", "--http", url, "--token", "wrong"]) == 2
    assert capsys.readouterr().out.startswith(f"{url} wants another token: GET /v1/brains answered 403")


def test_nobody_there_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    with pytest.raises(Unchecked, match=f"nobody is at {url}: there was no connection"):
        check(url, case.load())


def test_a_run_without_a_case_is_no_success() -> None:
    with reference_app() as app, pytest.raises(Unchecked, match="and none of the 1 cases that were chosen is about"):
        check_app(app, [case_of(PUT_AND_READ, dialect="daemon")])


def test_an_endless_stream_is_left_after_the_events_that_were_asked_for() -> None:
    async def endless(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for number in range(200):
            body = f"event: tick\ndata: {number}\n\n".encode()
            await send({"type": "http.response.body", "body": body, "more_body": number < 199})

    steps = """
- request: {method: GET, path: /ticks, take: 3}
  expect: {status: 200, sse: [{event: tick, count: some, data: {any: integer}}]}
"""
    assert only(check_app(knowable(endless), [case_of(steps, brain="none")])).outcome == "passed"
