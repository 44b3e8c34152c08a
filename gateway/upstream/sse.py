"""Turns the bytes of an event stream into frames, within caps.

Frames that come together stay together: each layer above handles them as one group, and they leave in one write.
"""

import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Final

import httpx
from httpx_sse._decoders import SSEDecoder

from gateway.operations.errors import CATALOGUE, StreamBroken
from gateway.operations.json_text import TooLarge, parse_json
from gateway.operations.table import JsonObject
from gateway.upstream.platform_words import clean_message
from gateway.upstream.wire.request import parts_of

# Some platforms send the whole text of every note they looked at in one event.
EVENT_BYTES = 16 * 1024 * 1024
STREAM_BYTES = 32 * 1024 * 1024
WHOLE_BYTES = 16 * 1024 * 1024
# The cap for text: that of all pieces, and that of the end.
ANSWER_BYTES = 2 * 1024 * 1024
EVENTS = 100_000
# Five for each event. Comments and blank lines are no events, and cost as much.
LINES = 500_000
# No client asks for more than 50 sources.
_CHUNKS: Final = 200
_CITATIONS: Final = 1000
_NO_MODEL = re.compile(r"no llm provider", re.IGNORECASE)
_CODE = re.compile(r"[a-z_]{1,64}")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BLANK_LINE: Final = b"\n\n"
# Other kinds are ignored unread, so they do not keep a silent stream alive.
_FRAMES = frozenset({"retrieve", "answer_delta", "citation", "done", "error"})


async def read_frames(response: httpx.Response, secrets: Sequence[str] = ()) -> AsyncGenerator[list[JsonObject], None]:
    """The frames of an answer, those together that came together, `done` last.

    An answer that comes whole, as JSON, becomes a `done` and the frames before it. `secrets` are those that the
    platform was shown: no error repeats them.

    Raises:
        StreamBroken: the stream said `error`, sent an invalid frame or too much, or ended without `done`. Frames before
        that were delivered.
    """
    reader = _Reader(secrets)
    if _is_whole(response):
        yield reader.measure(_frames_of_whole(await _whole(response)))
        return
    try:
        async for part in parts_of(response):
            frames, broken = reader.read(part)
            if frames:
                yield frames
            if broken is not None:
                raise broken
            # As above: a platform may think for minutes, and frames that were passed on must not stay in memory
            # meanwhile.
            del part, frames
            if reader.is_done:
                return
    except httpx.TimeoutException as error:
        raise StreamBroken("timeout", "The platform stopped sending its answer.") from error
    except httpx.HTTPError as error:
        raise StreamBroken("stream_truncated") from error
    raise StreamBroken("stream_truncated")


def _is_whole(response: httpx.Response) -> bool:
    media_type = response.headers.get("content-type", "text/event-stream").lower()
    if "," in response.headers.get("content-encoding", ""):
        # If compressed twice, a few bytes can hold more than there is memory for.
        raise StreamBroken("upstream_error", "The platform's answer is packed in more than one way.")
    if media_type.partition(";")[0].strip() == "application/json":
        return True
    if "text/event-stream" not in media_type:
        raise StreamBroken("upstream_error", "The platform's answer is not a stream of events.")
    return False


class _Reader:
    """Makes frames of the parts of a stream."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = secrets
        self._blocks = _Blocks()
        self._decoder = SSEDecoder()
        self._events = self._said = self._cited = 0
        self.is_done = False

    def read(self, part: bytes) -> tuple[list[JsonObject], StreamBroken | None]:
        """The frames that this part completes, and the error that ends the stream after them."""
        frames: list[JsonObject] = []
        try:
            for block in self._blocks.cut(part):
                if (frame := self._frame(block)) is not None:
                    frames.append(frame)
                if self.is_done:
                    break
        except StreamBroken as error:
            return frames, error
        return frames, None

    def measure(self, frames: list[JsonObject]) -> list[JsonObject]:
        return [frame for frame in frames if self._counts(frame)]

    def _frame(self, block: bytes) -> JsonObject | None:
        for line in block.decode("utf-8", "replace").split("\n"):
            self._decoder.decode(line)
        event = self._decoder.decode("")
        # An error without any words is still an error.
        if event is None or (not event.data and event.event != "error"):
            return None
        self._events += 1
        if self._events > EVENTS:
            raise _too_large("more events than an answer needs")
        if (frame := _frame(event.event, event.data)) is None:
            return None
        if frame["type"] == "error":
            raise _from_error_frame(frame, self._secrets)
        return frame if self._counts(frame) else None

    def _counts(self, frame: JsonObject) -> bool:
        """Whether the frame is passed on: the number of citations is limited."""
        match frame["type"]:
            case "answer_delta":
                self._said += _size(frame.get("delta") or frame.get("text"))
            case "citation":
                self._cited += 1
                return self._cited <= _CITATIONS
            case "done":
                self.is_done = True
                self._said = max(self._said, _size(frame.get("answer")))
        if self._said > ANSWER_BYTES:
            raise _too_large("an answer that is too long")
        return True


class _Blocks:
    """Cuts a stream into events, each without its blank line, until there is too much of it.

    A line ends at CR, LF and CRLF alone, as the standard has it: U+2028 and the like stay inside an answer. An event is
    passed on with the byte that ends it, even if that is the CR of a CRLF.
    """

    def __init__(self) -> None:
        self._begun = bytearray()
        self._last = self._mark = b""
        self._is_after_cr, self._is_first = False, True
        self._total = self._lines = 0

    def cut(self, part: bytes) -> Iterator[bytes]:
        self._total += len(part)
        if self._total > STREAM_BYTES:
            raise _too_large("a stream that is too long")
        if self._is_first and not (part := self._without_mark(part)):
            return
        if b"\r" in part or self._is_after_cr:
            part = self._with_lf(part)
        self._lines += part.count(b"\n")
        if self._lines > LINES:
            raise _too_large("more lines than an answer needs")
        # A blank line may be split between two parts, so the last byte of a part is looked at again with the next part.
        *ended, begun = (self._last + part).split(_BLANK_LINE)
        for block in ended:
            if self._begun:
                block, self._begun = bytes(self._begun + block), bytearray()
            _check(len(block))
            yield block
        self._last = begun[-1:]
        self._begun += begun[:-1]
        _check(len(self._begun) + len(self._last))

    def _without_mark(self, part: bytes) -> bytes:
        """The part without a byte order mark at the beginning of the stream; nothing while it may still be one."""
        part = self._mark + part
        if len(part) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(part):
            self._mark = part
            return b""
        self._is_first = False
        return part.removeprefix(_BYTE_ORDER_MARK)

    def _with_lf(self, part: bytes) -> bytes:
        # The LF of a CRLF may come in the next part: its CR has ended the line already.
        rest = part[1:] if self._is_after_cr and part.startswith(b"\n") else part
        self._is_after_cr = part.endswith(b"\r")
        return rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _check(event: int) -> None:
    if event > EVENT_BYTES:
        raise _too_large("an event that is too large")


def _too_large(what: str) -> StreamBroken:
    return StreamBroken("upstream_error", f"The platform sent {what}.")


def _size(text: object) -> int:
    if not isinstance(text, str):
        return 0
    return len(text) if text.isascii() else len(text.encode())


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


def _frame(kind: str, said: str) -> JsonObject | None:
    """What an event says; None for one of a kind that is not ours to read."""
    if kind not in _FRAMES and kind != "message":
        return None
    try:
        if not isinstance(frame := parse_json(said), dict):
            raise ValueError("not an object")
    except TooLarge as error:
        raise _too_large("an event that is too large") from error
    except ValueError as error:
        raise StreamBroken("upstream_error", "The platform sent an event that is not a JSON object.") from error
    if kind != "message":
        frame["type"] = kind
    told = frame.get("type")
    return _check_frame(frame) if isinstance(told, str) and told in _FRAMES else None


def _check_frame(frame: JsonObject) -> JsonObject:
    """A frame whose parts can be used without a look; null is nothing."""
    match frame["type"]:
        case "answer_delta":
            for key in ("delta", "text"):
                if not isinstance(piece := frame.get(key, ""), str):
                    if piece is not None:
                        raise StreamBroken("upstream_error", "The platform sent a piece of an answer that is no text.")
                    del frame[key]
        case "retrieve":
            chunks = frame.get("chunks") or []
            if not isinstance(chunks, list) or not all(isinstance(chunk, dict) for chunk in chunks[:_CHUNKS]):
                raise StreamBroken("upstream_error", "The platform's answer has no list of results.")
            # If all sources of an answer must be known, this says that these are not all.
            cut = {"is_cut": True} if len(chunks) > _CHUNKS else {}
            return {**frame, "chunks": chunks[:_CHUNKS], **cut}
    return frame


def _from_error_frame(frame: JsonObject, secrets: Sequence[str]) -> StreamBroken:
    """The platform's own code and message, as far as they can be shown, because they may quote anything."""
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
