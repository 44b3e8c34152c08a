"""The id of a request, the caller's own or one of ours: for the log, for errors, for the platform, in the answer."""

import re
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.refusal_log import REFUSALS
from gateway.operations.caller import HttpAnswer, make_request_id

_HEADER: Final = b"x-request-id"
# What can stand in a header, in a log and in a shell command as it is.
_WELL_FORMED: Final = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
_REFUSED: Final = 400


class RequestId:
    """Gives each request its id, and tells the log of those that are refused."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _brought(scope) or make_request_id()
        peer = scope.get("client")
        answer = HttpAnswer(request_id, peer[0] if peer else None)
        header = (_HEADER, request_id.encode())

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                if message["status"] >= _REFUSED:
                    REFUSALS.note_answer(message["status"], scope, answer)
                message = {**message, "headers": [*message.get("headers", ()), header]}
            await send(message)

        state = {**scope.get("state", {}), "http": answer}
        await self._app({**scope, "state": state}, receive, send_with_id)


def _brought(scope: Scope) -> str | None:
    """The caller's own id, if there is one that can be used."""
    given = [value for name, value in scope["headers"] if name == _HEADER]
    return given[0].decode() if len(given) == 1 and _WELL_FORMED.fullmatch(given[0]) else None
