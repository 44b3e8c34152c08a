"""The direct path and FastMCP's: nobody can tell from an answer which one it came by."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult, ToolAnnotations
from starlette.types import ASGIApp, Message

from gateway.http import direct
from gateway.http.endpoint import Door, HttpOptions, Mount, endpoint
from gateway.mcp.request import INCOMING, idempotency_key
from gateway.mcp.result import Result
from gateway.mcp.run import tools_of
from gateway.mcp.sdk import server_of
from gateway.mcp.surface import Surface
from gateway.mcp.tool import Input, ToolSpec, tool
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from tests.tiers import by_tier
from tests.twin import answer_of

MODERN = "2026-07-28"
REVISIONS = (MODERN, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", None)
Headers = list[tuple[str, str]]


class EchoInput(Input):
    text: str = ""
    number: float | None = None
    data: dict[str, Any] | None = None


def spec(name: str) -> ToolSpec:
    return ToolSpec(name, name, name, None, ToolAnnotations(read_only_hint=True))


class Echo(Surface):
    """Tools that need no brain: what they answer is known from the call alone."""

    name = "echo"
    instructions = "Say something."
    waiting: asyncio.Event
    begun: asyncio.Event

    @tool(spec("echo"))
    async def echo(self, args: EchoInput, call: Call) -> Result:
        incoming = INCOMING.get()
        caller = [call.caller.partition, call.caller.preferred, call.caller.project, call.caller.in_url]
        said = {"revision": incoming.revision, "client": incoming.client_name, "caller": caller}
        return Result(args.text, {**said, **args.model_dump(), "key": idempotency_key()}, full=args.text or None)

    @tool(spec("text"))
    async def text(self, args: EchoInput, call: Call) -> Result:
        return Result(args.text)

    @tool(spec("fail"))
    async def fail(self, args: EchoInput, call: Call) -> Result:
        raise GatewayError("not_found", args.text or "It is not there.")

    @tool(spec("crash"))
    async def crash(self, args: EchoInput, call: Call) -> Result:
        raise ValueError(args.text)

    @tool(spec("report"))
    async def report(self, args: EchoInput, call: Call) -> Result:
        for place, word in enumerate(args.text.split()):
            await INCOMING.get().report(place, word)
        return Result("done")

    @tool(spec("question"))
    async def question(self, args: EchoInput, call: Call) -> Result | InputRequiredResult:
        incoming = INCOMING.get()
        if incoming.revision != MODERN or incoming.capabilities is None or incoming.capabilities.elicitation is None:
            return Result("nobody to ask")
        form = ElicitRequestFormParams(message="Which?", requested_schema={"type": "object", "properties": {}})
        return InputRequiredResult(input_requests={"which": ElicitRequest(params=form)})

    @tool(spec("wait"))
    async def wait(self, args: EchoInput, call: Call) -> Result:
        self.begun.set()
        try:
            await self.waiting.wait()
        except asyncio.CancelledError:
            self.waiting.set()
            raise
        return Result("waited")


@asynccontextmanager
async def _running() -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def started(*, is_direct: bool, surface: Surface | None = None) -> AsyncIterator[ASGIApp]:
    surface = surface or Echo(None)  # type: ignore[arg-type]  # its tools ask nothing of a brain
    server = server_of(surface, tools_of(surface), "1.0", None)
    app = endpoint({"echo": Mount(server)}, _running, HttpOptions(max_body=1_000_000, direct=is_direct), Door())
    messages: asyncio.Queue[Message] = asyncio.Queue()
    said: asyncio.Queue[Message] = asyncio.Queue()
    living = asyncio.ensure_future(app({"type": "lifespan", "asgi": {"version": "3.0"}}, messages.get, said.put))
    await messages.put({"type": "lifespan.startup"})
    assert (await said.get())["type"] == "lifespan.startup.complete"
    try:
        yield app
    finally:
        await messages.put({"type": "lifespan.shutdown"})
        await living


async def exchange(app: ASGIApp, headers: Headers, body: bytes, left: asyncio.Event | None = None) -> tuple[Any, ...]:
    """Status, headers and messages of the answer to one POST. The client stays until it has it, or until it is left."""
    said: list[Message] = []
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if parts:
            return parts.pop()
        await (left or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        said.append(message)

    # Under the client's own id: one of ours would be another one each time.
    named = [*headers, ("x-request-id", "compared")]
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in named]
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http"}
    where = {"path": "/mcp", "raw_path": b"/mcp", "query_string": b"", "root_path": "", "headers": raw}
    await app({**scope, **where, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000), "state": {}}, receive, send)
    if not said:
        return (None,)
    status, told, answer, goes_on = answer_of(said)
    return status, told, answer, goes_on


def request(revision: str | None, name: str = "echo", **more: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Body and headers of a plain call."""
    meta: dict[str, Any] = {}
    headers = {
        "host": "127.0.0.1:8000",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
    }
    if revision is not None:
        headers["mcp-protocol-version"] = revision
    if revision == MODERN:
        headers |= {"mcp-method": "tools/call", "mcp-name": name}
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
        }
    params = {"name": name, "arguments": {"text": "hello"}, "_meta": meta, **more}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
IDS: st.SearchStrategy[Any] = (
    st.sampled_from([0, -1, 2**53, 2**63, 10**30, 1.0, 1.5, True, None, "", "a", "1", "é😀", "x" * 2000, [], {}]) | JSON
)
ENVELOPE = "io.modelcontextprotocol/"
# A place in a request -> what may be put there.
MUTATIONS: dict[tuple[str, ...], st.SearchStrategy[Any]] = {
    ("jsonrpc",): st.sampled_from(["2.0", "1.0", 2.0, 2, None]),
    ("id",): IDS,
    ("method",): st.sampled_from(["tools/call", "tools/list", "Tools/call", "tools/call ", "ping", "", None, 1]),
    ("extra",): JSON,
    ("params",): st.sampled_from([None, [], {}, "x"]),
    ("params", "name"): st.sampled_from(
        ["echo", "text", "fail", "crash", "report", "question", "nope", "", "Echo", "echo ", None, 1, ["echo"]]
    ),
    ("params", "arguments"): JSON | st.dictionaries(st.sampled_from(["text", "number", "data", "other"]), JSON),
    ("params", "arguments", "text"): JSON,
    ("params", "arguments", "number"): st.integers() | st.floats() | st.sampled_from([1e400, -0.0, 1.0, 10**400]),
    ("params", "arguments", "data"): JSON,
    ("params", "inputResponses"): st.sampled_from([None, {}, {"which": {"action": "accept", "content": {}}}, 1]),
    ("params", "requestState"): st.sampled_from([None, "", "x"]),
    ("params", "task"): JSON,
    ("params", "_meta"): JSON,
    ("params", "_meta", "progressToken"): IDS,
    ("params", "_meta", "brains/idempotencyKey"): st.sampled_from(["key-1", "a b", "", None, 1, "x" * 300]),
    ("params", "_meta", "traceparent"): st.text(max_size=8),
    ("params", "_meta", "fastmcp"): st.sampled_from([{}, {"version": "1"}, None, 1]),
    ("params", "_meta", ENVELOPE + "protocolVersion"): st.sampled_from([MODERN, "2025-11-25", "", None, 1]),
    ("params", "_meta", ENVELOPE + "clientCapabilities"): st.sampled_from(
        [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}, {"roots": 1}, {"sampling": {}}, None, [], 1]
    ),
    ("params", "_meta", ENVELOPE + "clientInfo"): st.sampled_from(
        [{"name": "n", "version": "2"}, {"name": "n"}, {"name": 1, "version": "2"}, {}, None, "x"]
    ),
    ("params", "_meta", ENVELOPE + "logLevel"): st.sampled_from(["debug", "loud", None, 1]),
    ("params", "_meta", "other"): JSON,
}
HEADERS: dict[str, st.SearchStrategy[str]] = {
    "accept": st.sampled_from(
        [
            "",
            "*/*",
            "application/json",
            "text/event-stream",
            "application/*, text/*",
            "application/json;q=0.9,text/event-stream;q=0.1",
            "APPLICATION/JSON, TEXT/EVENT-STREAM",
            "application/json text/event-stream",
        ]
    ),
    "content-type": st.sampled_from(
        [
            "",
            "text/plain",
            "application/json; charset=utf-8",
            "APPLICATION/JSON",
            "application/jsonx",
            "a, application/json",
        ]
    ),
    "mcp-protocol-version": st.sampled_from([*filter(None, REVISIONS), "2025-11-05", "1999-01-01", "", "2026-07-28 "]),
    "mcp-method": st.sampled_from(["tools/call", "tools/list", "", "TOOLS/CALL"]),
    "mcp-name": st.sampled_from(["echo", "text", "", "=?base64?ZWNobw==?=", "=?base64?!?=", "Echo"]),
    "mcp-param-text": st.sampled_from(["hello", "x", ""]),
    "mcp-session-id": st.sampled_from(["x", ""]),
    "x-brain": st.sampled_from(["main", "", "é"]),
    "x-project": st.sampled_from(["p", ""]),
    "last-event-id": st.just("1"),
}
SPELLINGS = (
    "plain",
    "escaped",
    "pretty",
    "bom",
    "utf-16",
    "cut",
    "more",
    "twice",
    "batch",
    "latin-1",
    "surrogate",
    "nan",
)


def _put(body: dict[str, Any], place: tuple[str, ...], value: Any) -> None:
    holder: Any = body
    for step in place[:-1]:
        holder = holder.get(step) if isinstance(holder, dict) else None
    if isinstance(holder, dict):
        holder[place[-1]] = value


def _remove(body: dict[str, Any], place: tuple[str, ...]) -> None:
    holder: Any = body
    for step in place[:-1]:
        holder = holder.get(step) if isinstance(holder, dict) else None
    if isinstance(holder, dict):
        holder.pop(place[-1], None)


def _spelled(body: Any, spelling: str) -> bytes:
    text = json.dumps(body, ensure_ascii=spelling == "escaped", indent=1 if spelling == "pretty" else None)
    match spelling:
        case "bom":
            return b"\xef\xbb\xbf" + text.encode(errors="replace")
        case "utf-16":
            return text.encode("utf-16", errors="replace")
        case "cut":
            return text.encode(errors="replace")[:-1]
        case "more":
            return text.encode(errors="replace") + b"{}"
        case "twice":
            return text.replace('"id":', '"id": 7, "id":', 1).encode(errors="replace")
        case "batch":
            return f"[{text}]".encode(errors="replace")
        case "latin-1":
            return text.encode("latin-1", errors="replace")
        case "surrogate":
            return text.replace("hello", "\\ud800").encode(errors="replace")
        case "nan":
            return text.replace('"hello"', '"x", "number": NaN').encode(errors="replace")
    return text.encode(errors="replace")


@st.composite
def requests(draw: st.DrawFn) -> tuple[Headers, bytes]:
    revision = draw(st.sampled_from(REVISIONS))
    body, headers = request(revision, draw(st.sampled_from(["echo", "text", "fail", "crash", "report", "question"])))
    body = deepcopy(body)
    for place in draw(st.lists(st.sampled_from(sorted(MUTATIONS)), max_size=3)):
        if draw(st.booleans()):
            _put(body, place, draw(MUTATIONS[place]))
        else:
            _remove(body, place)
    listed = list(headers.items())
    for name in draw(st.lists(st.sampled_from(sorted(HEADERS)), max_size=2)):
        how = draw(st.sampled_from(["set", "add", "remove"]))
        if how != "add":
            listed = [(other, value) for other, value in listed if other != name]
        if how != "remove":
            listed.append((name, draw(HEADERS[name])))
    spelling = draw(st.just("plain") | st.sampled_from(SPELLINGS))
    return listed, _spelled(body, spelling)


@pytest.fixture(scope="module")
def loop() -> Any:
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture(scope="module")
def both(loop: asyncio.AbstractEventLoop) -> Any:
    """The same server twice: with the direct path, and without."""
    contexts = [started(is_direct=True), started(is_direct=False)]
    stop = asyncio.Event()
    apps: list[ASGIApp] = []

    async def hold(context: Any, ready: asyncio.Event) -> None:
        async with context as app:
            apps.append(app)
            ready.set()
            await stop.wait()

    tasks = []
    for context in contexts:
        ready = asyncio.Event()
        tasks.append(loop.create_task(hold(context, ready)))
        loop.run_until_complete(ready.wait())
    yield apps
    stop.set()
    loop.run_until_complete(asyncio.gather(*tasks))


@pytest.mark.timeout(1800)
def test_whatever_is_sent_the_answers_are_the_same(
    both: list[ASGIApp], loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, tried = answered_directly(monkeypatch), 0

    @settings(max_examples=by_tier(100, 300, 10_000))
    @given(requests())
    def play(sent: tuple[Headers, bytes]) -> None:
        nonlocal tried
        tried += 1
        ours, theirs = (loop.run_until_complete(asyncio.wait_for(exchange(app, *sent), 60)) for app in both)
        assert ours == theirs

    play()
    # Or nothing would be compared: what the direct path hands on is answered by the same code.
    assert len(names) > tried / 6


def answered_directly(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tools of the calls that take the direct path from now on."""
    names: list[str] = []
    answer = direct.Direct._answer

    async def note(self: direct.Direct, call: direct.ToolCall, *rest: Any) -> None:
        names.append(call.tool.name)
        await answer(self, call, *rest)

    monkeypatch.setattr(direct.Direct, "_answer", note)
    return names


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_plain_call_is_answered_past_fastmcp(revision: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    names = answered_directly(monkeypatch)
    body, headers = request(revision)
    async with started(is_direct=True) as app:
        status, *_ = await exchange(app, list(headers.items()), json.dumps(body).encode())
    async with started(is_direct=False) as app:
        await exchange(app, list(headers.items()), json.dumps(body).encode())
    assert (status, names) == (200, ["echo"])


async def test_a_client_that_says_much_of_itself_is_left_to_fastmcp(monkeypatch: pytest.MonkeyPatch) -> None:
    names = answered_directly(monkeypatch)
    body, headers = request(MODERN)
    body["params"]["_meta"][ENVELOPE + "clientInfo"]["name"] = "x" * 100_000
    async with started(is_direct=True) as app:
        status, *_ = await exchange(app, list(headers.items()), json.dumps(body).encode())
    assert (status, names) == (200, [])


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("token", [7, "seven", None])
async def test_what_is_reported_is_the_same(revision: str | None, token: int | str | None) -> None:
    body, headers = request(revision, "report", arguments={"text": "one two three"})
    if token is not None:
        body["params"]["_meta"]["progressToken"] = token
    answers = []
    for is_direct in (True, False):
        async with started(is_direct=is_direct) as app:
            answers.append(await exchange(app, list(headers.items()), json.dumps(body).encode()))
    assert answers[0] == answers[1]
    assert len(json.dumps(answers[0][2]).split("notifications/progress")) == (1 if token is None else 4)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("is_direct", [True, False])
async def test_if_a_client_disconnects_its_call_is_cancelled(revision: str | None, is_direct: bool) -> None:
    surface = Echo(None)  # type: ignore[arg-type]
    surface.begun, surface.waiting, left = asyncio.Event(), asyncio.Event(), asyncio.Event()
    body, headers = request(revision, "wait")
    async with started(is_direct=is_direct, surface=surface) as app:
        answer = asyncio.ensure_future(exchange(app, list(headers.items()), json.dumps(body).encode(), left))
        await asyncio.wait_for(surface.begun.wait(), 10)
        left.set()
        await asyncio.wait_for(answer, 10)
        # Only the cancellation sets it.
        await asyncio.wait_for(surface.waiting.wait(), 10)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_call_that_takes_long_keeps_its_connection_alive(
    revision: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "KEEP_ALIVE_SECONDS", 0.01)
    surface = Echo(None)  # type: ignore[arg-type]
    surface.begun, surface.waiting = asyncio.Event(), asyncio.Event()
    body, headers = request(revision, "wait")
    pings: list[bytes] = []

    async with started(is_direct=True, surface=surface) as app:

        async def watched(scope: Any, receive: Any, send: Any) -> None:
            async def note(message: Message) -> None:
                if message.get("body", b"").startswith(b":"):
                    pings.append(message["body"])
                    if len(pings) == 3:
                        surface.waiting.set()
                await send(message)

            await app(scope, receive, note)

        status, told, events, goes_on = await asyncio.wait_for(
            exchange(watched, list(headers.items()), json.dumps(body).encode()), 10
        )
    assert pings[:3] == [b": ping\r\n\r\n"] * 3
    assert (status, told[b"content-type"], goes_on) == (200, b"text/event-stream", False)
    assert events[-2]["result"]["content"] == [{"type": "text", "text": "waited"}]


async def test_a_call_is_cancelled_from_outside_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    surface = Echo(None)  # type: ignore[arg-type]
    surface.begun, surface.waiting = asyncio.Event(), asyncio.Event()
    body, headers = request(MODERN, "wait")
    async with started(is_direct=True, surface=surface) as app:
        answer = asyncio.ensure_future(exchange(app, list(headers.items()), json.dumps(body).encode()))
        await asyncio.wait_for(surface.begun.wait(), 10)
        answer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answer


async def test_a_call_leaves_nothing_that_only_the_collector_finds() -> None:
    body, headers = request(MODERN)
    async with started(is_direct=True) as app:
        sent = [*headers.items()], json.dumps(body).encode()
        await exchange(app, *sent)
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                await asyncio.ensure_future(exchange(app, *sent))
            assert gc.collect() == 0
        finally:
            gc.enable()
