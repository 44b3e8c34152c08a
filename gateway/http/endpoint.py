"""The HTTP application: all its layers, in their order."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs

from fastmcp import FastMCP
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.brain.limits import Limits
from gateway.http.admission import Admission
from gateway.http.auth.access import RECHECK_SECONDS, Access, Resource
from gateway.http.auth.inbound import Inbound
from gateway.http.auth.mcp_user import McpUser
from gateway.http.auth.stepup import StepUp
from gateway.http.direct import direct_of
from gateway.http.mcp_path import McpPath
from gateway.http.metrics import Metrics, Page
from gateway.http.operator import Operator
from gateway.http.public import JwkSet, Public, Readiness, always_ready
from gateway.http.refusal_log import REFUSALS
from gateway.http.refusals import ClearRefusals
from gateway.http.request_id import RequestId
from gateway.http.strip_headers import StripHeaders
from gateway.mcp.sdk import HostOriginGuard, http_app_of, lift_body_cap, name_known_revision

_MCP_PATH: Final = "/mcp"


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """What the operator decides about the endpoint."""

    max_body: int
    max_bodies: int = 256 * 1024 * 1024
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    direct: bool = True
    """Whether plain calls are answered without FastMCP."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A surface, as far as HTTP must know it."""

    server: FastMCP
    brain_parameter: str | None = None
    """A parameter of the URL that names the brain, as good as one in the path."""
    unauthorized: Mapping[str, Any] = field(default_factory=dict)
    """What its clients are told in addition if they bring no valid token."""


@dataclass(frozen=True, slots=True)
class Door:
    """Who may come in, and what refused callers are told."""

    inbound: Inbound | None = None
    resource: Resource | None = None
    limits: Limits = field(default_factory=Limits)
    needs_token: bool = True
    recheck_seconds: float = RECHECK_SECONDS
    """How often a token is checked again while its request is answered."""
    ready: Readiness = always_ready
    operator: Operator = field(default_factory=Operator)
    """Who may see the details."""
    metrics: Page | None = None
    """The page at `/metrics`; None if there is none."""
    keys: JwkSet | None = None
    """The public halves of the keys with which requests to the platform are signed."""
    login: Callable[[ASGIApp], ASGIApp] | None = None
    """Answers at the paths of our own login, if there is one, and passes on all other requests."""


def endpoint(
    mounts: Mapping[str, Mount],
    running: Callable[[], AbstractAsyncContextManager[None]],
    options: HttpOptions,
    door: Door,
    page: ASGIApp | None = None,
) -> ASGIApp:
    """The whole HTTP application: a server for each surface behind the door, and public documents before it.

    The first surface is served at `/mcp`, each also at `/<surface>/mcp`, and all with a brain behind that. The `page`
    for people, where there is one, has a door of its own, which lets in the same callers.
    """
    apps = {name: http_app_of(mount.server, _MCP_PATH) for name, mount in mounts.items()}

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with running(), AsyncExitStack() as stack:
            for app in apps.values():
                await stack.enter_async_context(app.router.lifespan_context(app))
                lift_body_cap(app)
            yield
            REFUSALS.tell_left_out()

    # The innermost first. A request goes through them from the last line to the first.
    known = {name: McpUser(app) for name, app in apps.items()}
    served = {name: direct_of(app, mounts[name].server) if options.direct else app for name, app in known.items()}
    app: ASGIApp = Mounts(served, mounts, Starlette(lifespan=lifespan))
    app = StepUp(app, door.resource)
    app = Admission(app, options.max_bodies, options.max_body)
    told = {name: mount.unauthorized for name, mount in mounts.items()}
    app = Access(
        app,
        door.inbound,
        door.resource,
        door.limits,
        told,
        needs_token=door.needs_token,
        recheck_seconds=door.recheck_seconds,
    )
    if door.login is not None:
        app = door.login(app)
    app = app if page is None else BesidePage(app, page)
    # Before the token is checked: a foreign page in a browser must not even learn that a token is needed.
    app = HostOriginGuard(app, options.allowed_hosts, options.allowed_origins)
    metrics = None if door.metrics is None else Metrics(door.metrics, door.operator)
    app = Public(app, door.ready, door.resource, door.keys, door.operator, metrics)
    app = ClearRefusals(app, tuple(mounts))
    app = RequestId(app)
    return StripHeaders(app)


class BesidePage:
    """Serves the page for people at `/` and below `/ui/`, and everything else as without it."""

    def __init__(self, app: ASGIApp, page: ASGIApp) -> None:
        self._app, self._page = app, page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._page if _is_for_people(scope) else self._app)(scope, receive, send)


def _is_for_people(scope: Scope) -> bool:
    """Whether it is for the page. Forms go below `/ui/`, so a POST to `/` is from a program with a wrong address."""
    if scope["type"] != "http":
        return False
    return scope["path"].startswith("/ui/") or (scope["path"] == "/" and scope["method"] in {"GET", "HEAD"})


class Mounts:
    """Serves each path by the server of its surface, with the brain it names as the request's ceiling.

    A route with a parameter would do as well, but would make each brain a protected resource of its own.
    """

    def __init__(self, apps: Mapping[str, ASGIApp], mounts: Mapping[str, Mount], lifespan: ASGIApp) -> None:
        self._apps, self._mounts, self._lifespan = apps, mounts, lifespan
        self._first = next(iter(apps))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._lifespan(scope, receive, send)
            return
        path = McpPath.of(scope["path"], self._apps)
        if path is None:
            await Response(status_code=404)(scope, receive, send)
            return
        surface = path.surface or self._first
        parameter = self._mounts[surface].brain_parameter
        brains = _brains_in(scope, path, parameter)
        if len(brains) > 1:
            message = f"The URL names two brains. Name one, as in {_MCP_PATH}/{{brain}} or ?{parameter}={{brain}}."
            await JSONResponse({"code": "not_found", "message": message, "retryable": False}, 404)(scope, receive, send)
            return
        state = {**scope.get("state", {}), **({"brain": brains[0]} if brains else {})}
        headers = name_known_revision(scope["headers"])
        scope = {**scope, "path": _MCP_PATH, "raw_path": _MCP_PATH.encode(), "state": state, "headers": headers}
        await self._apps[surface](scope, receive, send)


def _brains_in(scope: Scope, path: McpPath, parameter: str | None) -> list[str]:
    """The brains that a URL names, each once: in its path and, on some surfaces, in its query."""
    if parameter is None:
        return [path.brain] if path.brain else []
    asked = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True).get(parameter, [])
    return list(dict.fromkeys([path.brain, *asked] if path.brain else asked))
