"""What every request goes through first: clean header values, and FastMCP's check of Host and Origin."""

from typing import Any, Final

from fastmcp.server.http import HostOriginGuardMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

Address = tuple[Any, ...]
_MOST_ADDRESSES: Final = 256


class StripHeaders:
    """Takes the space around header values away: it is no part of them (RFC 9110), but httptools leaves some."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
        await self._app(scope, receive, send)


class HostGuard:
    """FastMCP's check of Host and Origin, made once for each pair: nothing else of a request has a say in it."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...], origins: tuple[str, ...]) -> None:
        self._app = app
        self._guard = HostOriginGuardMiddleware(self._let_through, hosts, origins, mode="strict")
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


def _address(scope: Scope) -> Address:
    """All that the check looks at."""
    said = (header for header in scope["headers"] if header[0] in (b"host", b"origin"))
    return (scope.get("scheme"), *(scope.get("server") or ()), *said)
