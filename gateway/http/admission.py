"""How many bytes of request bodies are held at once: beyond that callers wait, and memory does not run out."""

import asyncio
from collections import defaultdict
from typing import Final

import structlog
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.auth.access import without_id
from gateway.operations.caller import LOCAL
from gateway.operations.errors import GatewayError

log = structlog.get_logger()

_RETRY_SECONDS: Final = 2
_BODY_SECONDS: Final = 120.0
_NO_ROOM: Final = (503, "Too many large requests are under way. Send it again in a moment.")
_TOO_SLOW: Final = (408, "The body of the request did not come in time. Send it again.")


class _Stopped(Exception):
    """No more of this body is taken in."""


class Admission:
    """Counts the bytes of all bodies from when they come in until their call is answered."""

    def __init__(self, app: ASGIApp, room: int, largest: int, body_seconds: float = _BODY_SECONDS) -> None:
        self._app = app
        self._room, self.largest = max(room, largest), largest
        self.body_seconds = body_seconds
        self.held = 0
        self._by_caller: defaultdict[str, int] = defaultdict(int)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        caller = scope.get("state", {}).get("principal", LOCAL).partition
        body = _Body(self, caller, receive, send)
        try:
            body.expect(_announced(scope, self.largest))
            await self._app(scope, body.receive, body.send)
        except _Stopped:
            pass
        finally:
            body.release()
        if body.stopped is not None:
            status, message = body.stopped
            log.warning("http.refused", status=status, path=scope["path"])
            error = GatewayError("upstream_unavailable", message, retry_after_seconds=_RETRY_SECONDS)
            # Whoever is slow is not waited for; others can still be told while they send.
            hang_up = {"connection": "close"} if status == _TOO_SLOW[0] else {}
            headers = {"retry-after": str(_RETRY_SECONDS), **hang_up}
            await JSONResponse(without_id(error), status, headers)(scope, receive, send)

    def has_room(self, caller: str, size: int) -> bool:
        """Room for all, of which one caller never has more than half, unless one body alone is as large."""
        mine = self._by_caller[caller] + size
        return self.held + size <= self._room and mine <= max(self._room // 2, self.largest)

    def count(self, caller: str, size: int) -> None:
        self.held += size
        self._by_caller[caller] += size
        if not self._by_caller[caller]:
            del self._by_caller[caller]


class _Body:
    """One body as it comes in. Once it is stopped nothing that is said below of it gets out."""

    def __init__(self, admission: Admission, caller: str, receive: Receive, send: Send) -> None:
        self._admission, self._caller = admission, caller
        self._receive, self._send = receive, send
        self._counted = self._came = 0
        self._whole = self._answered = False
        self._until: float | None = None
        self.stopped: tuple[int, str] | None = None

    def expect(self, size: int) -> None:
        """Room for what is announced, before any of it is read."""
        if size <= self._counted:
            return
        if not self._admission.has_room(self._caller, size - self._counted):
            raise self._stop(_NO_ROOM)
        self._admission.count(self._caller, size - self._counted)
        self._counted = size

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()
        self._until = self._until or asyncio.get_running_loop().time() + self._admission.body_seconds
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise self._stop(_TOO_SLOW) from None
        if message["type"] == "http.request":
            self._came += len(message.get("body", b""))
            # What is too large for any call is refused by its size, elsewhere.
            self.expect(min(self._came, self._admission.largest))
            self._whole = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if self.stopped is None:
            self._answered = True
            await self._send(message)

    def release(self) -> None:
        self._admission.count(self._caller, -self._counted)
        self._counted = 0

    def _stop(self, why: tuple[int, str]) -> _Stopped:
        if not self._answered:
            self.stopped = why
        return _Stopped()


def _announced(scope: Scope, largest: int) -> int:
    """What a body says it holds; one that is too large for any call is refused elsewhere."""
    said = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    size = int(said) if said.isdigit() and len(said) < 16 else 0
    return size if size <= largest else 0
