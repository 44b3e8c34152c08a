"""All uses of private parts of FastMCP and the MCP SDK, each with its reason.

The versions are bounded in `pyproject.toml`: a newer one is tried before it is allowed.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from anyio import create_memory_object_stream, create_task_group
from fastmcp import FastMCP
from fastmcp.server.context import Context
from fastmcp.server.http import HostOriginGuardMiddleware, StreamableHTTPASGIApp
from fastmcp.tools import Tool
from fastmcp.utilities.versions import VersionSpec
from mcp.server.connection import Connection
from mcp.server.request_state import RequestStateSecurity
from mcp.shared.message import SessionMessage
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    DEFAULT_NEGOTIATED_VERSION,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    ClientCapabilities,
    InputRequiredResult,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    methods,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from sse_starlette.sse import AppStatus
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.mcp.request import INCOMING, ReadByFastMCP, check_progress_token, current_caller
from gateway.mcp.result import Result
from gateway.mcp.run import SurfaceTool
from gateway.mcp.surface import Surface
from gateway.operations.caller import Principal
from gateway.operations.json_text import write_json
from gateway.operations.observer import Observer
from gateway.operations.table import JsonObject

IsAnswered = Callable[[Any], bool]

# A revision that MemoAI's clients name, but that was never published. The newest older one is used instead.
_REVISIONS: Final = {b"2025-11-05": b"2025-06-18"}
_REVISION_HEADER: Final = b"mcp-protocol-version"


class Server(FastMCP):
    """Lists the tools that a caller may use. The others can be called too, and then say which scope is missing."""

    surface_tools: Mapping[str, SurfaceTool] = MappingProxyType({})
    hidden: frozenset[str] = frozenset()
    """Tools that are never listed. A call to one says why."""
    tell_unknown: Callable[[], None] = staticmethod(lambda: None)
    """Tells the observer of a call to a tool that does not exist."""

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        version: VersionSpec | None = None,
        run_middleware: bool = True,
    ) -> Any:
        """Finds a surface's tool directly, without middleware, providers and versions.

        FastMCP passes on a result that is not a `ToolResult` as it is, and the SDK sends it in that form.
        """
        tool = self.surface_tools.get(name)
        if tool is None and run_middleware:
            # Without middleware, this is the inner half of a call that has been told already.
            self.tell_unknown()
        if tool is None or version is not None:
            return await super().call_tool(name, arguments, version=version, run_middleware=run_middleware)
        async with Context(fastmcp=self) as context:
            incoming = ReadByFastMCP(context)
            check_progress_token(incoming.meta)
            INCOMING.set(incoming)
            said = await tool.call(arguments or {})
        return said.as_json() if isinstance(said, Result) else said

    async def list_tools(self, *, run_middleware: bool = True) -> Sequence[Tool]:
        principal = current_caller().principal
        tools = await super().list_tools(run_middleware=run_middleware)
        return [tool for tool in tools if not isinstance(tool, SurfaceTool) or self._shows(tool, principal)]

    def _shows(self, tool: SurfaceTool, principal: Principal) -> bool:
        return tool.name not in self.hidden and tool.is_shown_to(principal)


def server_of(
    surface: Surface,
    tools: Sequence[Tool],
    version: str,
    security: RequestStateSecurity | None,
    is_answered: IsAnswered | None = None,
    observer: Observer | None = None,
) -> FastMCP:
    """An MCP server for one surface, without FastMCP's detours.

    `is_answered` says for an id whether, over stdio, that request was answered before the server started. `observer`
    is told of calls to tools that do not exist.
    """
    mcp = Server(
        "brains-gateway",
        instructions=surface.named(surface.instructions),
        version=version,
        tools=tools,
        request_state_security=security,
        mask_error_details=True,
        dereference_schemas=False,
    )
    # Without this look-up the SDK runs a whole tools/list before every call on the modern wire.
    schemas = {tool.name: tool.parameters for tool in tools}
    mcp._mcp_server.get_tool_input_schema = schemas.get
    mcp.surface_tools = {tool.name: tool for tool in tools if isinstance(tool, SurfaceTool)}
    mcp.hidden = frozenset(surface.tool_prefix + name for name in surface.hidden())
    if observer is not None:
        mcp.tell_unknown = partial(observer.unknown_tool, surface.name)
    # The same service, but it accepts an `initialize` later.
    mcp._mcp_server.run = partial(_run, mcp._mcp_server.run, is_answered)  # type: ignore[method-assign]
    surface.add_to(mcp)
    return mcp


def server_info_of(mcp: FastMCP) -> JsonObject:
    """The fields that the newer wire has in `_meta` of each result."""
    return {SERVER_INFO_META_KEY: mcp._mcp_server.server_info_stamp}


async def _run(
    serve: Callable[..., Coroutine[Any, Any, None]],
    is_answered: IsAnswered | None,
    read_stream: Any,
    write_stream: Any,
    options: Any,
    **more: Any,
) -> None:
    """Serve one connection. A client that has sent only `server/discover` so far may still send `initialize`.

    For the SDK, the first request of a connection decides which protocol it speaks. But some clients probe with this
    one, wait a second, and then shake hands in the old way, while we are still starting. A second service serves them.
    """
    async with AsyncExitStack() as closing:
        closing.push_async_callback(write_stream.aclose)
        closing.push_async_callback(read_stream.aclose)
        services = await closing.enter_async_context(create_task_group())
        feed, has_only_probed = None, True
        async for message in read_stream:
            method = _requested(message)
            if feed is None or (has_only_probed and method == "initialize"):
                feed, fed = create_memory_object_stream[Any]()
                # Closed before we wait for the services, so that each ends when the client leaves.
                closing.push_async_callback(feed.aclose)
                out = write_stream.clone() if is_answered is None else _Unanswered(write_stream.clone(), is_answered)
                services.start_soon(partial(serve, fed, out, options, **more))
            has_only_probed = has_only_probed and method in (None, "server/discover")
            await feed.send(message)


class _Unanswered:
    """The SDK's output, without the answers that the client already has."""

    def __init__(self, stream: Any, is_answered: IsAnswered) -> None:
        self._stream, self._is_answered = stream, is_answered

    async def send(self, item: SessionMessage) -> None:
        if not (isinstance(item.message, JSONRPCResponse | JSONRPCError) and self._is_answered(item.message.id)):
            await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()


def _requested(message: Any) -> str | None:
    request = message.message if isinstance(message, SessionMessage) else None
    return request.method if isinstance(request, JSONRPCRequest) else None


def http_app_of(mcp: FastMCP, path: str) -> Starlette:
    """A server over Streamable HTTP, without sessions."""
    # It would end every stream as soon as we are told to stop; uvicorn gives them time first.
    AppStatus.enable_automatic_graceful_drain = False
    return mcp.http_app(path=path, stateless_http=True, json_response=False)


def name_known_revision(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of a request, with a revision that the SDK knows, because it refuses all others."""
    return [(name, _REVISIONS.get(value, value) if name == _REVISION_HEADER else value) for name, value in headers]


class Client(NamedTuple):
    """What a client says about itself."""

    name: str | None = None
    capabilities: ClientCapabilities | None = None


@dataclass(frozen=True, slots=True)
class Wire:
    """A revision of the protocol, as far as a tool call needs it."""

    revision: str
    is_modern: bool
    fields: frozenset[str]
    """The fields that a result has in this revision; our others are left out."""

    def result(self, said: JsonObject) -> JsonObject:
        return {name: value for name, value in said.items() if name in self.fields}

    def question(self, said: InputRequiredResult) -> JsonObject:
        told = said.model_dump(by_alias=True, mode="json", exclude_none=True)
        return methods.serialize_server_result(_CALL, self.revision, told)


def _wire(revision: str) -> Wire:
    everything = Result("", {}).as_json()
    fields = methods.serialize_server_result(_CALL, revision, everything).keys() & everything.keys()
    return Wire(revision, revision in MODERN_PROTOCOL_VERSIONS, frozenset(fields))


_CALL: Final = "tools/call"
_ENVELOPE: Final = frozenset({PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY})
_WIRES: Final[Mapping[str | None, Wire]] = {
    **{revision: _wire(revision) for revision in (*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS)},
    None: _wire(DEFAULT_NEGOTIATED_VERSION),
}
# All calls of a client have the same value.
_CLIENTS: Final[dict[bytes, Client | None]] = {}
_MOST_CLIENTS, _LONGEST_CLIENT = 256, 2048


def wire_of(revision: str | None) -> Wire | None:
    """The protocol revision of a request, by its header; None if the SDK does not know it."""
    return _WIRES.get(revision)


def client_of(wire: Wire, envelope: JsonObject) -> Client | None:
    """What `_meta` says about the client; None if the SDK would refuse it, or it has fields that we do not know."""
    if not wire.is_modern:
        return None if envelope else Client()
    if not envelope.keys() <= _ENVELOPE or len(said := write_json(envelope)) > _LONGEST_CLIENT:
        return None
    if said not in _CLIENTS:
        if len(_CLIENTS) >= _MOST_CLIENTS:
            _CLIENTS.clear()
        _CLIENTS[said] = _checked_client(wire, envelope)
    return _CLIENTS[said]


def _checked_client(wire: Wire, envelope: JsonObject) -> Client | None:
    if envelope.get(PROTOCOL_VERSION_META_KEY) != wire.revision or CLIENT_CAPABILITIES_META_KEY not in envelope:
        return None
    try:
        methods.validate_client_request(_CALL, wire.revision, {"name": "", "_meta": envelope})
    except ValidationError:
        return None
    known = Connection.from_envelope(
        wire.revision, envelope.get(CLIENT_INFO_META_KEY), envelope[CLIENT_CAPABILITIES_META_KEY]
    )
    name = None if known.client_params is None else known.client_params.client_info.name
    return Client(name, known.client_capabilities)


class HostOriginGuard(HostOriginGuardMiddleware):
    """FastMCP's guard. It lets in pages of other ports on loopback, which we refuse.

    It decides by four parts of a request. Requests without an Origin that it let in are remembered, up to a number.
    """

    def __init__(self, app: ASGIApp, allowed_hosts: Sequence[str], allowed_origins: Sequence[str]) -> None:
        super().__init__(self._pass_on, allowed_hosts, allowed_origins, mode="strict")
        self._app = app
        self._let_in: set[tuple[Any, ...]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._is_known(scope):
            await self._app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and len(self._let_in) < _MOST_HOSTS and (names := _names(scope)) is not None:
            self._let_in.add(names)
        await self._app(scope, receive, send)

    def _is_known(self, scope: Scope) -> bool:
        return scope["type"] == "http" and (names := _names(scope)) is not None and names in self._let_in

    def _origin_allowed(self, origin: str, request_origin: str, host: str, allow_same_origin_fallback: bool) -> bool:
        # There, the host is used for nothing else.
        return super()._origin_allowed(origin, request_origin, "", allow_same_origin_fallback)


def _names(scope: Scope) -> tuple[Any, ...] | None:
    """The parts by which the guard decides; None if it must check this request itself."""
    names = [header for header in scope["headers"] if header[0] in _NAMING]
    if len(names) != 1 or names[0][0] != b"host" or len(names[0][1]) > _LONGEST_HOST:
        return None
    return names[0][1], scope.get("scheme"), tuple(scope.get("server") or ())


_NAMING: Final = frozenset({b"host", b"origin"})
_MOST_HOSTS, _LONGEST_HOST = 64, 255


def lift_body_cap(app: Starlette) -> None:
    """Lift the SDK's cap of 4 MiB, for which FastMCP has no option: a note may be larger. Bodies are capped before."""
    for route in app.router.routes:
        served = getattr(route, "app", None) or getattr(route, "endpoint", None)
        while served is not None and not isinstance(served, StreamableHTTPASGIApp):
            served = getattr(served, "app", None)
        if served is not None and (manager := served.session_manager) is not None:
            manager.asgi_app = manager._handle_request  # type: ignore[assignment]  # any application would do
            return
    raise RuntimeError("the MCP route has no session manager")
