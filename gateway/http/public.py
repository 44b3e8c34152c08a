"""What anybody may ask over HTTP without a token: whether we are alive and ready, and our public documents."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.http.auth.access import METADATA_PATH, Resource, http_answer
from gateway.http.mcp_path import PATTERN
from gateway.http.metrics import PATH as METRICS_PATH
from gateway.http.metrics import Metrics
from gateway.http.operator import Operator

_METADATA: Final = re.compile(f"{re.escape(METADATA_PATH)}({PATTERN})?")
_CACHED: Final = {"cache-control": "public, max-age=300"}

JwkSet = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Ready:
    """Whether the gateway itself can serve calls, and how the platform is."""

    is_ready: bool = True
    platform: str = "unknown"
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further details for the operator."""
    problem: str | None = None
    """Why not, for the log."""


Readiness = Callable[[bool], Awaitable[Ready]]
"""Takes whether details are wanted, which may take longer to find out."""


async def always_ready(_with_details: bool) -> Ready:
    return Ready()


class Public:
    """Answers GET for the few public documents."""

    def __init__(
        self,
        app: ASGIApp,
        ready: Readiness,
        resource: Resource | None,
        keys: JwkSet | None,
        operator: Operator,
        metrics: Metrics | None = None,
    ) -> None:
        self._app, self._ready, self._operator, self._metrics = app, ready, operator, metrics
        self._resource, self._keys = resource, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._answer(scope) if _asks(scope) else None
        await (answer or self._app)(scope, receive, send)

    async def _answer(self, scope: Scope) -> Response | None:
        path = scope["path"]
        if path in {"/livez", "/healthz", "/health"}:
            return JSONResponse({"ok": True})
        if path == "/readyz":
            ready = await self._ready(self._operator.is_asking(scope))
            http_answer(scope).reason = ready.problem
            body = {"ready": ready.is_ready, "platform": ready.platform, **ready.details}
            return JSONResponse(body, 200 if ready.is_ready else 503)
        if self._metrics is not None and path == METRICS_PATH:
            if not self._operator.is_asking(scope):
                http_answer(scope).reason = "not the token of the operator"
            return await self._metrics.answer(scope)
        if self._resource is not None and _METADATA.fullmatch(path):
            # Clients in browsers read these, too.
            return JSONResponse(self._resource.metadata(), headers={**_CACHED, "access-control-allow-origin": "*"})
        if self._keys is not None and path == "/.well-known/jwks.json":
            return JSONResponse(self._keys(), headers=_CACHED)
        return None


def _asks(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["method"] in {"GET", "HEAD"}
