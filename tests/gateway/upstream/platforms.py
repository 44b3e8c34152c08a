"""Platforms as they are in the wild: each has its routes, its brains, and its own way of saying no."""

import itertools
import json
import re
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import respx
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject, Op, Probe
from gateway.upstream.credentials import Endpoint
from gateway.upstream.deadlines import Deadlines
from gateway.upstream.detect.verdict import Verdict
from gateway.upstream.dialects.catalog import DIALECTS
from gateway.upstream.dialects.dialect import Dialect
from gateway.upstream.dialects.platform import PLATFORM
from gateway.upstream.pipeline import Upstream
from gateway.upstream.wire.transport import pooled_client
from tests.daemons.fake import FakeDaemon

PLATFORM_URL = "http://platform.example"
KNOWN = tuple(DIALECTS.values())
LIST = "GET /v1/brains"
BRAIN = "/v1/brains/{brain}"
METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD"]
# How many requests each stage of detection may take. A dialect with other routes needs more: docs/platforms.md says how
# many there are at most.
STAGE_ONE, STAGE_TWO = 24, 11

Say = Callable[[Request], Response]
NUMBERS = itertools.count()


def names_of(dialect: Dialect) -> frozenset[str]:
    """The names of the routes of a dialect that are about one brain, and that are looked for."""
    return frozenset(
        route.name for op, route in dialect.routes.items() if "{brain}" in route.path and op.probe is not Probe.NEVER
    )


ALL = frozenset[str]().union(*map(names_of, KNOWN))


def problem(status: int, detail: str, code: str = "not_found", **headers: str) -> Response:
    body = {"status": status, "title": "Refused", "code": code, "detail": detail}
    media_type = "application/problem+json"
    return JSONResponse(
        body, status, headers={k.replace("_", "-"): v for k, v in headers.items()}, media_type=media_type
    )


def says_problem(request: Request) -> Response:
    return problem(404, f"no route for {request.method} {request.url.path}")


def says_plain(_request: Request) -> Response:
    return PlainTextResponse("404 page not found", 404)


def says_page(_request: Request) -> Response:
    """A proxy's page: another one for every request."""
    return HTMLResponse(f"<h1>404</h1><!-- {secrets.token_urlsafe(next(NUMBERS) % 7 + 9)} -->", 404)


def says_detail(_request: Request) -> Response:
    return JSONResponse({"detail": "Not Found"}, 404)


def says_home_page(_request: Request) -> Response:
    return HTMLResponse(f"<div id=app nonce={secrets.token_urlsafe()}></div>")


def says_request_id(_request: Request) -> Response:
    return JSONResponse({"error": "unknown endpoint", "request_id": f"req_{secrets.token_urlsafe(12)}7"}, 404)


def says_time_and_path(request: Request) -> Response:
    moment = f"2026-11-16T10:00:{next(NUMBERS) % 60:02}.123+00:00"
    return JSONResponse({"timestamp": moment, "status": 404, "error": "Not Found", "path": request.url.path}, 404)


def says_inner_path(request: Request) -> Response:
    """Behind a proxy that takes a prefix off the path."""
    return problem(404, f"no route for {request.method} {request.url.path.removeprefix('/api')}")


def says_wrong_method(_request: Request) -> Response:
    return JSONResponse({"detail": "Method Not Allowed"}, 405, headers={"allow": "DELETE"})


def says_not_implemented(_request: Request) -> Response:
    return problem(501, "not implemented", "not_implemented")


def says_no_brain(request: Request) -> Response:
    return problem(404, f"brain not found: {request.url.path.split('/')[3]}")


def says_no_such_brain(_request: Request) -> Response:
    return problem(404, "There is no such brain.")


def says_foreign(_request: Request) -> Response:
    return problem(403, "not your brain", "forbidden")


def template_of(method: str, path: str, others: Iterable[str] = ()) -> str:
    """The name of the route a request is for; the request itself where there is none."""
    for name in sorted({*ALL, *others, LIST, "POST /v1/brains"}):
        pattern = re.sub(r"\{\w+\}", "[^/]+", name)
        if re.fullmatch(pattern, f"{method} {path}"):
            return name
    return f"{method} {path}"


@dataclass
class Wild:
    """A platform. Whatever it is sent is noted, and whatever changes it shows in `brains`."""

    routes: frozenset[str] = field(default_factory=lambda: names_of(PLATFORM))
    no_route: Say = says_problem
    no_brain: Say = says_no_such_brain
    brain_first: bool = False
    key: str = "id"
    brains: dict[str, dict[str, str]] = field(default_factory=lambda: {"notes": {"a.md": "A"}})
    says: dict[str, Say] = field(default_factory=dict)
    """By the name of a route: what is said before anything is looked at."""
    everywhere: Say | None = None
    prefix: str = ""
    others: frozenset[str] = frozenset()
    """Routes that no dialect of ours has."""
    requests: list[str] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)
    gate: threading.Event | None = None
    """Nothing is answered while it is not set."""

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/{path:path}", self._answer, methods=METHODS)])

    async def _answer(self, request: Request) -> Response:
        path = request.url.path.removeprefix(self.prefix)
        name = template_of(request.method, path, self.others)
        self.requests.append(name)
        self.arrived.set()
        if self.gate is not None:
            assert await run_in_threadpool(self.gate.wait, 20)
        if self.everywhere is not None:
            return self.everywhere(request)
        if (said := self.says.get(name)) is not None:
            return said(request)
        if name == LIST:
            return JSONResponse({"items": [self._record(brain) for brain in self.brains]})
        brain = path.split("/")[3] if path.count("/") > 2 else ""
        is_known = brain in self.brains
        if self.brain_first and not is_known:
            return self.no_brain(request)
        if name not in self.routes:
            return self.no_route(request)
        return self._served(name, self.brains[brain], await request.body()) if is_known else self.no_brain(request)

    def _record(self, brain: str) -> dict[str, str]:
        more = {"slug": brain, "name": brain, "visibility": "private"} if self.key == "id" else {}
        return {self.key: brain, **more}

    def _served(self, name: str, documents: dict[str, str], sent: bytes) -> Response:
        """These three need nothing to do something; the others need to be sent something."""
        if name.endswith(("/consolidate", "/compile", "/close")):
            documents[name] = "done"
            return JSONResponse({"done": True})
        if sent in {b"", b"{}"}:
            return problem(400, "something is required", "validation_error")
        documents[f"written {len(documents)}"] = sent.decode()
        return JSONResponse({"hits": [], "chunks": []})


@dataclass
class Switch:
    """One address, behind which one platform follows another; several take turns."""

    behind: list[Wild | FakeDaemon]
    served: int = 0
    apps: dict[int, Starlette] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            platform = self.behind[self.served % len(self.behind)]
            self.served += 1
            await self.apps.setdefault(id(platform), platform.app())(scope, receive, send)


@dataclass
class PageForEvery404:
    """A proxy that puts a page of its own in the place of what a platform says when something is missing."""

    platform: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_replaced = False

        async def replaced(message: Message) -> None:
            nonlocal is_replaced
            if message["type"] == "http.response.start" and message["status"] == 404:
                is_replaced = True
                await says_page(Request(scope))(scope, receive, send)
            elif not is_replaced:
                await send(message)

        await self.platform(scope, receive, replaced)


class Cable(httpx.AsyncHTTPTransport):
    """A way to a platform that can be cut: then connections are refused."""

    is_cut = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.is_cut:
            raise httpx.ConnectError("refused")
        return await super().handle_async_request(request)


@dataclass
class Clock:
    """Time that passes when it is told to."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def client_of(platform: respx.MockRouter) -> httpx.AsyncClient:
    """The gateway's own client, with respx in the place of connections."""
    return pooled_client(httpx.MockTransport(platform.async_handler))


@asynccontextmanager
async def reaching(
    url: str,
    *dialects: Dialect,
    clock: Callable[[], float] | None = None,
    deadlines: Deadlines | None = None,
    token: str | None = None,
    http: httpx.AsyncClient | None = None,
) -> AsyncIterator[Upstream]:
    async def endpoint() -> Endpoint:
        return Endpoint(url, token)

    upstream = Upstream(dialects or KNOWN, endpoint, http=http, deadlines=deadlines, clock=clock or time.monotonic)
    try:
        yield upstream
    finally:
        await upstream.close()


async def verdict_on(url: str, **options: Any) -> Verdict:
    async with reaching(url, **options) as upstream:
        return await upstream.verdict(Call())


async def refused(upstream: Upstream, op: Op | None = None, args: JsonObject | None = None, **of: Any) -> GatewayError:
    """The error that a call ends with; without an operation, that finding out ends with."""
    call = Call(**of)
    with pytest.raises(GatewayError) as caught:
        await (upstream.verdict(call) if op is None else upstream.send(call, op, args or {}))
    return caught.value


def picture(value: Any) -> str:
    """A state, to be compared with itself later."""
    return json.dumps(value, sort_keys=True, default=repr)
