"""From the bytes of an event stream to frames, with a cap on what one event may hold."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import httpx
from httpx_sse import EventSource, ServerSentEvent, SSEError

from gateway.errors import CATALOGUE, StreamBroken
from gateway.operations import JsonObject

EVENT_BYTES = 1024 * 1024
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")


class _Capped(httpx.AsyncByteStream):
    """A byte stream that fails once an event grows past the cap: httpx-sse would buffer it for ever."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        since_last_event = 0
        async for chunk in self._response.aiter_bytes():
            head, blank_line, tail = chunk.replace(b"\r", b"").rpartition(b"\n\n")
            if since_last_event + len(head if blank_line else tail) > EVENT_BYTES:
                raise StreamBroken("upstream_error", "The platform sent an event that is too large.")
            since_last_event = len(tail) if blank_line else since_last_event + len(tail)
            yield chunk


async def frames(response: httpx.Response) -> AsyncGenerator[JsonObject, None]:
    """The frames of an answer, `done` last.

    Raises:
        StreamBroken: the stream said `error`, sent what is no frame, or ended without `done`.
    """
    capped = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Capped(response))
    async with aclosing(EventSource(capped).aiter_sse()) as events:
        try:
            async for event in events:
                frame = _frame(event)
                if frame["type"] == "error":
                    raise _from_error_frame(frame)
                yield frame
                if frame["type"] == "done":
                    return
        except (httpx.TransportError, SSEError) as error:
            raise StreamBroken("stream_truncated") from error
    raise StreamBroken("stream_truncated")


def _frame(event: ServerSentEvent) -> JsonObject:
    try:
        data = event.json()
    except ValueError as error:
        raise StreamBroken("upstream_error", "The platform sent an event that is not JSON.") from error
    if not isinstance(data, dict):
        raise StreamBroken("upstream_error", "The platform sent an event that is not an object.")
    return {**data, "type": event.event if event.event != "message" else str(data.get("type", "message"))}


def _from_error_frame(frame: JsonObject) -> StreamBroken:
    """The platform's code passes, its text does not: nobody knows what it quotes."""
    said, retryable = frame.get("code"), frame.get("retryable")
    code = said if isinstance(said, str) and said in CATALOGUE else "upstream_error"
    extra = {"upstream_code": said} if isinstance(said, str) and said != code and _CODE.fullmatch(said) else {}
    return StreamBroken(
        code,
        "The platform reported an error while it was answering.",
        retryable=retryable if isinstance(retryable, bool) else None,
        extra=extra,
    )
