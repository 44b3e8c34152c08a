"""From the bytes of an event stream to frames, with a cap on what one event may hold."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import httpx
from httpx_sse import EventSource, ServerSentEvent, SSEError

from gateway.errors import CATALOGUE, StreamBroken
from gateway.operations import JsonObject
from gateway.upstream.dialect import parsed_json

# Some platforms send the whole text of every note they looked at in one event.
EVENT_BYTES = 48 * 1024 * 1024
WHOLE_BYTES = 16 * 1024 * 1024
_NO_MODEL = re.compile(r"no llm provider", re.IGNORECASE)
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
_LONGEST_BLANK_LINE = 4
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FRAMES = frozenset({"retrieve", "answer_delta", "citation", "done", "error", "message"})


class _Capped(httpx.AsyncByteStream):
    """A byte stream that fails once an event grows past the cap: httpx-sse would buffer it for ever."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, tail = -1, b""
        async for chunk in self._response.aiter_bytes():
            if size < 0:
                size, chunk = 0, chunk.removeprefix(_BYTE_ORDER_MARK)
            # A blank line may come in two chunks, so the end of one is looked at again with the next.
            window, start = tail + chunk, 0
            for blank in _BLANK_LINE.finditer(window):
                _check(size + blank.start() - start)
                size, start = 0, blank.end()
            tail = window[max(start, len(window) - _LONGEST_BLANK_LINE + 1) :]
            size += len(window) - start - len(tail)
            _check(size + len(tail))
            yield chunk


def _check(size: int) -> None:
    if size > EVENT_BYTES:
        raise StreamBroken("upstream_error", "The platform sent an event that is too large.")


async def frames(response: httpx.Response) -> AsyncGenerator[JsonObject, None]:
    """The frames of an answer, `done` last. An answer that comes whole, as JSON, is one `done`.

    Raises:
        StreamBroken: the stream said `error`, sent what is no frame, or ended without `done`.
    """
    media_type = response.headers.get("content-type", "text/event-stream")
    if media_type.partition(";")[0].strip() == "application/json":
        for part in _frames_of_whole(await _whole(response)):
            yield part
        return
    if "text/event-stream" not in media_type:
        raise StreamBroken("upstream_error", "The platform's answer is not a stream of events.")
    capped = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Capped(response))
    async with aclosing(EventSource(capped).aiter_sse()) as events:
        try:
            async for event in events:
                if (frame := _frame(event)) is None:
                    continue
                if frame["type"] == "error":
                    raise _from_error_frame(frame)
                yield frame
                if frame["type"] == "done":
                    return
        except httpx.TimeoutException as error:
            raise StreamBroken("timeout", "The platform stopped sending its answer.") from error
        except (httpx.HTTPError, SSEError) as error:
            raise StreamBroken("stream_truncated") from error
    raise StreamBroken("stream_truncated")


async def _whole(response: httpx.Response) -> JsonObject:
    body = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > WHOLE_BYTES:
                raise StreamBroken("upstream_error", "The platform's answer is too large.")
        if isinstance(answer := parsed_json(bytes(body)), dict) and isinstance(answer.get("answer"), str):
            return answer
    except ValueError:
        pass
    except httpx.TimeoutException as error:
        raise StreamBroken("timeout", "The platform stopped sending its answer.") from error
    except httpx.HTTPError as error:
        raise StreamBroken("stream_truncated") from error
    raise StreamBroken("upstream_error", "The platform's answer is neither a stream of events nor an answer.")


def _frames_of_whole(answer: JsonObject) -> list[JsonObject]:
    retrieved, citations = answer.get("retrieved"), answer.get("citations")
    return [
        _checked({"type": "retrieve", "chunks": retrieved}),
        *({**c, "type": "citation"} for c in (citations if isinstance(citations, list) else []) if isinstance(c, dict)),
        {**answer, "type": "done"},
    ]


def _frame(event: ServerSentEvent) -> JsonObject | None:
    """What an event says; None for one that says nothing: without data, or of a kind that is not ours to read."""
    if not event.data:
        return None
    try:
        if not isinstance(data := parsed_json(event.data), dict):
            raise ValueError("not an object")
    except ValueError as error:
        if event.event not in _FRAMES:
            return None
        raise StreamBroken("upstream_error", "The platform sent an event that is not a JSON object.") from error
    return _checked({**data, "type": event.event if event.event != "message" else str(data.get("type", "message"))})


def _checked(frame: JsonObject) -> JsonObject:
    """A frame whose parts can be used without a look; null is nothing."""
    match frame["type"]:
        case "retrieve":
            chunks = frame.get("chunks") or []
            if not isinstance(chunks, list) or not all(isinstance(chunk, dict) for chunk in chunks):
                raise StreamBroken("upstream_error", "The platform's answer has no list of results.")
            return {**frame, "chunks": chunks}
        case "answer_delta":
            frame = {key: value for key, value in frame.items() if key not in {"delta", "text"} or value is not None}
            if not all(isinstance(frame.get(key, ""), str) for key in ("delta", "text")):
                raise StreamBroken("upstream_error", "The platform sent a piece of an answer that is no text.")
    return frame


def _from_error_frame(frame: JsonObject) -> StreamBroken:
    """The platform's code passes, its text does not: nobody knows what it quotes."""
    if _NO_MODEL.search(str(frame.get("message"))):
        message = "The platform has no language model to answer with. Configure one there; search and recall need none."
        return StreamBroken("not_implemented", message)
    said, retryable = frame.get("code"), frame.get("retryable")
    code = said if isinstance(said, str) and said in CATALOGUE else "upstream_error"
    extra = {"upstream_code": said} if isinstance(said, str) and said != code and _CODE.fullmatch(said) else {}
    return StreamBroken(
        code,
        "The platform reported an error while it was answering.",
        retryable=retryable if isinstance(retryable, bool) else None,
        extra=extra,
    )
