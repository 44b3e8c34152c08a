"""Conversations with an MCP server: requests in the form of each revision, and their answers.

Written without an SDK, because the harness judges what a server really sends.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

import httpx

from contract.exchange import LARGEST_ANSWER, Answer, NoAnswer, NoConnection, parsed_events
from contract.words import cut, shown

JsonObject: TypeAlias = dict[str, Any]

MODERN: Final = "2026-07-28"
HANDSHAKE: Final = "2025-11-25"
# What the client says about itself: no capabilities, so that the server sends it no requests.
CLIENT: Final = {"name": "brains-contract", "version": "1"}
_PREFIX: Final = "io.modelcontextprotocol/"
_NAMED: Final = {"tools/call": "name", "resources/read": "uri", "prompts/get": "name"}
SETUP_SECONDS: Final = 15.0


@dataclass(frozen=True)
class Reply:
    """The answer to one request, with the progress that came before it."""

    result: JsonObject | None = None
    error: JsonObject | None = None
    progress: tuple[JsonObject, ...] = ()
    token: str = ""

    @property
    def structured(self) -> Any:
        return (self.result or {}).get("structuredContent")

    @property
    def is_error(self) -> bool:
        return self.error is not None or bool((self.result or {}).get("isError"))

    @property
    def text(self) -> str:
        """The first text of the result, or the message of the error."""
        if self.error is not None:
            return str(self.error.get("message", ""))
        content = (self.result or {}).get("content")
        first = content[0] if isinstance(content, list) and content else None
        return str(first.get("text", "")) if isinstance(first, dict) else ""

    def told(self) -> str:
        if self.error is not None:
            return f"the protocol's error {shown(self.error, 400)}"
        return shown(self.result, 400)


class Session(Protocol):
    """A server that requests can be sent to."""

    version: str | None
    setup_seconds: float
    server: JsonObject

    async def open(self) -> None:
        """Raises: NoAnswer."""

    async def ask(self, method: str, params: JsonObject, seconds: float) -> Reply:
        """Raises: NoAnswer."""

    async def close(self) -> None: ...


def enveloped(version: str | None, params: JsonObject) -> JsonObject:
    """The parameters as this revision of the protocol wants them."""
    if version != MODERN:
        return params
    meta = {
        **params.get("_meta", {}),
        f"{_PREFIX}protocolVersion": MODERN,
        f"{_PREFIX}clientInfo": CLIENT,
        f"{_PREFIX}clientCapabilities": {},
    }
    return {**params, "_meta": meta}


async def opened(session: Session, wanted: str | None) -> str:
    """Agree on a revision: the newest that both sides know, or the one that is wanted.

    Raises: NoAnswer.
    """
    if wanted in (None, MODERN):
        session.version = MODERN
        try:
            known = await session.ask("server/discover", {}, session.setup_seconds)
        except NoAnswer as error:
            if wanted == MODERN or error.dead:
                raise
        else:
            if known.result is not None:
                session.server = server_of(known.result)
                return MODERN
            if wanted == MODERN:
                raise NoAnswer(f"server/discover should tell of the server, and was answered with {known.told()}")
    session.version = HANDSHAKE
    hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT}
    answer = await session.ask("initialize", hello, session.setup_seconds)
    agreed = (answer.result or {}).get("protocolVersion")
    if not isinstance(agreed, str):
        raise NoAnswer(f"initialize should agree on a revision, and was answered with {answer.told()}")
    session.server = server_of(answer.result or {})
    return agreed


def server_of(result: JsonObject) -> JsonObject:
    """What a server says about itself: its name and version."""
    told = result.get("serverInfo") or result.get("_meta", {}).get(f"{_PREFIX}serverInfo")
    return told if isinstance(told, dict) else {}


def reply_of(message: Any, progress: list[JsonObject], token: str) -> Reply:
    result, error = message.get("result"), message.get("error")
    if not isinstance(result, dict) and not isinstance(error, dict):
        raise NoAnswer(f"the answer has neither a result nor an error: {shown(message)}")
    return Reply(
        result if isinstance(result, dict) else None,
        error if isinstance(error, dict) else None,
        tuple(progress),
        token,
    )


def token_of(params: Mapping[str, Any]) -> str:
    return str(params.get("_meta", {}).get("progressToken", ""))


def progress_of(message: Any) -> JsonObject | None:
    if isinstance(message, dict) and message.get("method") == "notifications/progress":
        params = message.get("params")
        return params if isinstance(params, dict) else {}
    return None


@dataclass
class HttpSession:
    """A server behind a URL, over Streamable HTTP."""

    url: str
    client: httpx.AsyncClient
    headers: Mapping[str, str] = field(default_factory=dict)
    wanted: str | None = None
    version: str | None = None
    setup_seconds: float = SETUP_SECONDS
    server: JsonObject = field(default_factory=dict)
    _id: str | None = None
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    async def open(self) -> None:
        self.version = await opened(self, self.wanted)
        if self.version != MODERN:
            await self._notify("notifications/initialized")

    async def ask(self, method: str, params: JsonObject, seconds: float) -> Reply:
        number = next(self._numbers)
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": enveloped(self.version, params)}
        try:
            async with asyncio.timeout(seconds):
                return await self._asked(message, number)
        except TimeoutError as error:
            raise NoAnswer(f"there was no whole answer within {seconds:g} seconds", dead=True) from error

    async def close(self) -> None:
        """End the session, if there is one. Errors of the server are ignored then."""
        if self._id is not None:
            try:
                async with asyncio.timeout(self.setup_seconds):
                    await self.client.delete(self.url, headers=self._said({}))
            except (TimeoutError, httpx.HTTPError):
                return

    async def _asked(self, message: JsonObject, number: int) -> Reply:
        progress: list[JsonObject] = []
        named = _NAMED.get(message["method"])
        about = {"mcp-method": message["method"]} | ({"mcp-name": message["params"].get(named, "")} if named else {})
        async for one in self._answers(message, about if self.version == MODERN else {}):
            if (told := progress_of(one)) is not None:
                progress.append(told)
            elif isinstance(one, dict) and "method" not in one and one.get("id") in (number, None):
                return reply_of(one, progress, token_of(message["params"]))
        raise NoAnswer("the stream ended without an answer")

    async def _answers(self, message: JsonObject, about: Mapping[str, str]) -> AsyncIterator[Any]:
        try:
            async with self.client.stream("POST", self.url, json=message, headers=self._said(about)) as response:
                self._id = response.headers.get("mcp-session-id", self._id)
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    async for one in _messages(response):
                        yield one
                    return
                body = await _capped(response)
        except httpx.ConnectError as error:
            raise NoConnection(f"there was no connection: {cut(str(error)) or 'refused'}") from error
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, UnicodeError, ValueError) as error:
            said = cut(str(error)) or type(error).__name__
            raise NoAnswer(f"the answer broke off or is no HTTP: {said}") from error
        answer = Answer(response.status_code, dict(response.headers), body)
        if not isinstance(answer.json(), dict) or "jsonrpc" not in answer.json():
            raise NoAnswer(f"the answer is no message of MCP: {answer.told()}")
        yield answer.json()

    async def _notify(self, method: str) -> None:
        """Send a message that has no answer."""
        try:
            async with asyncio.timeout(self.setup_seconds):
                await self.client.post(self.url, json={"jsonrpc": "2.0", "method": method}, headers=self._said({}))
        except (TimeoutError, httpx.HTTPError) as error:
            raise NoAnswer(f"{method} was not taken: {cut(str(error)) or type(error).__name__}") from error

    def _said(self, about: Mapping[str, str]) -> dict[str, str]:
        said = {"accept": "application/json, text/event-stream", **self.headers, **about}
        if self.version is not None:
            said["mcp-protocol-version"] = self.version
        if self._id is not None:
            said["mcp-session-id"] = self._id
        return said


async def _messages(response: httpx.Response) -> AsyncIterator[Any]:
    """The messages in a stream, as they come."""
    pending, size = b"", 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > LARGEST_ANSWER:
            raise NoAnswer(f"the answer is longer than {LARGEST_ANSWER} bytes")
        pending += piece
        whole, end, rest = pending.replace(b"\r\n", b"\n").rpartition(b"\n\n")
        if end:
            pending = rest
            for frame in parsed_events((whole + end).decode("utf-8", "replace")):
                yield frame.data


async def _capped(response: httpx.Response) -> bytes:
    body = b""
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > LARGEST_ANSWER:
            raise NoAnswer(f"the answer is longer than {LARGEST_ANSWER} bytes")
    return body
