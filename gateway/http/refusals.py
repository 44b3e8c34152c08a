"""Refusals at the level of HTTP, each with a code and a sentence that says what to do."""

import json
from collections.abc import Mapping, Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Sentences for refusals that layers below word in a word or two. MCP's own refusals are JSON and stay as they are.
_REFUSALS = {
    403: ("forbidden", "Web pages of this origin may not call. Add it to BRAINS_ALLOWED_ORIGINS."),
    404: (
        "not_found",
        "There is nothing here. MCP is served at /mcp and /<surface>/mcp, each also with /<brain> behind it; "
        "surfaces: {surfaces}.",
    ),
    405: ("validation_error", "This endpoint takes MCP messages by POST; it has no stream to GET."),
    421: ("forbidden", "This host name is not known here. Add it to BRAINS_ALLOWED_HOSTS."),
}


class ClearRefusals:
    """Gives refusals at the level of HTTP a code and a sentence that says what to do."""

    def __init__(self, app: ASGIApp, surfaces: Sequence[str]) -> None:
        self._app, self._surfaces = app, surfaces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reworded = False

        async def send_clearly(message: Message) -> None:
            nonlocal reworded
            is_refusal = message["type"] == "http.response.start" and message["status"] in _REFUSALS
            if is_refusal and message["status"] == 405:
                # Only MCP's own paths refuse a method, and they have no session that could be deleted.
                message = _with_headers(message, {b"allow": b"POST"})
            if is_refusal and (words := self._clearer_words(message)) is not None:
                reworded = True
                await send(_with_length(message, len(words)))
                await send({"type": "http.response.body", "body": words})
            elif not reworded:
                await send(message)

        await self._app(scope, receive, send_clearly)

    def _clearer_words(self, start: Message) -> bytes | None:
        status, headers = start["status"], dict(start.get("headers", ()))
        # JSON answers, streams and the page for people already say what is wrong.
        if headers.get(b"content-type", b"").startswith((b"application/json", b"text/event-stream", b"text/html")):
            return None
        code, message = _REFUSALS[status]
        said = message.format(surfaces=", ".join(self._surfaces))
        return json.dumps({"code": code, "message": said, "retryable": False}).encode()


def _with_length(start: Message, length: int) -> Message:
    return _with_headers(start, {b"content-length": str(length).encode(), b"content-type": b"application/json"})


def _with_headers(start: Message, replaced: Mapping[bytes, bytes]) -> Message:
    kept = [(name, value) for name, value in start.get("headers", ()) if name.lower() not in replaced]
    return {**start, "headers": [*kept, *replaced.items()]}
