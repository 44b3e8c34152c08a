"""Request bodies, read in one place: how large, how fast, of what shape, and how many bytes of all of them at once."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.auth.access import http_answer, without_id
from gateway.http.json_shape import BadShape, JsonShape, check_whole
from gateway.operations.caller import LOCAL
from gateway.operations.errors import GatewayError
from gateway.operations.shared_timer import SharedTimer

# A body up to this size is always let in: how many may be under way at once is limited by calls.
SMALL: Final = 64 * 1024
_RETRY_SECONDS: Final = 2
_PLAIN: Final = {b"content-encoding": b"identity", b"transfer-encoding": b"chunked"}


class _Refused(Exception):
    """The rest of this body is not read."""

    def __init__(self, answer: JSONResponse, reason: str) -> None:
        self.answer, self.reason = answer, reason


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a body must come: all of it in some time, and some of it in every part of that time."""

    seconds: float = 120.0
    pause: float = 10.0
    least: int = 160 * 1024


class Admission:
    """Reads each body whole before anything below sees the request.

    Counts the bytes of all large bodies, from when they come until their call is answered. Bytes that are only
    announced take no room.
    """

    def __init__(
        self, app: ASGIApp, room: int, largest: int, pace: Pace | None = None, *, is_json: bool = True
    ) -> None:
        """`is_json` is whether bodies must have the shape of MCP's messages."""
        self._app, self.is_json = app, is_json
        self._room, self._largest = max(room, largest), largest
        self.pace = pace or Pace()
        self.timer = SharedTimer()
        self.held = 0
        self._by_caller: defaultdict[str, int] = defaultdict(int)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # All methods but POST are refused below.
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = _Body(self, scope.get("state", {}).get("principal", LOCAL).partition)
        try:
            _check_encoding(scope)
            self.check_size(_announced(scope))
            await body.read(receive)
            if body.is_whole:
                await self._app(scope, body.hand_on(receive), send)
        except _Refused as refused:
            http_answer(scope).reason = refused.reason
            # What was read is not needed any more, however slowly the client takes its answer.
            body.release()
            await refused.answer(scope, receive, send)
        finally:
            body.release()

    def check_size(self, size: int) -> None:
        if size > self._largest:
            raise _refusal(413, "payload_too_large", "The request body is larger than BRAINS_MAX_BODY.")

    def has_room(self, caller: str, size: int) -> bool:
        """Room for all bodies. One caller never has more than half of it, unless one body alone is as large."""
        mine = self._by_caller.get(caller, 0) + size
        return self.held + size <= self._room and mine <= max(self._room // 2, self._largest)

    def count(self, caller: str, size: int) -> None:
        self.held += size
        self._by_caller[caller] += size
        if not self._by_caller[caller]:
            del self._by_caller[caller]


class _Body:
    """One body, as it comes."""

    def __init__(self, admission: Admission, caller: str) -> None:
        self._admission, self._caller = admission, caller
        self._shape: JsonShape | None = None
        self._parts: list[bytes] = []
        self._size = self._counted = 0
        self.is_whole = False

    async def read(self, receive: Receive) -> None:
        """Read the whole body, unless the client leaves before its end."""
        pace, now = self._admission.pace, asyncio.get_running_loop().time
        end, since = now() + pace.seconds, 0
        until = min(end, now() + pace.pause)
        while not self.is_whole:
            try:
                with self._admission.timer.limit(until - now()):
                    message = await receive()
            except TimeoutError:
                raise _too_slow() from None
            if message["type"] != "http.request":
                return
            part = message.get("body", b"")
            self.is_whole = not message.get("more_body", False)
            self._add(part)
            since += len(part)
            if since >= pace.least:
                until, since = min(end, now() + pace.pause), 0

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        self._admission.check_size(self._size)
        if self._size > SMALL:
            self._hold(self._size - self._counted)
        try:
            if not self._admission.is_json:
                pass
            elif self.is_whole and self._shape is None:
                check_whole(part)
            else:
                self._shape = self._shape or JsonShape()
                self._shape.add(part)
        except BadShape as bad:
            error = {"code": bad.code, "message": bad.message}
            answer = JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)
            raise _Refused(answer, bad.message) from None
        self._parts.append(part)

    def _hold(self, size: int) -> None:
        if not self._admission.has_room(self._caller, size):
            raise _no_room()
        self._admission.count(self._caller, size)
        self._counted += size

    def hand_on(self, receive: Receive) -> Receive:
        """For the application: first the whole body, then whether the client still waits for the answer."""
        said: list[Message] = [{"type": "http.request", "body": b"".join(self._parts), "more_body": False}]
        self._parts.clear()

        async def hand_on() -> Message:
            return said.pop() if said else await receive()

        return hand_on

    def release(self) -> None:
        if self._counted:
            self._admission.count(self._caller, -self._counted)
            self._counted = 0


def _announced(scope: Scope) -> int:
    said = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return int(said) if said.isdigit() and len(said) < 16 else 0


def _check_encoding(scope: Scope) -> None:
    """Refuse a compressed body: it is not unpacked here, and must not be read as JSON."""
    if any(name in _PLAIN and value.lower() != _PLAIN[name] for name, value in scope["headers"]):
        raise _refusal(415, "validation_error", "Send the body as it is: what is compressed is not unpacked.")


def _refusal(status: int, code: str, message: str) -> _Refused:
    return _Refused(JSONResponse({"code": code, "message": message, "retryable": False}, status), message)


def _no_room() -> _Refused:
    return _try_again(503, "Too many large requests are under way. Send it again in a moment.")


def _too_slow() -> _Refused:
    # Closed, so that the rest of a slow body is not waited for. After other refusals, clients may go on sending.
    return _try_again(408, "The body of the request did not come in time. Send it again.", connection="close")


def _try_again(status: int, message: str, **headers: str) -> _Refused:
    error = GatewayError("upstream_unavailable", message, retry_after_seconds=_RETRY_SECONDS)
    answer = JSONResponse(without_id(error), status, {"retry-after": str(_RETRY_SECONDS), **headers})
    return _Refused(answer, message)
