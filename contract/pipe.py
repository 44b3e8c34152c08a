"""A server that is a command: messages are lines on its standard input and output."""

import asyncio
import itertools
import json
import os
import shlex
import signal
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from contract.exchange import LARGEST_ANSWER, NoAnswer, NoConnection
from contract.rpc import MODERN, SETUP_SECONDS, JsonObject, Reply, enveloped, opened, progress_of, reply_of, token_of
from contract.words import cut

GRACE_SECONDS: Final = 5.0
LAST_SECONDS: Final = 1.0
_NO_SUCH_METHOD: Final = -32601


@dataclass
class _Waiting:
    answer: asyncio.Future[JsonObject]
    token: str
    progress: list[JsonObject] = field(default_factory=list)


@dataclass
class PipeSession:
    """One process serves all requests of a run."""

    command: str
    wanted: str | None = None
    environment: Mapping[str, str] | None = None
    version: str | None = None
    setup_seconds: float = SETUP_SECONDS
    server: JsonObject = field(default_factory=dict)
    _process: asyncio.subprocess.Process | None = None
    _reading: list[asyncio.Task[None]] = field(default_factory=list)
    _waiting: dict[int, _Waiting] = field(default_factory=dict)
    _last_words: deque[str] = field(default_factory=lambda: deque(maxlen=3))
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    async def open(self) -> None:
        try:
            self._process = await asyncio.create_subprocess_exec(
                *shlex.split(self.command),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LARGEST_ANSWER,
                env=self.environment,
                # With its children, so that they end with it.
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise NoConnection(f"the command cannot be started: {cut(str(error))}") from error
        self._reading = [asyncio.create_task(self._read()), asyncio.create_task(self._listen())]
        self.version = await opened(self, self.wanted)
        if self.version != MODERN:
            await self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def ask(self, method: str, params: JsonObject, seconds: float) -> Reply:
        number = next(self._numbers)
        waiting = _Waiting(asyncio.get_running_loop().create_future(), token_of(params))
        self._waiting[number] = waiting
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": enveloped(self.version, params)}
        try:
            async with asyncio.timeout(seconds):
                await self._send(message)
                return reply_of(await waiting.answer, waiting.progress, waiting.token)
        except TimeoutError as error:
            raise NoAnswer(f"there was no answer within {seconds:g} seconds", dead=True) from error
        finally:
            del self._waiting[number]

    async def close(self) -> None:
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        for ending in (None, signal.SIGTERM, signal.SIGKILL):
            if ending is not None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, ending)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), GRACE_SECONDS)
                break
        for task in self._reading:
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)

    async def _send(self, message: JsonObject) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        if self._process.returncode is not None or self._process.stdin.is_closing():
            raise await self._ended()
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            await self._process.stdin.drain()
        except OSError as error:
            raise await self._ended() from error

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                try:
                    message = json.loads(line)
                except (ValueError, RecursionError):
                    # Only messages may be on standard output. The error about the missing answer quotes this line.
                    self._last_words.append(cut(line.decode("utf-8", "replace").strip()))
                    continue
                await self._take(message)
        except ValueError:
            self._last_words.append(f"a line longer than {LARGEST_ANSWER} bytes")
        ended = await self._ended()
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(ended)

    async def _take(self, message: Any) -> None:
        if not isinstance(message, dict):
            return
        if (told := progress_of(message)) is not None:
            self._note(told)
        elif "method" in message:
            await self._refuse(message)
        elif (asker := self._waiting.get(message.get("id", 0))) is not None and not asker.answer.done():
            asker.answer.set_result(message)

    def _note(self, told: JsonObject) -> None:
        """Progress goes to the request with its token. With an unknown token it goes to all, as it is an error."""
        token = str(told.get("progressToken"))
        known = [waiting for waiting in self._waiting.values() if waiting.token == token]
        for waiting in known or self._waiting.values():
            waiting.progress.append(told)

    async def _refuse(self, message: JsonObject) -> None:
        """Answer the server. We announce no capabilities, so it may only send a ping."""
        if "id" not in message:
            return
        head = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] == "ping":
            await self._send({**head, "result": {}})
        else:
            await self._send({**head, "error": {"code": _NO_SUCH_METHOD, "message": "the harness offers nothing"}})

    async def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        with suppress(ValueError):
            while line := await self._process.stderr.readline():
                self._last_words.append(cut(line.decode("utf-8", "replace").strip()))

    async def _ended(self) -> NoAnswer:
        """The error for a command that has ended, with its last output, if that comes soon."""
        assert self._process is not None
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), LAST_SECONDS)
            await asyncio.wait(self._reading[1:], timeout=LAST_SECONDS)
        code = "" if self._process.returncode is None else f" with status {self._process.returncode}"
        said = " / ".join(self._last_words)
        return NoAnswer(f"the command ended{code}{f', and said: {said}' if said else ''}", dead=True)
