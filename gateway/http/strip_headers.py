"""The first layer of all: clean header values."""

from starlette.types import ASGIApp, Receive, Scope, Send


class StripHeaders:
    """Removes the space around header values: it is not part of them (RFC 9110), but httptools leaves some."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
        await self._app(scope, receive, send)
