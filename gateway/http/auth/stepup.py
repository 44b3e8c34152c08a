"""Refusals of tools that have an HTTP status: 403 if a scope is missing, 429 if a caller does too much.

The tool itself decides, on the very arguments it would work with, so that no second reading of the request can differ
from the first. It notes its refusal in the request; here the answer gets its status. Nothing is sent before the first
bytes of an answer are there, and a refusal is always the first.
"""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.auth.access import Resource, challenge
from gateway.operations.caller import HttpAnswer
from gateway.operations.errors import GatewayError

_STATUS: Final = {"insufficient_scope": 403, "rate_limited": 429}


class StepUp:
    """Answers with 403 or 429 if a tool refused for such a reason."""

    def __init__(self, app: ASGIApp, resource: Resource | None) -> None:
        self._app, self._resource = app, resource

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        told: HttpAnswer | None = scope.get("state", {}).get("http") if scope["type"] == "http" else None
        if told is None:
            await self._app(scope, receive, send)
            return
        # The path as the client knows it. The layers below may change it.
        path, start = scope["path"], None

        async def send_when_known(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start is not None:
                held, start = start, None
                await send(self._with_status(held, told.refusal, path))
            await send(message)

        await self._app(scope, receive, send_when_known)

    def _with_status(self, start: Message, refusal: GatewayError | None, path: str) -> Message:
        if refusal is None or start["status"] != 200:
            return start
        headers = list(start.get("headers", ()))
        if refusal.code == "insufficient_scope":
            needed = [str(scope) for scope in refusal.extra["required_scopes"]]
            words = challenge(self._resource, path, "insufficient_scope", needed)
            headers.append((b"www-authenticate", words.encode()))
        if refusal.retry_after_seconds is not None:
            headers.append((b"retry-after", str(refusal.retry_after_seconds).encode()))
        return {**start, "status": _STATUS[refusal.code], "headers": headers}
