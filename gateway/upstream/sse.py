"""From the bytes of an event stream to frames, within caps.

httpx-sse reads the events. It ends a line at CR, LF and CRLF alone, as the standard has it, so that U+2028 and the like
stay inside an answer. What it leaves to others is done before it sees a byte: the byte order mark is taken off; line
ends become LF, because it holds a CR back until it knows what follows, and with it the event that CR ends; and bytes
are counted, because it would gather an event for ever.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Final

import httpx
from httpx_sse import EventSource, ServerSentEvent, SSEError

from gateway.operations.errors import CATALOGUE, StreamBroken
from gateway.operations.json_text import TooLarge, parse_json
from gateway.operations.table import JsonObject
from gateway.upstream.platform_words import clean_message
from gateway.upstream.wire.request import parts_of

# Some platforms send the whole text of every note they looked at in one event.
EVENT_BYTES = 16 * 1024 * 1024
STREAM_BYTES = 32 * 1024 * 1024
WHOLE_BYTES = 16 * 1024 * 1024
# Of text: what was said in pieces, and what is said at the end.
ANSWER_BYTES = 2 * 1024 * 1024
EVENTS = 100_000
# Five for each event. Comments and blank lines are no events, and cost as much.
LINES = 500_000
# Nobody asks for more than 50 sources.
_CHUNKS: Final = 200
_CITATIONS: Final = 1000
_NO_MODEL = re.compile(r"no llm provider", re.IGNORECASE)
_CODE = re.compile(r"[a-z_]{1,64}")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BLANK_LINE: Final = b"\n\n"
# Other kinds are passed over unread: they keep no stream alive that says nothing.
_FRAMES = frozenset({"retrieve", "answer_delta", "citation", "done", "error"})


async def read_frames(response: httpx.Response, secrets: Sequence[str] = ()) -> AsyncGenerator[JsonObject, None]:
    """The frames of an answer, `done` last. An answer that comes whole, as JSON, is one `done`.

    `secrets` are those that the platform was shown: no error repeats them.

    Raises:
        StreamBroken: the stream said `error`, sent what is no frame or too much, or ended without `done`.
    """
    said = cited = 0
    async with aclosing(_read_unmeasured(response, secrets)) as found:
        async for frame in found:
            if frame["type"] == "citation" and (cited := cited + 1) > _CITATIONS:
                continue
            if frame["type"] == "answer_delta":
                said += _size(frame.get("delta") or frame.get("text"))
            if max(said, _size(frame.get("answer")) if frame["type"] == "done" else 0) > ANSWER_BYTES:
                raise _too_large("an answer that is too long")
            yield frame


async def _read_unmeasured(response: httpx.Response, secrets: Sequence[str]) -> AsyncGenerator[JsonObject, None]:
    media_type = response.headers.get("content-type", "text/event-stream").lower()
    if "," in response.headers.get("content-encoding", ""):
        # Packed twice, a few bytes can hold more than there is memory for.
        raise StreamBroken("upstream_error", "The platform's answer is packed in more than one way.")
    if media_type.partition(";")[0].strip() == "application/json":
        for part in _frames_of_whole(await _whole(response)):
            yield part
        return
    if "text/event-stream" not in media_type:
        raise StreamBroken("upstream_error", "The platform's answer is not a stream of events.")
    try:
        async with aclosing(_events(response)) as events:
            async for event in events:
                if (frame := _frame(event)) is None:
                    continue
                if frame["type"] == "error":
                    raise _from_error_frame(frame, secrets)
                yield frame
                if frame["type"] == "done":
                    return
    except httpx.TimeoutException as error:
        raise StreamBroken("timeout", "The platform stopped sending its answer.") from error
    except (httpx.HTTPError, SSEError) as error:
        raise StreamBroken("stream_truncated") from error
    raise StreamBroken("stream_truncated")


async def _events(response: httpx.Response) -> AsyncGenerator[ServerSentEvent, None]:
    """The events that say something, so many and no more."""
    clean = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Clean(response))
    count = 0
    async with aclosing(EventSource(clean).aiter_sse()) as events:
        async for event in events:
            # An error without a word is one all the same.
            if not event.data and event.event != "error":
                continue
            if (count := count + 1) > EVENTS:
                raise _too_large("more events than an answer needs")
            yield event


class _Clean(httpx.AsyncByteStream):
    """The bytes of a stream without a byte order mark, every line ended by LF, until there are too many of them."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        after_cr = False
        total = event = lines = 0
        tail = b""
        async with aclosing(_strip_mark(self._response)) as chunks:
            async for chunk in chunks:
                if (total := total + len(chunk)) > STREAM_BYTES:
                    raise _too_large("a stream that is too long")
                if b"\r" in chunk or after_cr:
                    # The LF of a CRLF may come in the next chunk: its CR has ended the line already.
                    unended = chunk[1:] if after_cr and chunk.startswith(b"\n") else chunk
                    after_cr = chunk.endswith(b"\r")
                    chunk = unended.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
                if (lines := lines + chunk.count(b"\n")) > LINES:
                    raise _too_large("more lines than an answer needs")
                # A blank line may come in two chunks, so the last byte of one is looked at again with the next.
                *ended, begun = (tail + chunk).split(_BLANK_LINE)
                for part in ended:
                    _check(event + len(part))
                    event = 0
                _check(event + len(begun))
                tail = begun[-1:]
                event += len(begun) - len(tail)
                if chunk:
                    yield chunk


async def _strip_mark(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """What a response says, after the byte order mark it may begin with, however that is cut."""
    head: bytes | None = b""
    async for chunk in parts_of(response):
        if head is not None:
            chunk = head + chunk
            if len(chunk) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(chunk):
                head = chunk
                continue
            head, chunk = None, chunk.removeprefix(_BYTE_ORDER_MARK)
        if chunk:
            yield chunk


def _check(event: int) -> None:
    if event > EVENT_BYTES:
        raise _too_large("an event that is too large")


def _too_large(what: str) -> StreamBroken:
    return StreamBroken("upstream_error", f"The platform sent {what}.")


def _size(text: object) -> int:
    return len(text.encode()) if isinstance(text, str) else 0


async def _whole(response: httpx.Response) -> JsonObject:
    body = bytearray()
    try:
        async for chunk in parts_of(response):
            body += chunk
            if len(body) > WHOLE_BYTES:
                raise StreamBroken("upstream_error", "The platform's answer is too large.")
        if isinstance(answer := parse_json(bytes(body)), dict) and isinstance(answer.get("answer"), str):
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
        _check_frame({"type": "retrieve", "chunks": retrieved}),
        *({**c, "type": "citation"} for c in (citations if isinstance(citations, list) else []) if isinstance(c, dict)),
        {**answer, "type": "done"},
    ]


def _frame(event: ServerSentEvent) -> JsonObject | None:
    """What an event says; None for one of a kind that is not ours to read."""
    if event.event not in _FRAMES and event.event != "message":
        return None
    try:
        if not isinstance(data := parse_json(event.data), dict):
            raise ValueError("not an object")
    except TooLarge as error:
        raise _too_large("an event that is too large") from error
    except ValueError as error:
        raise StreamBroken("upstream_error", "The platform sent an event that is not a JSON object.") from error
    kind = event.event if event.event != "message" else data.get("type")
    return _check_frame({**data, "type": kind}) if isinstance(kind, str) and kind in _FRAMES else None


def _check_frame(frame: JsonObject) -> JsonObject:
    """A frame whose parts can be used without a look; null is nothing."""
    match frame["type"]:
        case "retrieve":
            chunks = frame.get("chunks") or []
            if not isinstance(chunks, list) or not all(isinstance(chunk, dict) for chunk in chunks[:_CHUNKS]):
                raise StreamBroken("upstream_error", "The platform's answer has no list of results.")
            # Whoever must know all that an answer draws on is told that this is not all.
            cut = {"is_cut": True} if len(chunks) > _CHUNKS else {}
            return {**frame, "chunks": chunks[:_CHUNKS], **cut}
        case "answer_delta":
            frame = {key: value for key, value in frame.items() if key not in {"delta", "text"} or value is not None}
            if not all(isinstance(frame.get(key, ""), str) for key in ("delta", "text")):
                raise StreamBroken("upstream_error", "The platform sent a piece of an answer that is no text.")
    return frame


def _from_error_frame(frame: JsonObject, secrets: Sequence[str]) -> StreamBroken:
    """The platform's own code and message, as far as they can be shown: nobody knows what it quotes."""
    if _NO_MODEL.search(str(frame.get("message"))):
        message = "The platform has no language model to answer with. Configure one there; search and recall need none."
        return StreamBroken("not_implemented", message)
    said, retryable = frame.get("code"), frame.get("retryable")
    own = said if isinstance(said, str) and _CODE.fullmatch(said) and not any(s in said for s in secrets) else None
    return StreamBroken(
        own if own is not None and own in CATALOGUE else "upstream_error",
        clean_message(frame.get("message"), secrets) or "The platform reported an error while it was answering.",
        retryable=retryable if isinstance(retryable, bool) else None,
        stream_code=own,
    )
