"""What anybody may ask over HTTP without a token: whether we are alive and ready, and our public documents."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.http.auth.access import METADATA_PATH, Resource
from gateway.http.mcp_path import PATTERN

_METADATA: Final = re.compile(f"{re.escape(METADATA_PATH)}({PATTERN})?")
_CACHED: Final = {"cache-control": "public, max-age=300"}

Readiness = Callable[[], Awaitable[tuple[bool, Mapping[str, Any]]]]
JwkSet = Callable[[], Mapping[str, Any]]


async def always_ready() -> tuple[bool, Mapping[str, Any]]:
    return True, {}


class Public:
    """Answers GET for the few documents that are everybody's."""

    def __init__(self, app: ASGIApp, ready: Readiness, resource: Resource | None, keys: JwkSet | None) -> None:
        self._app, self._ready = app, ready
        self._resource, self._keys = resource, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._answer(scope["path"]) if _asks(scope) else None
        await (answer or self._app)(scope, receive, send)

    async def _answer(self, path: str) -> Response | None:
        if path in {"/livez", "/healthz", "/health"}:
            return JSONResponse({"ok": True})
        if path == "/readyz":
            ready, said = await self._ready()
            return JSONResponse({"ready": ready, **said}, 200 if ready else 503)
        if self._resource is not None and _METADATA.fullmatch(path):
            # Read by clients in browsers too.
            return JSONResponse(self._resource.metadata(), headers={**_CACHED, "access-control-allow-origin": "*"})
        if self._keys is not None and path == "/.well-known/jwks.json":
            return JSONResponse(self._keys(), headers=_CACHED)
        return None


def _asks(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["method"] in {"GET", "HEAD"}
