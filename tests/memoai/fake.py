"""A MemoAI core in memory: it lets in the gateway alone, keeps memos by organization and project, and fails as told.

It answers as a service of FastAPI does: who calls comes first, then what was sent, then whose it is.
"""

import json
import math
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

SEARCH, RECORD = "POST /internal/memos/search", "POST /internal/memos/record"
# What this core takes to mean the same, as an embedding would.
CONCEPTS = {"duckdb": "database", "postgres": "database", "hangs": "timeout", "slow": "timeout", "fixed": "solved"}

Memo = dict[str, Any]
Answer = Callable[[Request], Response]


def error(status: int, kind: str, message: str = "No.") -> Response:
    return JSONResponse({"error": {"type": kind, "message": message}}, status)


class CutOff(Response):
    """An answer that breaks off: whoever waits for it never learns what it was."""

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"100")]})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})


def cut_off(_request: Request) -> Response:
    return CutOff()


@dataclass
class FakeCore:
    """What it keeps, whom it lets in, and what goes wrong next."""

    internal_key: str
    audience: str
    issuer: str
    keys_url: str = ""
    """Where the gateway publishes its keys."""
    projects: dict[str, set[str]] | None = None
    """Those of each organization; None where any name is one."""
    memos: dict[tuple[str, str], list[Memo]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)
    """Of each request that was let in."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    instead: list[Answer] = field(default_factory=list)
    """What is answered next, before anything is looked at."""
    afterwards: list[Answer] = field(default_factory=list)
    """What is answered next, when all is done."""
    gate: threading.Event | None = None
    """Nothing is answered while it is not set."""
    _keys: KeySet | None = None
    _now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/internal/memos/search", self._search, methods=["POST"]),
                Route("/internal/memos/record", self._record, methods=["POST"]),
                Route("/{path:path}", self._nowhere, methods=["GET", "POST", "PUT", "DELETE"]),
            ]
        )

    async def _nowhere(self, request: Request) -> Response:
        self.requests.append(f"{request.method} {request.url.path}")
        return JSONResponse({"detail": "Not Found"}, 404)

    async def _search(self, request: Request) -> Response:
        return await self._answer(request, "query", self._found)

    async def _record(self, request: Request) -> Response:
        return await self._answer(request, "content", self._recorded)

    async def _answer(self, request: Request, needed: str, serve: Callable[[list[Memo], Memo], Any]) -> Response:
        self.requests.append(f"{request.method} {request.url.path}")
        if self.gate is not None:
            assert await run_in_threadpool(self.gate.wait, 20)
        if self.instead:
            return self.instead.pop(0)(request)
        claims = await self._let_in(request)
        if claims is None or request.headers.get("x-internal-key") != self.internal_key:
            return error(401, "authentication_error", "Invalid or expired authentication token")
        self.claims.append(claims)
        sent = json.loads(await request.body())
        if not isinstance(sent.get(needed), str):
            return JSONResponse({"detail": [{"loc": ["body", needed], "type": "missing"}]}, 422)
        self.bodies.append(sent)
        org, project = claims.get("org_id"), claims.get("project_id")
        if not org or not project:
            return error(403, "permission_error")
        if self.projects is not None and project not in self.projects.get(org, ()):
            return error(404, "not_found", f"Project '{project}' not found or access denied")
        said = JSONResponse(serve(self.memos.setdefault((org, project), []), sent))
        return self.afterwards.pop(0)(request) if self.afterwards else said

    async def _let_in(self, request: Request) -> dict[str, Any] | None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._keys is None:
            async with httpx.AsyncClient(trust_env=False) as http:
                self._keys = KeySet.import_key_set((await http.get(self.keys_url)).json())
        try:
            claims = jwt.decode(token, self._keys, algorithms=["ES256", "Ed25519"]).claims
            wanted = {"iss": self.issuer, "aud": self.audience}
            rules: Any = {name: {"essential": True, "value": value} for name, value in wanted.items()}
            jwt.JWTClaimsRegistry(**rules, exp={"essential": True}, user_id={"essential": True}).validate(claims)
        except (JoseError, ValueError):
            return None
        return dict(claims)

    def _recorded(self, memos: list[Memo], sent: Memo) -> Memo:
        self._now += timedelta(seconds=1)
        memo = {
            "id": str(uuid4()),
            "content": sent["content"],
            "episode_type": "other",
            "created_at": self._now.isoformat().replace("+00:00", "Z"),
            **({"source": sent["source"]} if sent.get("source") else {}),
            "tags": [],
            "extra_metadata": sent.get("metadata") or {},
            "gardener": {"queued": True},
        }
        memos.append(memo)
        return {"id": memo["id"], "status": "recorded"}

    def _found(self, memos: list[Memo], sent: Memo) -> list[Memo]:
        """Those most like the query, and of equals the newest; it never looks at a memo of anybody else's."""
        asked = meaning(sent["query"])
        found = [{**memo, "similarity": likeness(asked, meaning(memo["content"]))} for memo in reversed(memos)]
        ranked = sorted(found, key=lambda memo: float(memo["similarity"]), reverse=True)
        return [memo for memo in ranked if memo["similarity"] > 0][: sent.get("limit", 10)]


def meaning(text: str) -> Counter[str]:
    words = re.findall(r"[a-z]+", text.lower())
    return Counter(CONCEPTS.get(word, word) for word in words)


def likeness(one: Counter[str], other: Counter[str]) -> float:
    """The cosine of two bags of words."""
    dot = sum(count * other[word] for word, count in one.items())
    length = math.sqrt(sum(n * n for n in one.values()) * sum(n * n for n in other.values()))
    return round(min(dot / length, 1.0), 4) if length else 0.0
