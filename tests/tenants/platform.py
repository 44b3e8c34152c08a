"""A platform of many tenants: it believes the gateway's signature alone, and notes whatever is odd about a request."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import httpx
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

AUDIENCE = "brains-platform"
ISSUER = "https://brains.example"
# What a caller says of itself, so that it can be held against the signature: `from-<who>-end`.
MARK = re.compile(r"from-([0-9a-z]+)-end")
Tenant = tuple[str, str | None, str | None]
"""Subject, organization and project."""


@dataclass
class Brain:
    """A brain of one tenant. Some can be reached by their id alone."""

    id: str
    slug: str
    tenant: Tenant
    canary: str
    by_id_alone: bool = False

    def as_json(self) -> dict[str, Any]:
        return {"id": self.id, "slug": self.slug, "name": f"Brain of {self.canary}", "visibility": "private"}


@dataclass(frozen=True)
class Shown:
    """Who a request is from, as the gateway signed it."""

    tenant: Tenant
    client: str
    scope: str


class Problem(Exception):
    """A refusal."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


@dataclass
class TenantPlatform:
    """Brains and documents by tenant; a cookie with every answer; a record of all that should not be."""

    foreign_status: int = 404
    """What a brain of somebody else is answered with."""
    brains: list[Brain] = field(default_factory=list)
    marks: dict[str, tuple[Tenant, str]] = field(default_factory=dict)
    """Who may say which mark: the tenant and the client."""
    odd: list[str] = field(default_factory=list)
    cookies: list[str] = field(default_factory=list)
    served: int = 0
    stalled: set[str] = field(default_factory=set)
    """Subjects whose requests on a brain are not answered for a long time."""
    waiting: int = 0
    hangs_up: bool = False
    """Whether every request needs a connection, and so a look-up, of its own."""
    found_at: list[str] = field(default_factory=lambda: ["memory/global/a.md"])
    jwks_url: str = ""
    _keys: KeySet | None = None
    _messages: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)

    def app(self) -> Starlette:
        brain = "/v1/brains/{brain}"
        session = brain + "/sessions/{session}"
        routes: list[tuple[str, str, Callable[[Request, Shown], Awaitable[Any]]]] = [
            ("GET", "/v1/brains", self._list),
            ("POST", "/v1/brains", self._create),
            ("GET", brain + "/search", self._search),
            ("POST", session + "/recall", self._recall),
            ("POST", brain + "/ask", self._ask),
            ("POST", brain + "/documents", self._store),
            ("POST", brain + "/documents/ingest/file", self._ingest),
            ("POST", brain + "/documents/ingest/url", self._ingest),
            ("POST", session + "/messages", self._say),
            ("GET", session + "/messages", self._said),
            ("POST", session + "/close", self._close),
            ("POST", brain + "/consolidate", self._consolidate),
        ]
        served = [Route(path, partial(self._answer, handler), methods=[method]) for method, path, handler in routes]
        rest = Route("/{path:path}", partial(self._answer, _nowhere), methods=["GET", "POST", "PUT", "HEAD"])
        return Starlette(routes=[*served, rest])

    def of(self, tenant: Tenant) -> list[Brain]:
        return [brain for brain in list(self.brains) if brain.tenant == tenant]

    async def _answer(self, handler: Callable[[Request, Shown], Awaitable[Any]], request: Request) -> Response:
        self.served += 1
        if (cookie := request.headers.get("cookie")) is not None:
            self.cookies.append(cookie)
        who = "nobody"
        try:
            shown = await self._shown(request)
            who = f"{shown.tenant[0]}-{shown.tenant[1]}".encode().hex()
            await self._compare(request, shown)
            answer = await handler(request, shown)
            response = answer if isinstance(answer, Response) else JSONResponse(answer)
        except Problem as problem:
            body = {"status": problem.status, "code": problem.code, "detail": "refused"}
            response = JSONResponse(body, problem.status, media_type="application/problem+json")
        if self.hangs_up:
            response.headers["connection"] = "close"
        response.headers["set-cookie"] = f"caller={who}; Path=/; Max-Age=600"
        return response

    async def _shown(self, request: Request) -> Shown:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        try:
            decoded = jwt.decode(token, await self._public_keys(), algorithms=["ES256", "Ed25519"])
        except (JoseError, ValueError) as error:
            self.odd.append(f"signature: {error}")
            raise Problem(401, "unauthorized") from None
        claims, now = decoded.claims, time.time()
        wrong = [
            name
            for name, holds in {
                "typ": decoded.header.get("typ") == "brains-gw+jwt",
                "aud": claims.get("aud") == AUDIENCE,
                "iss": claims.get("iss") == ISSUER,
                "exp": now - 30 < claims["exp"] <= now + 90,
                "txn": claims.get("txn") == request.headers.get("x-request-id"),
            }.items()
            if not holds
        ]
        if wrong:
            self.odd.append(f"claims: {wrong}")
            raise Problem(401, "unauthorized")
        tenant = (claims["sub"], claims.get("org_id"), claims.get("project_id"))
        return Shown(tenant, claims.get("act", {}).get("client_id", ""), claims["scope"])

    async def _public_keys(self) -> KeySet:
        if self._keys is None:
            async with httpx.AsyncClient(trust_env=False) as http:
                self._keys = KeySet.import_key_set((await http.get(self.jwks_url)).json())
        return self._keys

    async def _compare(self, request: Request, shown: Shown) -> None:
        """That whoever the request says it is from is who the signature says."""
        said = f"{request.url.path} {parse_qsl(request.url.query)} {(await request.body()).decode('utf-8', 'replace')}"
        for mark in set(MARK.findall(said)):
            if self.marks.get(mark) != (shown.tenant, shown.client):
                self.odd.append(f"mark: {mark} came as {shown}")

    async def _brain(self, request: Request, shown: Shown) -> Brain:
        ref = request.path_params["brain"]
        own = [b for b in self.of(shown.tenant) if ref == b.id or (ref == b.slug and not b.by_id_alone)]
        if not own:
            foreign = any(ref in (b.id, b.slug) for b in list(self.brains) if b.tenant != shown.tenant)
            of_mine = any(ref == b.slug for b in self.of(shown.tenant))
            if foreign and not of_mine and self.foreign_status == 403:
                raise Problem(403, "forbidden")
            raise Problem(404, "brain_not_found")
        if shown.tenant[0] in self.stalled:
            await self._stall(request)
        return own[0]

    async def _stall(self, request: Request) -> None:
        """Say nothing until the gateway has gone, or this tenant is stalled no more."""
        self.waiting += 1
        try:
            while self.stalled and not await request.is_disconnected():  # noqa: ASYNC110  # nothing tells of either
                await asyncio.sleep(0.05)
        finally:
            self.waiting -= 1

    async def _list(self, _request: Request, shown: Shown) -> Any:
        return {"items": [{**brain.as_json(), "keeps_folders_apart": True} for brain in self.of(shown.tenant)]}

    async def _create(self, request: Request, shown: Shown) -> Any:
        wanted = await _body(request)
        if any(brain.slug == wanted["slug"] for brain in self.of(shown.tenant)):
            raise Problem(409, "conflict")
        brain = Brain(f"made-{len(self.brains)}", wanted["slug"], shown.tenant, self.of(shown.tenant)[0].canary)
        self.brains.append(brain)
        return JSONResponse({**brain.as_json(), "name": wanted["name"]}, 201)

    async def _search(self, request: Request, shown: Shown) -> Any:
        brain = await self._brain(request, shown)
        hit = {"score": 1.0, "path": "memory/global/a.md", "content": f"It is {brain.canary}.", "brain_id": brain.id}
        return {"query": request.query_params.get("q"), "brain_id": brain.id, "hits": [hit], "took_ms": 1.0}

    async def _recall(self, request: Request, shown: Shown) -> Any:
        brain = await self._brain(request, shown)
        found = {"score": 1.0, "content": brain.canary, "brain_id": brain.id}
        return {"chunks": [{**found, "path": path} for path in self.found_at]}

    async def _ask(self, request: Request, shown: Shown) -> Any:
        brain = await self._brain(request, shown)
        await _body(request)

        async def frames() -> AsyncIterator[bytes]:
            found = [{"chunk_id": f"c{n}", "document_id": f"d{n}"} for n in range(len(self.found_at))]
            shown = {"score": 1.0, "preview": brain.canary}
            chunks = [{**shown, **named, "path": path} for named, path in zip(found, self.found_at, strict=True)]
            yield _frame("retrieve", chunks=chunks)
            for delta in ("It is ", brain.canary, "."):
                yield _frame("answer_delta", delta=delta)
            for named in found:
                yield _frame("citation", **named, quote=brain.canary, answer_start=6, answer_end=7)
            for path in self.found_at:
                yield _frame("citation", chunk_id=path, document_id=path, path=path, quote=brain.canary)
            yield _frame("done", answer=f"It is {brain.canary}.")

        return StreamingResponse(frames(), media_type="text/event-stream")

    async def _store(self, request: Request, shown: Shown) -> Any:
        brain = await self._brain(request, shown)
        document = await _body(request)
        size = len(document["content"].encode())
        record = {"id": f"doc-{brain.id}", "path": document["path"], "byte_size": size, "brain_id": brain.id}
        return JSONResponse({**record, "title": brain.canary}, 201)

    async def _ingest(self, request: Request, shown: Shown) -> Any:
        brain = await self._brain(request, shown)
        body = (await request.body()).decode()
        if not body.strip("{}"):
            raise Problem(400, "validation_error")
        found = sorted(set(re.findall(r"canary-[0-9a-z]+", body)) | {brain.canary})
        return {"status": "completed", "path": "raw/a.md", "hash": "0", "brain_id": brain.id, "holds": found}

    async def _say(self, request: Request, shown: Shown) -> Any:
        brain, message = await self._brain(request, shown), await _body(request)
        said = self._messages.setdefault((brain.id, request.path_params["session"]), [])
        record = {"id": f"m{len(said)}", "session_id": request.path_params["session"], "brain_id": brain.id}
        said.append({**record, **message, "note": brain.canary})
        return JSONResponse(said[-1], 201)

    async def _said(self, request: Request, shown: Shown) -> Any:
        brain = await self._brain(request, shown)
        return {"items": self._messages.get((brain.id, request.path_params["session"]), [])}

    async def _close(self, request: Request, shown: Shown) -> Any:
        brain = await self._brain(request, shown)
        return {"reflection": {"summary": brain.canary}, "ended_at": "2026-01-01T00:00:00Z", "brain_id": brain.id}

    async def _consolidate(self, request: Request, shown: Shown) -> Any:
        brain = await self._brain(request, shown)
        return {"note": brain.canary, "brain_id": brain.id}


async def _nowhere(_request: Request, _shown: Shown) -> Any:
    raise Problem(404, "no_such_route")


async def _body(request: Request) -> dict[str, Any]:
    """What was sent, if anything was: a request with nothing in it is refused, and shows that the route is there."""
    body = json.loads(await request.body() or b"{}")
    if not isinstance(body, dict) or not body:
        raise Problem(400, "validation_error")
    return body


def _frame(kind: str, **said: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **said})}\n\n".encode()
