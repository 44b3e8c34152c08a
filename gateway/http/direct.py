"""The direct path: `tools/call` over HTTP, read and answered by ourselves.

FastMCP and the SDK handle every kind of call, which takes several times as long as the call itself. This module
handles only calls as clients usually send them. Every request that differs in any way goes to FastMCP, which stays
the server and words all refusals. `tests/gateway/http/test_direct.py` sends the same requests by both paths and
compares the answers.
"""

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from fastmcp import FastMCP
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST, ElicitResult, InputRequiredResult, InputResponses
from pydantic_core import from_json
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.mcp.request import (
    IDEMPOTENCY_KEY,
    INCOMING,
    PROGRESS_TOKEN,
    TOKEN_LENGTH,
    TRACE_CONTEXT,
    HttpRequest,
)
from gateway.mcp.run import SurfaceTool
from gateway.mcp.sdk import Client, Server, Wire, client_of, server_info_of, wire_of
from gateway.operations.json_text import write_json
from gateway.operations.shared_timer import Moment, SharedTimer
from gateway.operations.table import JsonObject

# How often a client gets a keep-alive while its call has nothing to send yet.
KEEP_ALIVE_SECONDS: Final = 15.0
# Most calls are answered sooner. Only after this time we check whether the client has left.
WATCH_SECONDS: Final = 0.05

_CALL: Final = "tools/call"
_JSON: Final = frozenset({b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8"})
_ENVELOPE: Final = 4
_PARAMS: Final = frozenset({"name", "arguments", "_meta"})
_OWN_META: Final = frozenset({PROGRESS_TOKEN, IDEMPOTENCY_KEY, *TRACE_CONTEXT})
# Beyond this, other readers of JSON do not agree on a number.
_LARGEST_ID: Final = 2**53
_LONGEST_ID: Final = 1024

_PROGRESS: Final = (
    b'event: message\r\ndata: {"jsonrpc":"2.0","method":"notifications/progress",'
    b'"params":{"progressToken":%b,"progress":%d,"message":%b}}\r\n\r\n'
)
_PING: Final = b": ping\r\n\r\n"
_JSON_HEADERS: Final = [(b"content-type", b"application/json")]
_EVENT_HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
]


class ToolCall(NamedTuple):
    """A call as it was sent."""

    id: int | str
    tool: SurfaceTool
    arguments: dict[str, Any]
    meta: Mapping[str, Any]
    client: Client


def direct_of(app: ASGIApp, server: FastMCP) -> ASGIApp:
    """A server's application, with its tools in front of it."""
    return Direct(app, server.surface_tools, server_info_of(server)) if isinstance(server, Server) else app


class Direct:
    """Answers the calls of one surface, and hands everything else on."""

    def __init__(self, app: ASGIApp, tools: Mapping[str, SurfaceTool], server_info: JsonObject) -> None:
        self._app, self._tools, self._server_info = app, tools, server_info
        self._timer = SharedTimer()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _plain_headers(scope["headers"]) if scope["method"] == "POST" else None
        wire = None if headers is None else wire_of(headers.get("mcp-protocol-version"))
        if headers is None or wire is None:
            await self._app(scope, receive, send)
            return
        # The body is whole, and no larger than it may be: `gateway/http/admission.py` has read it.
        first = await receive()
        call = self._read(first.get("body", b""), headers, wire)
        if call is None:
            await self._app(scope, _again(first, receive), send)
            return
        await self._answer(call, wire, HttpRequest(headers, scope.get("state", {})), receive, send)

    def _read(self, body: bytes, headers: Mapping[str, str], wire: Wire) -> ToolCall | None:
        """The call; None if anything in it is unusual."""
        try:
            said = from_json(body)
        except ValueError:
            return None
        match said:
            case {"jsonrpc": "2.0", "id": int() | str() as id_, "method": "tools/call", "params": dict(params)}:
                pass
            case _:
                return None
        arguments, meta = params.get("arguments", {}), params.get("_meta", {})
        tool = self._tools.get(name) if isinstance(name := params.get("name"), str) else None
        if (
            tool is None
            or len(said) != _ENVELOPE
            or not _PARAMS.issuperset(params)
            or not _is_plain_id(id_)
            or not isinstance(arguments, dict)
            or not isinstance(meta, dict)
            or not _is_plain_token(meta)
        ):
            return None
        if wire.is_modern and (headers.get("mcp-method") != _CALL or headers.get("mcp-name") != name):
            return None
        client = client_of(wire, {key: value for key, value in meta.items() if key not in _OWN_META})
        return None if client is None else ToolCall(id_, tool, arguments, meta, client)

    async def _answer(self, call: ToolCall, wire: Wire, http: HttpRequest, receive: Receive, send: Send) -> None:
        answer = _Answer(call, wire, http, send, self._timer)
        INCOMING.set(answer)
        task = asyncio.current_task()
        assert task is not None
        answer.watch(receive, task)
        try:
            said = await call.tool.call(call.arguments)
            result = wire.question(said) if isinstance(said, InputRequiredResult) else wire.result(said.as_json())
            await answer.finish(result if not wire.is_modern else {**result, "_meta": self._server_info})
        except asyncio.CancelledError:
            # A client that has left needs no answer. Any other cancellation is passed on.
            if not answer.is_left or task.uncancel():
                raise
        finally:
            answer.end()


class _Answer:
    """The answer: one document or, if there is progress before the end, events."""

    input_responses: InputResponses | None = None

    def __init__(self, call: ToolCall, wire: Wire, http: HttpRequest, send: Send, timer: SharedTimer) -> None:
        self.http, self.meta, self.revision = http, call.meta, wire.revision
        self.client_name, self.capabilities = call.client
        self._id, self._token, self._send = call.id, call.meta.get(PROGRESS_TOKEN), send
        self._is_document, self._is_begun, self.is_left = wire.is_modern, False, False
        self._timer = timer
        self._moment: Moment | None = None
        self._watching: asyncio.Future[None] | None = None
        self._pinging: asyncio.Future[None] | None = None
        # One after the other, or a keep-alive could stand before the headers.
        self._turn = asyncio.Lock()

    async def report(self, progress: int, *messages: str) -> None:
        if self._token is not None:
            # Each is an event of its own, and all are one write.
            token = write_json(self._token)
            events = [_PROGRESS % (token, place, write_json(said)) for place, said in enumerate(messages, progress)]
            await self._tell(b"".join(events))

    async def elicit(self, message: str, schema: dict[str, Any]) -> ElicitResult:
        raise MCPError(INVALID_REQUEST, "There is no way back to the client.")

    async def finish(self, result: JsonObject) -> None:
        self.end()
        message = {"jsonrpc": "2.0", "id": self._id, "result": result}
        if self._is_document and not self._is_begun:
            body = write_json(message)
            headers = [(b"content-length", str(len(body)).encode()), *_JSON_HEADERS]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._send({"type": "http.response.body", "body": body, "more_body": False})
            return
        await self._tell(_event(message), is_last=True)

    def watch(self, receive: Receive, task: "asyncio.Task[Any]") -> None:
        """Cancel the call if its client leaves, and send keep-alives to a client that waits."""
        self._loop = task.get_loop()

        def begin() -> None:
            self._watching = asyncio.ensure_future(self._wait_until_left(receive, task))
            self._keep_alive(KEEP_ALIVE_SECONDS - WATCH_SECONDS)

        self._moment = self._timer.add(self._loop, WATCH_SECONDS, begin)

    async def _wait_until_left(self, receive: Receive, task: "asyncio.Task[Any]") -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.is_left = True
        task.cancel()

    def _keep_alive(self, seconds: float) -> None:
        self._moment = self._timer.add(self._loop, seconds, self._ping)

    def end(self) -> None:
        """End the watch: send nothing more, and wait for nothing."""
        if self._moment is not None:
            self._timer.drop(self._moment)
            self._moment = None
        for going_on in (self._watching, self._pinging):
            if going_on is not None:
                going_on.cancel()

    def _ping(self) -> None:
        self._pinging = asyncio.ensure_future(self._tell(_PING))
        self._keep_alive(KEEP_ALIVE_SECONDS)

    async def _tell(self, chunk: bytes, *, is_last: bool = False) -> None:
        async with self._turn:
            if not self._is_begun:
                await self._send({"type": "http.response.start", "status": 200, "headers": _EVENT_HEADERS})
                self._is_begun = True
            await self._send({"type": "http.response.body", "body": chunk, "more_body": not is_last})


def _plain_headers(raw: list[tuple[bytes, bytes]]) -> dict[str, str] | None:
    """The headers by name, if they are those of a call that we answer."""
    headers: dict[bytes, bytes] = {}
    for name, value in raw:
        # FastMCP knows which of two equal names counts, and how to read arguments in headers.
        if name in headers or name.startswith(b"mcp-param-"):
            return None
        headers[name] = value
    if headers.get(b"content-type") not in _JSON or not _takes_both(headers.get(b"accept", b"")):
        return None
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()}


@lru_cache(maxsize=64)
def _takes_both(accept: bytes) -> bool:
    """Whether the client accepts both JSON and events."""
    kinds = {kind.partition(b";")[0].strip().lower() for kind in accept.split(b",")}
    return kinds >= {b"application/json", b"text/event-stream"} or b"*/*" in kinds


def _is_plain_id(id_: int | str) -> bool:
    if isinstance(id_, str):
        return len(id_) <= _LONGEST_ID
    return not isinstance(id_, bool) and -_LARGEST_ID < id_ < _LARGEST_ID


def _is_plain_token(meta: Mapping[str, Any]) -> bool:
    if PROGRESS_TOKEN not in meta:
        return True
    token = meta[PROGRESS_TOKEN]
    return isinstance(token, int | str) and _is_plain_id(token) and len(str(token)) <= TOKEN_LENGTH


def _again(first: Message, receive: Receive) -> Receive:
    said = [first]

    async def again() -> Message:
        return said.pop() if said else await receive()

    return again


def _event(message: JsonObject) -> bytes:
    return b"event: message\r\ndata: " + write_json(message) + b"\r\n\r\n"
