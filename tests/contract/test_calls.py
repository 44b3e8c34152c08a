"""How calls are made and judged: replies, progress, and servers that do not behave."""

import asyncio
import json
import shlex
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from contract import case, judge_call, pipe
from contract.call import CallCase, CallExpect
from contract.command import main
from contract.machines import as_json
from contract.mcp_target import McpTarget
from contract.outcome import Run, Unchecked
from contract.pipe import PipeSession
from contract.report import Report
from contract.rpc import HANDSHAKE, MODERN, Reply
from tests.contract.servers import check_calls, check_command
from tests.contract.test_runner import BEHAVIOURS, misbehaving, patience
from tests.served import listening

SEARCH = """
- call: memory_search
  with: {query: tea}
  expect: {structured: {hits: []}}
"""


def case_of(steps: str, **more: Any) -> CallCase:
    """A case with these steps, in YAML."""
    head = {"id": "mcp/memory/test/case", "what": "A case of a test.", "requirement": "must", "source": "spec/none"}
    return CallCase.model_validate({**head, "brain": "none", "steps": yaml.safe_load(steps), **more})


def reply(structured: Any = None, text: str = "done", *, is_error: bool = False, progress: Sequence[Any] = ()) -> Reply:
    result = {"content": [{"type": "text", "text": text}], "structuredContent": structured, "isError": is_error}
    return Reply(result, None, tuple(progress), "the token")


def told(number: Any = 0, message: str = "tea", token: Any = "the token", **more: Any) -> dict[str, Any]:
    return {"progressToken": token, "progress": number, "message": message, **more}


JUDGED: list[tuple[dict[str, Any], Reply, str]] = [
    ({}, reply(is_error=True), "the call should succeed, and is an error"),
    ({}, Reply(None, {"code": -32602, "message": "no"}), "there should be a result, and not an error of the protocol"),
    ({"refused": True}, reply(), "the call should be refused, and was not"),
    ({"error": True}, reply(), "the result should be an error (isError), and is none"),
    (
        {"error": True},
        Reply(None, {"code": 1, "message": "no"}),
        "there should be a result, and not an",
    ),
    (
        {"error": "no_brain"},
        reply(text="forbidden: no", is_error=True),
        "the text should name the code no_brain",
    ),
    ({"structured": {"a": 1}}, reply({"a": 2}), "structuredContent.a should be 1, not 2"),
    ({"text": {"match": "tea"}}, reply(text="coffee"), "the text"),
    ({"tells": ["structured.a"]}, reply({"a": "tea"}, "coffee"), 'the text should tell structured.a, "tea", and is'),
    ({"tells": ["structured.a"]}, reply({}), "there is no structured.a for the text to tell"),
    ({"tells": ["structured.a?"]}, reply({"a": 1}), "the text should tell structured.a, 1, and is"),
    ({"json": {"a": 1}}, reply(text="tea"), "the text should be JSON, and is"),
    ({"json": {"a": 1}}, reply(text='{"a": 2}'), "json.a should be 1, not 2"),
    ({"result": {"tools": []}}, reply(), "the result"),
    ({"progress": ["none"]}, reply(progress=[told()]), "there should be no progress, and there were 1"),
    ({"progress": ["bears_the_token"]}, reply(), "there should be progress, and there was none"),
    ({"progress": ["bears_the_token"]}, reply(progress=[told(token=1)]), 'the token should be "the token", and is 1'),
    ({"progress": ["counts_by_one"]}, reply(progress=[told(1)]), "progress should begin at 0 and grow by 1"),
    ({"progress": ["counts_by_one"]}, reply(progress=[told(0.5)]), "progress should be whole numbers"),
    ({"progress": ["counts_by_one"]}, reply(progress=[told("0")]), "progress should be whole numbers"),
    ({"progress": ["has_no_total"]}, reply(progress=[told(total=3)]), "progress should have no total"),
    ({"progress": ["makes_the_answer"]}, reply({"answer": "coffee"}, progress=[told()]), "the messages joined should"),
]
GOOD: list[tuple[dict[str, Any], Reply]] = [
    ({"progress": ["counts_by_one"]}, reply(progress=[told(0.0), told(1.0)])),
    ({"refused": True}, Reply(None, {"code": -32602, "message": "no"})),
    ({"refused": True}, reply(is_error=True)),
    ({"tells": ["structured.a.0.b", "structured.c?"]}, reply({"a": [{"b": "tea"}]}, "some tea")),
    ({"error": ["no_brain", "not_found"]}, reply(text="not_found: it is not there", is_error=True)),
    (
        {"progress": ["bears_the_token", "counts_by_one", "has_no_total", "makes_the_answer"]},
        reply({"answer": "tea and milk"}, progress=[told(0, "tea"), told(1, " and milk")]),
    ),
]


@pytest.mark.parametrize(("expect", "seen", "sentence"), JUDGED)
def test_what_is_otherwise_than_expected_is_a_sentence(expect: dict[str, Any], seen: Reply, sentence: str) -> None:
    (fault,) = judge_call.faults(CallExpect.model_validate(expect), seen)
    assert fault.startswith(sentence)


@pytest.mark.parametrize(("expect", "seen"), GOOD)
def test_what_is_as_expected_is_no_fault(expect: dict[str, Any], seen: Reply) -> None:
    assert judge_call.faults(CallExpect.model_validate(expect), seen) == []


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ("[{expect: {}}]", "should have either a call or a request"),
        ("[{call: a, request: {method: tools/list}, expect: {}}]", "should have either a call or a request"),
        ("[{request: {method: tools/list}, with: {a: 1}, expect: {}}]", "with, meta and progress are for calls"),
        ("[{call: a, expect: {progress: [sometimes]}}]", "Input should be"),
        ("[{call: a, expect: {stuctured: {}}}]", "Extra inputs are not permitted"),
    ],
)
def test_a_case_that_says_nothing_sensible_is_refused(steps: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        case_of(steps)


def test_files_need_a_folder() -> None:
    with pytest.raises(ValueError, match="say needs: folder"):
        case_of(SEARCH, files={"a.md": {"text": "tea"}})


# --- servers that do not behave


def has_a_card(done: Run[Any], cases: int) -> None:
    report = Report(done)
    assert len(done.results) == cases
    assert all(one.is_wrong for one in done.results)
    assert "The contract is not kept" in report.text()
    assert "Traceback" not in report.text()
    assert json.loads(as_json(report))["holds"] is False


def after_it_is_known(behave: Callable[[socket.socket], None]) -> Callable[[socket.socket, bytes], None]:
    """A server that tells of its tools as it should, and misbehaves when they are called."""

    def serve(peer: socket.socket, asked: bytes) -> None:
        if b'"tools/call"' in asked:
            behave(peer)
            return
        message = json.loads(asked.partition(b"\r\n\r\n")[2])
        tools = [{"name": "memory_search", "inputSchema": {"type": "object"}}]
        body = json.dumps(
            {"jsonrpc": "2.0", "id": message["id"], "result": {"tools": tools, "protocolVersion": HANDSHAKE}}
        )
        head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close"
        peer.sendall(f"{head}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())

    return serve


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_a_server_that_misbehaves_ends_with_a_card(name: str) -> None:
    with misbehaving(after_it_is_known(BEHAVIOURS[name])) as url:
        has_a_card(check_calls(url, [case_of(SEARCH)] * 3, seconds=patience(name)), 3)


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_what_is_no_server_is_one_sentence(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with misbehaving(lambda peer, _asked: BEHAVIOURS[name](peer)) as url:
        assert main(["check", "--mcp", url, "--timeout", str(patience(name))]) == 2
    told = capsys.readouterr().out
    assert told.startswith(f"{url} is no server of MCP, or lets nobody in: ")
    assert told.endswith(".\nNo case was run, so nothing is known of the contract here.\n")


HELLO = """
import json, sys
def say(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    number, method = asked.get("id"), asked["method"]
    if method == "initialize":
        say(id=number, result={"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x"}})
    elif method == "tools/list":
        say(id=number, result={"tools": [{"name": "memory_search", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        CALLED
    elif number is not None:
        say(id=number, error={"code": -32601, "message": "no such method"})
"""
NO_SERVERS = {
    "ends at once": ("import sys; sys.exit(3)", "the command ended with status 3"),
    "says something else and ends": ("print('welcome')", "the command ended with status 0, and said: welcome"),
    "complains and ends": ("import sys; sys.exit('boom')", "the command ended with status 1, and said: boom"),
    "never answers": ("import sys; sys.stdin.read()", "there was no answer within 1 seconds"),
    "talks for ever": (
        "import itertools\nfor n in itertools.count(): print('tea' * 99)",
        "there was no answer within 1 seconds",
    ),
}
COMMANDS = {
    "answers no JSON": HELLO.replace("CALLED", "print('tea', flush=True)"),
    "answers a list": HELLO.replace("CALLED", "print('[1]', flush=True)"),
    "answers deep JSON": HELLO.replace("CALLED", "print('[' * 100_000, flush=True)"),
    "answers neither result nor error": HELLO.replace("CALLED", "say(id=number)"),
    "ends when it is called": HELLO.replace("CALLED", "sys.exit('out of tea')"),
    "hangs when it is called": HELLO.replace("CALLED", "pass"),
    "answers others": HELLO.replace("CALLED", "say(id=12345, result={})"),
}


def command_of(program: str) -> str:
    return f"{sys.executable} -c {shlex.quote(program)}"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe, "GRACE_SECONDS", 0.2)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_misbehaves_ends_with_a_card(name: str) -> None:
    has_a_card(check_command(command_of(COMMANDS[name]), [case_of(SEARCH)] * 3, seconds=1), 3)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", NO_SERVERS)
def test_a_command_that_is_no_server_is_one_sentence(name: str) -> None:
    program, sentence = NO_SERVERS[name]
    with pytest.raises(Unchecked, match=f"is no server of MCP, or lets nobody in: {sentence}"):
        check_command(command_of(program), [case_of(SEARCH)], seconds=1)


def test_the_last_words_of_a_command_are_told() -> None:
    (result,) = check_command(command_of(COMMANDS["ends when it is called"]), [case_of(SEARCH)]).results
    assert result.failure is not None
    assert result.failure.request == 'memory_search {"query": "tea"}'
    assert result.failure.seen == "the command ended with status 1, and said: out of tea"


def test_nobody_there_is_one_sentence() -> None:
    with pytest.raises(Unchecked, match="nobody is at no-such-program: the command cannot be started"):
        check_command("no-such-program", [case_of(SEARCH)])
    with pytest.raises(Unchecked, match=r"nobody is at http://127\.0\.0\.1:9/mcp: there was no connection"):
        check_calls("http://127.0.0.1:9/mcp", [case_of(SEARCH)])


@pytest.mark.usefixtures("impatient")
def test_a_command_is_gone_afterwards_even_if_it_does_not_listen() -> None:
    deaf = "import signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"

    async def opened_and_closed() -> int | None:
        session = PipeSession(command_of(f"{deaf}{HELLO.replace('CALLED', 'pass')}\ntime.sleep(600)"))
        await session.open()
        await session.close()
        assert session._process is not None
        return session._process.returncode

    assert asyncio.run(opened_and_closed()) is not None


# --- servers of either era


def small_server(*, modern: bool, tools: list[str]) -> Starlette:
    """Just enough of a server, in one era, with JSON alone."""

    async def answer(request: Request) -> Response:
        asked = await request.json()
        if "id" not in asked:
            return Response(status_code=202)
        method, is_modern = asked["method"], request.headers.get("mcp-protocol-version") == MODERN
        head = {"jsonrpc": "2.0", "id": asked["id"]}
        if is_modern != modern:
            return JSONResponse({**head, "error": {"code": -32600, "message": "no such version"}}, 400)
        if method in ("initialize", "server/discover"):
            return JSONResponse({**head, "result": {"protocolVersion": HANDSHAKE}})
        if method == "tools/list":
            listed = [{"name": name, "inputSchema": {"type": "object"}} for name in tools]
            return JSONResponse({**head, "result": {"tools": listed}})
        if modern and request.headers["mcp-name"] != asked["params"]["name"]:
            return JSONResponse({**head, "error": {"code": -32020, "message": "no such header"}}, 400)
        return JSONResponse({**head, "result": {"content": [], "structuredContent": {"hits": []}}})

    return Starlette(routes=[Route("/mcp", answer, methods=["POST"])])


@pytest.mark.parametrize(("modern", "version"), [(True, MODERN), (False, HANDSHAKE)])
def test_the_newest_revision_that_both_know_is_spoken(modern: bool, version: str) -> None:
    with listening(small_server(modern=modern, tools=["memory_search"])) as url:
        done = check_calls(f"{url}/mcp", [case_of(SEARCH)])
        assert [one.outcome for one in done.results] == ["passed"]
        assert done.target.session.version == version
        with pytest.raises(Unchecked, match="no such version"):
            check_calls(f"{url}/mcp", [case_of(SEARCH)], wire=HANDSHAKE if modern else MODERN)


def test_a_case_of_a_tool_that_is_missing_is_not_supported() -> None:
    with listening(small_server(modern=True, tools=["memory_ask"])) as url:
        (result,) = check_calls(f"{url}/mcp", [case_of(SEARCH)]).results
    assert (result.outcome, result.why) == ("not supported", "the server has no tool memory_search")


def test_a_server_of_other_tools_is_one_sentence() -> None:
    sentence = "has none of the tools of the contract, but make_tea"
    with (
        listening(small_server(modern=True, tools=["make_tea"])) as url,
        pytest.raises(Unchecked, match=sentence),
    ):
        check_calls(f"{url}/mcp", case.load_calls())


def test_every_brain_that_a_run_made_is_named() -> None:
    """Also those that a case makes itself: no tool deletes one."""
    target = McpTarget("a server", PipeSession("none"))
    for made in (reply({"id": "brn_1", "slug": "tea"}), reply({"id": "brn_2"}), reply({}), reply(is_error=True)):
        target.remember(made)
    (told,) = target.leftovers
    assert told.startswith("Left behind: 2 brains, because no tool deletes one.")
    assert told.endswith("Also brn_2, tea.")


NO_PASSWORD = "should have no name and password in it, which reports would show: give a token instead"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--http", "http://a.test", "--wire", MODERN], "--wire means nothing with --http"),
        (["--http", "http://a.test", "--header", "X-Brain: tea"], "--header means nothing with --http"),
        (["--mcp-command", "true", "--token", "tea"], "--token means nothing with --mcp-command"),
        (["--mcp-command", " "], "--mcp-command is empty"),
        (["--mcp", "tea"], "--mcp should be an http or https URL, not 'tea'"),
        (["--mcp", "https://me:pass@a.test/mcp"], f"--mcp {NO_PASSWORD}"),
        (["--http", "ftp://me:pass@a.test"], f"--http {NO_PASSWORD}"),
    ],
)
def test_an_option_that_means_nothing_is_refused(
    options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *options]) == 2
    assert capsys.readouterr().err == f"contract: {sentence}\n"


def test_of_a_command_only_its_first_word_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--mcp-command", "true --api-key hunter2", "--json"]) == 2
    told = capsys.readouterr()
    assert json.loads(told.out)["target"] == "true"
    assert "hunter2" not in told.out + told.err


@pytest.mark.parametrize(
    "options", [["--header", "X Y: a"], ["--token", "a\nb"], ["--junit", "/no/such/folder/a.xml"], ["--folder", "/no"]]
)
def test_a_bad_option_is_refused_before_anything_is_run(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as told:
        main(["check", "--mcp", "http://a.test", *options])
    assert told.value.code == 2
    assert f"argument {options[0]}" in capsys.readouterr().err
