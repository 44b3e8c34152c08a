"""Answers each call twice, by the direct path and by FastMCP, and notes where the two answers differ.

The tool runs once: what it said is played to the second path. So calls that write, and calls that run side by side,
can be compared as well.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from fastmcp import FastMCP
from mcp_types import InputRequiredResult
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http import direct, endpoint
from gateway.mcp.request import INCOMING
from gateway.mcp.result import Result
from gateway.mcp.run import SurfaceTool

NOT_COMPARED = {b"content-length", b"date"}
SECONDS = 30


@dataclass
class Tape:
    """One run of a tool."""

    seen: Any = None
    reports: list[tuple[int, str]] = field(default_factory=list)
    said: Result | InputRequiredResult | BaseException | None = None


@dataclass
class Log:
    """How many calls were answered twice, and which of them differently."""

    compared: int = 0
    differences: list[str] = field(default_factory=list)


_RECORD: ContextVar[Tape | None] = ContextVar("record", default=None)
_REPLAY: ContextVar[Tape | None] = ContextVar("replay", default=None)


class Twin:
    """Stands in front of FastMCP's application, where the direct path stands."""

    def __init__(self, answering: ASGIApp, fastmcp: ASGIApp, log: Log) -> None:
        self._answering, self._fastmcp, self._log = answering, fastmcp, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tape, said, body = Tape(), list[Message](), b""
        again = {**scope, "state": dict(scope.get("state", {})), "headers": list(scope["headers"])}
        is_gone = False

        async def hear() -> Message:
            nonlocal body, is_gone
            message = await receive()
            is_gone = is_gone or message["type"] == "http.disconnect"
            body += message.get("body", b"")
            return message

        async def tell(message: Message) -> None:
            said.append(message)
            # The last part waits until the answers are compared, or the test would be over before that.
            if message.get("more_body", False) or message["type"] == "http.response.start":
                await send(message)

        token = _RECORD.set(tape)
        try:
            await self._answering(scope, hear, tell)
        finally:
            _RECORD.reset(token)
        try:
            # A keep-alive says how long a tool took, and played from tape it takes no time.
            is_comparable = not any(message.get("body", b"").startswith(b":") for message in said)
            if tape.said is not None and not is_gone and said and is_comparable:
                await self._compare(tape, answer_of(said), again, body)
        finally:
            if said and not said[-1].get("more_body", False) and said[-1]["type"] == "http.response.body":
                await send(said[-1])

    async def _compare(self, tape: Tape, ours: Any, scope: Scope, body: bytes) -> None:
        parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        said: list[Message] = []

        async def receive() -> Message:
            if not parts:
                await asyncio.Event().wait()
            return parts.pop()

        async def send(message: Message) -> None:
            said.append(message)

        token = _REPLAY.set(tape)
        try:
            await asyncio.wait_for(self._fastmcp(scope, receive, send), SECONDS)
        except Exception as error:  # noqa: BLE001  # whatever FastMCP does, the direct path did not
            self._log.differences.append(f"{body[:500]!r}: FastMCP raised {error!r}")
            return
        finally:
            _REPLAY.reset(token)
        self._log.compared += 1
        if ours != (theirs := answer_of(said)):
            self._log.differences.append(f"{body[:500]!r}\n  ours   {ours!r:.2000}\n  theirs {theirs!r:.2000}")


def answer_of(said: list[Message]) -> tuple[Any, ...]:
    """Status, headers and messages of an answer."""
    headers = {name: value for name, value in said[0]["headers"] if name not in NOT_COMPARED}
    text = b"".join(message.get("body", b"") for message in said[1:]).decode()
    # NaN is not equal to itself.
    read = partial(json.loads, parse_constant=str)
    told: Any
    if text.startswith(("event:", ":")):
        # Lines of an event end with these alone; Python's `splitlines` also cuts at other signs, such as U+0085.
        lines = [line for line in text.replace("\r\n", "\n").removesuffix("\n").split("\n") if not line.startswith(":")]
        told = [read(line.removeprefix("data: ")) if line.startswith("data: ") else line for line in lines]
    else:
        try:
            told = read(text)
        except ValueError:
            told = text
    return said[0]["status"], headers, told, said[-1].get("more_body", False)


@contextmanager
def answered_twice(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """From now on, in every gateway that is started in this process."""
    if (outer := getattr(vars(endpoint)["direct_of"], "log", None)) is not None:
        yield outer
        return
    log = Log()
    original: Callable[..., Any] = SurfaceTool.call
    direct_of = direct.direct_of

    def twin_of(app: ASGIApp, server: FastMCP) -> ASGIApp:
        return Twin(direct_of(app, server), app, log)

    async def call(self: SurfaceTool, arguments: dict[str, Any]) -> Any:
        if (replayed := _REPLAY.get()) is not None:
            if (seen := _seen(self, arguments)) != replayed.seen:
                log.differences.append(f"The tool saw {seen!r:.1000} where it had seen {replayed.seen!r:.1000}.")
            for place, message in replayed.reports:
                await INCOMING.get().report(place, message)
            if isinstance(replayed.said, BaseException):
                raise replayed.said
            return replayed.said
        tape = _RECORD.get()
        if tape is None or not isinstance(INCOMING.get(), direct._Answer):
            return await original(self, arguments)
        return await _recorded(tape, self, arguments, original)

    twin_of.log = log  # type: ignore[attr-defined]
    monkeypatch.setattr(endpoint, "direct_of", twin_of)
    monkeypatch.setattr(SurfaceTool, "call", call)
    yield log


async def _recorded(tape: Tape, tool: SurfaceTool, arguments: dict[str, Any], call: Callable[..., Any]) -> Any:
    incoming = INCOMING.get()
    report = incoming.report

    async def note(progress: int, *messages: str) -> None:
        tape.reports += enumerate(messages, progress)
        await report(progress, *messages)

    incoming.report = note  # type: ignore[method-assign]
    tape.seen = _seen(tool, arguments)
    try:
        tape.said = await call(tool, arguments)
    except Exception as error:
        tape.said = error
        raise
    return tape.said


def _seen(tool: SurfaceTool, arguments: dict[str, Any]) -> Any:
    """All that a tool can know of a call, as text: NaN is not equal to itself."""
    incoming = INCOMING.get()
    client = incoming.revision, incoming.client_name, incoming.capabilities
    own = {key: value for key, value in incoming.meta.items() if not key.startswith("io.modelcontextprotocol/")}
    assert incoming.http is not None
    state = {name: value for name, value in incoming.http.state.items() if name != "http"}
    return tool.name, repr(arguments), repr(client), repr(own), repr(sorted(incoming.http.headers.items())), repr(state)
