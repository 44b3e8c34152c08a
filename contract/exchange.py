"""Sends one request within time limits and caps, and reads its answer. A failure is one sentence."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import httpx

from contract.case import Filled, Request, Upload
from contract.fill import filled
from contract.words import cut, shown

LARGEST_ANSWER: Final = 64 * 1024 * 1024
MOST_EVENTS: Final = 10_000
WRONG_TOKEN: Final = "not-the-token-of-anybody"
NO_JSON: Final = object()


class NoAnswer(Exception):
    """There was no whole answer; the text is one sentence. `dead` says that no server seems to be there."""

    def __init__(self, sentence: str, *, dead: bool = False) -> None:
        super().__init__(sentence)
        self.dead = dead


class NoConnection(NoAnswer):
    """No server is there at all."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, dead=True)


@dataclass(frozen=True)
class Frame:
    """One server-sent event. Data that is not JSON stays text."""

    event: str
    data: Any


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    take: int | None = None

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON, or NO_JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return NO_JSON

    def frames(self) -> list[Frame]:
        """The events of a stream; if it has no end, those that were asked for."""
        frames = parsed_events(self.text)
        return frames if self.take is None else _told(frames)[: self.take]

    def told(self) -> str:
        """The answer in one line."""
        kind = f" {self.media_type}" if self.media_type else ""
        return f"{self.status}{kind} {cut(self.text, 400)}".rstrip()


def parsed_events(text: str) -> list[Frame]:
    """The events of a stream, as browsers read them. A last event without its empty line does not count."""
    frames: list[Frame] = []
    name, data = "message", list[str]()
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if not line:
            if data:
                frames.append(Frame(name, _json_or_text("\n".join(data))))
            name, data = "message", list[str]()
            continue
        key, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if key == "event":
            name = value
        elif key == "data":
            data.append(value)
    return frames


def _told(frames: list[Frame]) -> list[Frame]:
    """The events without pings, which a platform may send at any time."""
    return [frame for frame in frames if frame.event != "ping"]


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def told(request: Request) -> str:
    """The request in one line; never its token."""
    query = "&".join(f"{key}={value}" for key, value in request.query.items())
    line = f"{request.method} {request.path}{'?' if query else ''}{query}"
    if "json_" in request.model_fields_set:
        line += f" {shown(request.json_)}"
    elif request.text is not None:
        line += f" {shown(request.text)}"
    elif request.filled is not None:
        line += f" ({request.filled.bytes} bytes)"
    elif request.file is not None:
        line += f" (a form with the file {request.file.name})"
    return cut(line, 400)


async def exchanged(
    client: httpx.AsyncClient, request: Request, token: str | None, seconds: float, began: asyncio.Event | None = None
) -> Answer:
    """Send a request whose names are filled in, and read its answer to the end; `began` is set by its first event.

    Raises: NoAnswer.
    """
    answer = None
    try:
        async with (
            asyncio.timeout(seconds),
            client.stream(request.method, request.path, **_arguments(request, token)) as response,
        ):
            answer = Answer(response.status_code, dict(response.headers), take=request.take)
            pieces: list[bytes] = []
            async for piece in _pieces(response):
                pieces.append(piece)
                if request.take is not None:
                    answer = replace(answer, body=b"".join(pieces))
                    if answer.frames() and began is not None:
                        began.set()
                    if len(answer.frames()) >= request.take:
                        break
            return replace(answer, body=b"".join(pieces))
    except TimeoutError as error:
        if answer is not None and request.take is not None:
            # The step judges which events are missing.
            return answer
        raise NoAnswer(f"there was no whole answer within {seconds:g} seconds", dead=True) from error
    except httpx.ConnectError as error:
        raise NoConnection(f"there was no connection: {cut(str(error)) or 'refused'}") from error
    except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, UnicodeError, ValueError) as error:
        said = cut(str(error)) or type(error).__name__
        raise NoAnswer(f"the answer broke off or is no HTTP: {said}") from error


async def _pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    size, events = 0, 0
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    async for piece in response.aiter_bytes():
        yield piece
        size += len(piece)
        if size > LARGEST_ANSWER:
            raise NoAnswer(f"the answer is longer than {LARGEST_ANSWER} bytes")
        if is_stream:
            events += piece.count(b"\n\n")
            if events > MOST_EVENTS:
                raise NoAnswer(f"the stream had not ended after {MOST_EVENTS} events")


def _arguments(request: Request, token: str | None) -> dict[str, Any]:
    headers = {key.lower(): value for key, value in request.headers.items()}
    if request.token == "wrong":
        headers["authorization"] = f"Bearer {WRONG_TOKEN}"
    elif request.token == "given" and token is not None:
        headers.setdefault("authorization", f"Bearer {token}")
    arguments: dict[str, Any] = {"headers": headers}
    if request.query:
        arguments["params"] = {key: _plain(value) for key, value in request.query.items()}
    if "json_" in request.model_fields_set:
        headers.setdefault("content-type", "application/json")
        arguments["content"] = json.dumps(request.json_).encode()
    elif request.file is not None:
        arguments |= {"files": _form(request.file), "data": request.file.fields}
    elif (content := _content(request)) is not None:
        arguments["content"] = content
    return arguments


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _content(part: Request | Upload) -> bytes | None:
    if part.text is not None:
        return part.text.encode()
    if part.bytes_base64 is not None:
        return base64.b64decode(part.bytes_base64)
    return None if part.filled is None else _padded(part.filled)


def _padded(body: Filled) -> bytes:
    unit = body.with_.encode()
    return (unit * (body.bytes // len(unit) + 1))[: body.bytes]


def _form(upload: Upload) -> dict[str, tuple[str, bytes, str]]:
    return {upload.field: (upload.name, _content(upload) or b"", upload.content_type)}


def with_names(request: Request, names: Mapping[str, Any]) -> Request:
    """The request with its names filled in."""
    return Request.model_validate(filled(request.model_dump(by_alias=True, exclude_unset=True), names))
