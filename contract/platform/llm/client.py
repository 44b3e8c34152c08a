"""Chat with a model behind an OpenAI-compatible address: streamed, within deadlines and sizes.

Whatever goes wrong is the last thing that a stream yields, as a value. The log is told what each call took, and nothing
of what was asked or answered.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeAlias

import httpx
import structlog

from contract.platform.llm import outcome
from contract.platform.llm.outcome import Failed, Finished
from contract.platform.models import ModelEndpoint
from contract.platform.wire import JsonObject

log = structlog.get_logger()

Message: TypeAlias = Mapping[str, str]
Piece: TypeAlias = str | Finished | Failed

LINE_BYTES: Final = 1024 * 1024
STREAM_BYTES: Final = 16 * 1024 * 1024
# A token is about so many bytes, where nobody has counted.
BYTES_OF_A_TOKEN: Final = 4
MOST_TOKENS: Final = 2048
# A request that is refused so may be taken without what some servers do not know.
_PICKY: Final = frozenset({400, 422})


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Limits in seconds. Shorter than those of the gateway, so that it still gets our error.

    The first is also shorter than the minute that many MCP clients wait for a tool: they still get the answer by rule.
    """

    connect: float = 5.0
    first: float = 50.0
    idle: float = 30.0
    whole: float = 240.0


@dataclass(slots=True)
class _Heard:
    """What came of one call so far, and until when more must come."""

    due: float
    end: float
    characters: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reason: str | None = None
    is_done: bool = False
    failure: Failed | None = None


@dataclass
class Chat:
    """One model. A call opens a connection of its own, so that nothing of one caller is there for the next."""

    endpoint: ModelEndpoint
    deadlines: Deadlines = field(default_factory=Deadlines)
    last: Finished | Failed | None = None
    """How the last call with our own key ended."""
    _is_plain: bool = False

    def status(self) -> JsonObject:
        """Which model answers, and whether it did when it was last asked."""
        named: JsonObject = {"name": self.endpoint.model, "source": "endpoint"}
        if isinstance(self.last, Failed):
            return {**named, "state": "failing", "error": self.last.message}
        return {**named, "state": "unknown" if self.last is None else "ready"}

    async def stream(
        self, task: str, messages: Sequence[Message], key: str | None = None, most_tokens: int = MOST_TOKENS
    ) -> AsyncGenerator[Piece, None]:
        """What the model says, piece by piece; then how it ended.

        With a `key`, the caller's, ours is not used.
        """
        began = asyncio.get_running_loop().time()
        heard = _Heard(began + self.deadlines.first, began + self.deadlines.whole)
        result: Finished | Failed | None = None
        try:
            async with aclosing(self._pieces(messages, key, most_tokens, heard)) as pieces:
                async for piece in pieces:
                    heard.characters += len(piece)
                    yield piece
            result = self._result(heard, messages)
        except (TimeoutError, httpx.TimeoutException):
            result = outcome.TIMED_OUT
        except httpx.ConnectError:
            result = outcome.UNREACHABLE
        except (httpx.HTTPError, httpx.InvalidURL):
            result = outcome.CUT_OFF if heard.characters else outcome.UNREACHABLE
        finally:
            self._note(task, began, heard, messages, result, is_own=key is None)
        yield result

    async def complete(
        self,
        task: str,
        messages: Sequence[Message],
        key: str | None = None,
        most_tokens: int = MOST_TOKENS,
        *,
        fence: str | None = None,
    ) -> str | Failed:
        """All that the model says, or why not. Once it repeats the fence it has lost its way, and is stopped."""
        said = ""
        async with aclosing(self.stream(task, messages, key, most_tokens)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Failed):
                    return piece
                if isinstance(piece, str):
                    said += piece
                    if fence is not None and fence in said[-len(piece) - len(fence) :]:
                        return outcome.REPEATED
        return said

    async def _pieces(
        self, messages: Sequence[Message], key: str | None, most_tokens: int, heard: _Heard
    ) -> AsyncGenerator[str, None]:
        timeout = httpx.Timeout(None, connect=self.deadlines.connect)
        shown = key or self.endpoint.key
        headers = {"content-type": "application/json", **({"authorization": f"Bearer {shown}"} if shown else {})}
        async with httpx.AsyncClient(timeout=timeout, trust_env=False, verify=_trusted()) as http:
            for is_plain in dict.fromkeys((self._is_plain, True)):
                body = self._body(messages, most_tokens, is_plain=is_plain)
                address = self.endpoint.address("chat/completions")
                # In ASCII: nothing that a note holds can fail to be sent.
                request = http.build_request("POST", address, content=json.dumps(body).encode(), headers=headers)
                async with asyncio.timeout_at(heard.due):
                    response = await http.send(request, stream=True)
                async with aclosing(response):
                    if response.status_code in _PICKY and not is_plain:
                        continue
                    # What refuses both ways was refused for another reason.
                    if response.status_code == httpx.codes.OK:
                        self._is_plain = is_plain
                    async with aclosing(_read(response, self.deadlines.idle, heard)) as pieces:
                        async for piece in pieces:
                            yield piece
                return

    def _body(self, messages: Sequence[Message], most_tokens: int, *, is_plain: bool) -> dict[str, Any]:
        body = {"model": self.endpoint.model, "messages": [dict(message) for message in messages], "stream": True}
        more = {"temperature": 0, "max_tokens": most_tokens, "stream_options": {"include_usage": True}}
        return body if is_plain else {**body, **more}

    def _result(self, heard: _Heard, messages: Sequence[Message]) -> Finished | Failed:
        if heard.failure is not None:
            return heard.failure
        if not heard.is_done and heard.reason is None:
            return outcome.CUT_OFF if heard.characters else outcome.SAID_NOTHING
        if not heard.characters:
            return outcome.SAID_NOTHING
        prompt, completion = _tokens(heard, messages)
        is_told = heard.prompt_tokens is not None and heard.completion_tokens is not None
        return Finished(prompt, completion, not is_told, is_cut=heard.reason == "length")

    def _note(
        self,
        task: str,
        began: float,
        heard: _Heard,
        messages: Sequence[Message],
        result: Finished | Failed | None,
        *,
        is_own: bool,
    ) -> None:
        if result is not None and is_own:
            self.last = result
        prompt, completion = _tokens(heard, messages)
        log.log(
            30 if isinstance(result, Failed) else 20,
            "model_call",
            task=task,
            model=self.endpoint.model,
            seconds=round(asyncio.get_running_loop().time() - began, 3),
            prompt_tokens=prompt,
            completion_tokens=completion,
            estimated=heard.completion_tokens is None,
            # Who asked may have left before it ended, or have heard that it goes nowhere.
            outcome="stopped" if result is None else result.code if isinstance(result, Failed) else "ok",
        )


def _tokens(heard: _Heard, messages: Sequence[Message]) -> tuple[int, int]:
    """Of the prompt and of the answer: as the provider counts, or estimated."""
    asked = sum(len(message["content"]) for message in messages) // BYTES_OF_A_TOKEN
    said = heard.characters // BYTES_OF_A_TOKEN
    return (
        asked if heard.prompt_tokens is None else heard.prompt_tokens,
        said if heard.completion_tokens is None else heard.completion_tokens,
    )


@cache
def _trusted() -> ssl.SSLContext:
    """Made once: it takes longer than a connection."""
    return ssl.create_default_context()


async def _read(response: httpx.Response, idle: float, heard: _Heard) -> AsyncGenerator[str, None]:
    if response.status_code != 200:
        heard.failure = outcome.of_status(response.status_code, response.headers.get("retry-after"))
        return
    # A server that does not stream says all at once.
    is_whole = "application/json" in response.headers.get("content-type", "")
    async with aclosing(_whole(response, heard) if is_whole else _events(response, heard)) as events:
        async for event in events:
            if event == b"[DONE]":
                heard.is_done = True
                return
            # What is no event, as comments are, keeps no silent model alive.
            heard.due = asyncio.get_running_loop().time() + idle
            if (piece := _piece(event, heard)) is None:
                return
            if piece:
                yield piece


def _piece(line: bytes, heard: _Heard) -> str | None:
    """What one event says, perhaps nothing; None where there is no use in reading on."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict) or event.get("error"):
        heard.failure = outcome.NO_SENSE
        return None
    _count(event.get("usage"), heard)
    choices = event.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        # The last event may hold the count of tokens alone.
        return ""
    reason = choice.get("finish_reason")
    heard.reason = reason if isinstance(reason, str) else heard.reason
    said = choice.get("delta") or choice.get("message") or {}
    content = said.get("content") if isinstance(said, dict) else None
    return content if isinstance(content, str) else ""


def _count(usage: object, heard: _Heard) -> None:
    if isinstance(usage, dict):
        counted = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
        if all(isinstance(count, int) and 0 <= count < 10**9 for count in counted):
            heard.prompt_tokens, heard.completion_tokens = counted


async def _whole(response: httpx.Response, heard: _Heard) -> AsyncGenerator[bytes, None]:
    body = bytearray()
    async with aclosing(_chunks(response, heard)) as chunks:
        async for chunk in chunks:
            body += chunk
    if heard.failure is None:
        yield bytes(body)
        yield b"[DONE]"


async def _events(response: httpx.Response, heard: _Heard) -> AsyncGenerator[bytes, None]:
    """The data of each event. Every server of this kind writes an event on one line."""
    rest = b""
    async with aclosing(_chunks(response, heard)) as chunks:
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > LINE_BYTES:
                heard.failure = outcome.TOO_LONG
                return
            for line in lines:
                if line.startswith(b"data:") and (data := line[5:].strip()):
                    yield data
    if rest.startswith(b"data:") and heard.failure is None:
        yield rest[5:].strip()


async def _chunks(response: httpx.Response, heard: _Heard) -> AsyncGenerator[bytes, None]:
    """The body as it comes, as long as it comes in time and is not too much."""
    size = 0
    chunks = response.aiter_bytes()
    while True:
        try:
            # Never around a yield, because the timeout would then cancel the reader of a piece instead.
            async with asyncio.timeout_at(min(heard.due, heard.end)):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        if (size := size + len(chunk)) > STREAM_BYTES:
            heard.failure = outcome.TOO_LONG
            return
        yield chunk
