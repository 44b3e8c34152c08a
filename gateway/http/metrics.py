"""`/metrics`, for the operator alone: on the port of callers with a token, or on a listener of its own."""

import asyncio
from collections.abc import Callable

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from gateway.http.operator import Operator

PATH = "/metrics"
Page = Callable[[str], tuple[bytes, str]]
"""Takes the Accept header, and returns the page and its media type."""


class Metrics:
    """Answers the operator."""

    def __init__(self, page: Page, operator: Operator) -> None:
        self._page, self._operator = page, operator

    async def answer(self, scope: Scope) -> Response:
        if not self._operator.is_asking(scope):
            message = "Metrics are for the operator: send BRAINS_METRICS_TOKEN as a bearer token."
            said = {"code": "unauthorized", "message": message, "retryable": False}
            return JSONResponse(said, 401, {"www-authenticate": "Bearer"})
        accept = ",".join(value.decode("latin-1") for name, value in scope["headers"] if name == b"accept")
        # In a thread, because it reads files and counts rows of a database.
        body, media_type = await asyncio.to_thread(self._page, accept)
        return Response(body, headers={"content-type": media_type, "cache-control": "no-store"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application behind a listener of its own."""
        asks = scope["path"] == PATH and scope["method"] in {"GET", "HEAD"}
        answer = await self.answer(scope) if asks else Response(status_code=404)
        await answer(scope, receive, send)
