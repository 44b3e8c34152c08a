"""The HTTP side of the endpoint: brains in the path, the body cap, who may call."""

import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import anyio
import structlog
from fastmcp import FastMCP
from fastmcp.server.http import HostOriginGuardMiddleware, StreamableHTTPASGIApp
from mcp.server.transport_security import RequestBodyLimitMiddleware
from sse_starlette.sse import AppStatus
from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.brain.limits import Limits
from gateway.http.admission import Admission
from gateway.http.auth.access import Access, Resource
from gateway.http.auth.inbound import Inbound
from gateway.http.auth.stepup import StepUp
from gateway.http.mcp_path import Place
from gateway.http.public import JwkSet, Public, Readiness, always_ready

log = structlog.get_logger()

_MCP_PATH = "/mcp"


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """What the operator decides about the endpoint."""

    max_body: int
    max_bodies: int = 256 * 1024 * 1024
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Door:
    """Who may come in, and what is told to those who may not."""

    inbound: Inbound | None = None
    resource: Resource | None = None
    limits: Limits = field(default_factory=Limits)
    needs_token: bool = True
    ready: Readiness = always_ready
    keys: JwkSet | None = None
    """The public halves of those that requests to the platform are signed with."""


def endpoint(
    servers: Mapping[str, FastMCP],
    running: Callable[[], AbstractAsyncContextManager[None]],
    options: HttpOptions,
    door: Door,
) -> ASGIApp:
    """The whole HTTP application: a server for each surface behind the door, and what anybody may ask before it.

    The first surface is served at `/mcp`, each also at `/<surface>/mcp`, and all with a brain behind that.
    """
    # It would end every stream the moment we are told to stop; uvicorn gives them their time, and then ends them.
    AppStatus.enable_automatic_graceful_drain = False
    apps = {
        name: mcp.http_app(path=_MCP_PATH, stateless_http=True, json_response=False) for name, mcp in servers.items()
    }

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with running(), AsyncExitStack() as stack:
            for app in apps.values():
                await stack.enter_async_context(app.router.lifespan_context(app))
                _raise_body_cap(app, options.max_body)
            yield

    surfaces = Surfaces(apps, Starlette(lifespan=lifespan))
    served = Admission(StepUp(surfaces, door.resource), options.max_bodies, options.max_body)
    let_in = Access(served, door.inbound, door.resource, door.limits, tuple(servers), needs_token=door.needs_token)
    # Before anybody is asked for a token: a page in a browser must not learn even that.
    guarded = Guarded(let_in, options)
    public = Public(guarded, door.ready, door.resource, door.keys)
    return Unpadded(ClearRefusals(public, tuple(servers)))


class Unpadded:
    """Takes the space around header values away: it is no part of them (RFC 9110), but httptools leaves some."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
        await self._app(scope, receive, send)


class Guarded:
    """FastMCP's check of Host and Origin, made once for each pair: nothing else of a request has a say in it."""

    def __init__(self, app: ASGIApp, options: HttpOptions) -> None:
        self._app = app
        self._guard = HostOriginGuardMiddleware(
            self._let_through, options.allowed_hosts, options.allowed_origins, mode="strict"
        )
        self._known: set[Address] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_known = scope["type"] != "http" or _address(scope) in self._known
        await (self._app if is_known else self._guard)(scope, receive, send)

    async def _let_through(self, scope: Scope, receive: Receive, send: Send) -> None:
        if len(self._known) >= _MOST_ADDRESSES:
            # Whoever calls may make up as many as they like.
            self._known.clear()
        self._known.add(_address(scope))
        await self._app(scope, receive, send)


Address = tuple[Any, ...]
_MOST_ADDRESSES = 256


def _address(scope: Scope) -> Address:
    """All that the check looks at."""
    said = (header for header in scope["headers"] if header[0] in (b"host", b"origin"))
    return (scope.get("scheme"), *(scope.get("server") or ()), *said)


class Surfaces:
    """Serves each path by the server of its surface, with the brain it names as the request's ceiling.

    A route with a parameter would do, but then each brain is a protected resource of its own.
    """

    def __init__(self, apps: Mapping[str, ASGIApp], lifespan: ASGIApp) -> None:
        self._apps, self._lifespan = apps, lifespan
        self._first = next(iter(apps))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._lifespan(scope, receive, send)
            return
        place = Place.of(scope["path"], self._apps)
        if place is None:
            await Response(status_code=404)(scope, receive, send)
            return
        if scope["path"].endswith("/mcp/"):
            # A brain that was left out by mistake must not become the default one without a word.
            await RedirectResponse(scope["path"].rstrip("/"), 307)(scope, receive, send)
            return
        surface = place.surface or self._first
        named = _named(place.brain, scope if surface == "being" else None)
        if len(named) > 1:
            await JSONResponse(_TWO_BEINGS, 404)(scope, receive, send)
            return
        state = {**scope.get("state", {}), **({"brain": named[0]} if named else {})}
        scope = {**scope, "path": _MCP_PATH, "raw_path": _MCP_PATH.encode(), "state": state}
        await self._apps[surface](scope, receive, send)


def _named(in_path: str | None, being: Scope | None) -> list[str]:
    """The brains that a URL names, each once: for a being, one in `?being_id=` is as good as one in the path."""
    query = being.get("query_string", b"").decode("latin-1") if being is not None else ""
    asked = parse_qs(query, keep_blank_values=True).get("being_id", [])
    return list(dict.fromkeys([in_path, *asked] if in_path else asked))


_TWO_BEINGS = {
    "code": "not_found",
    "message": "The URL names two beings. Name one, as in /being/mcp/{brain} or /being/mcp?being_id={brain}.",
    "retryable": False,
}
# What the layers below refuse in a word or two, in a sentence. MCP's own refusals are JSON and pass as they are.
_REFUSALS = {
    403: ("forbidden", "This browser origin may not call. Add it to BRAINS_ALLOWED_ORIGINS."),
    404: (
        "not_found",
        "There is nothing here. MCP is served at /mcp and /<surface>/mcp, each also with /<brain> behind it; "
        "surfaces: {surfaces}.",
    ),
    405: ("validation_error", "This endpoint takes MCP messages by POST; it has no stream to GET."),
    413: ("payload_too_large", "The request body is larger than BRAINS_MAX_BODY."),
    421: ("forbidden", "This host name is not known here. Add it to BRAINS_ALLOWED_HOSTS."),
}


class ClearRefusals:
    """Gives refusals at the level of HTTP a code and a sentence with what to do."""

    def __init__(self, app: ASGIApp, surfaces: Sequence[str]) -> None:
        self._app, self._surfaces = app, surfaces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reworded = False

        async def send_clearly(message: Message) -> None:
            nonlocal reworded
            if message["type"] == "http.response.start" and message["status"] == 405:
                # Only MCP's own paths refuse a method, and they have no session that could be deleted.
                message = _with_headers(message, {b"allow": b"POST"})
            if message["type"] == "http.response.start" and (words := self._clearer_words(message)) is not None:
                reworded = True
                log.warning("http.refused", status=message["status"], path=scope["path"])
                await send(_with_length(message, len(words)))
                await send({"type": "http.response.body", "body": words})
            elif not reworded:
                await send(message)

        await self._app(scope, receive, send_clearly)

    def _clearer_words(self, start: Message) -> bytes | None:
        status, headers = start["status"], dict(start.get("headers", ()))
        # What is JSON, or a stream, says itself what is wrong.
        if headers.get(b"content-type", b"").startswith((b"application/json", b"text/event-stream")):
            return None
        if status not in _REFUSALS:
            return None
        code, message = _REFUSALS[status]
        said = message.format(surfaces=", ".join(self._surfaces))
        return json.dumps({"code": code, "message": said, "retryable": False}).encode()


def _with_length(start: Message, length: int) -> Message:
    return _with_headers(start, {b"content-length": str(length).encode(), b"content-type": b"application/json"})


def _with_headers(start: Message, replaced: Mapping[bytes, bytes]) -> Message:
    kept = [(name, value) for name, value in start.get("headers", ()) if name.lower() not in replaced]
    return {**start, "headers": [*kept, *replaced.items()]}


def _raise_body_cap(app: Starlette, max_body: int) -> None:
    """FastMCP gives no way to the SDK's cap of 4 MiB, which is less than one large memory."""
    for route in app.router.routes:
        served = getattr(route, "app", None) or getattr(route, "endpoint", None)
        while served is not None and not isinstance(served, StreamableHTTPASGIApp):
            served = getattr(served, "app", None)
        if served is not None and (manager := served.session_manager) is not None:
            manager.asgi_app = RequestBodyLimitMiddleware(manager._handle_request, max_body)
            return
    raise RuntimeError("the MCP route has no session manager")


async def leave_with_parent(parent: int) -> None:
    """End this worker when its supervisor is gone: nobody else would, and the embedded brain went with it."""
    while os.getppid() == parent:  # noqa: ASYNC110  # no event tells of a parent's death
        await anyio.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
