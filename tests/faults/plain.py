"""Plain asyncio at both ends of a gateway, cheap enough for a thousand at once: a platform in a thread, and callers."""

import asyncio
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.wire import joined, read_head, request_body
from tests.served import Era, raw_call

LINE_BYTES = 1 << 20


@dataclass(frozen=True)
class Asked:
    """One request, and the connection to answer it on."""

    method: str
    path: str
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def answer(self, status: str, body: bytes, *fields: str) -> None:
        lines = [f"HTTP/1.1 {status}", "content-type: application/json", f"content-length: {len(body)}", *fields]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await self.writer.drain()

    def begin_events(self) -> None:
        lines = ["HTTP/1.1 200 OK", "content-type: text/event-stream", "transfer-encoding: chunked", "", ""]
        self.writer.write("\r\n".join(lines).encode())

    async def event(self, **frame: Any) -> None:
        data = f"event: {frame['type']}\ndata: {json.dumps(frame)}\n\n".encode()
        self.writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self.writer.drain()

    async def end_events(self) -> None:
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()


Answer = Callable[[Asked], Awaitable[None]]


class Platform:
    """Answers as it is told, on one port, and knows its open connections. It can be gone for a while."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.StreamWriter, asyncio.Task[Any] | None] = {}
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        return len(self._open)

    @contextmanager
    def running(self) -> Iterator["Platform"]:
        self._thread.start()
        try:
            self.come()
            yield self
        finally:
            self.go()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
            self._loop.close()

    def come(self) -> None:
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def go(self) -> None:
        """Refuse connections from now on, and drop those there are."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=2048)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        tasks = [task for task in self._open.values() if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = asyncio.current_task()
        try:
            while True:
                head = await read_head(reader)
                body = await joined(request_body(reader, head))
                method, target, _ = head.first
                await self._answer(Asked(method, target.partition("?")[0], body, reader, writer))
        except (EOFError, OSError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            writer.close()
            del self._open[writer]


@dataclass
class Told:
    """What one caller heard."""

    status: int = 0
    progress: list[str] = field(default_factory=list)
    result: dict[str, Any] | None = None
    left_at: float | None = None
    seconds: float = 0.0

    @property
    def code(self) -> str:
        """`ok`, the code of a failure, or what is neither."""
        if self.result is None:
            return f"nothing (HTTP {self.status})"
        if not self.result.get("isError"):
            return "ok"
        structure = self.result.get("structuredContent") or {}
        text = str(self.result["content"][0]["text"])
        return str(structure.get("code") or text.partition(":")[0])


async def call(
    port: int,
    era: Era,
    tool: str,
    arguments: dict[str, Any],
    *,
    token: str | None = None,
    leave_after: int | None = None,
) -> Told:
    """Call a tool over a connection of its own; `leave_after` so many words of progress, the socket is closed."""
    told, started = Told(), time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=LINE_BYTES)
    try:
        writer.write(_request(port, era, tool, arguments, token))
        told.status = int((await reader.readuntil(b"\r\n")).split()[1])
        while told.result is None and (line := await reader.readline()):
            _hear(told, line)
            if leave_after is not None and len(told.progress) >= leave_after:
                told.left_at = time.monotonic()
                break
    except (EOFError, OSError):
        pass
    finally:
        writer.close()
    told.seconds = time.monotonic() - started
    return told


def _request(port: int, era: Era, tool: str, arguments: dict[str, Any], token: str | None) -> bytes:
    sent = raw_call(era, tool, arguments, token)
    body = json.dumps(sent["json"]).encode()
    fields = {"host": f"127.0.0.1:{port}", "content-type": "application/json", "connection": "close", **sent["headers"]}
    fields["content-length"] = str(len(body))
    lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode() + body


def _hear(told: Told, line: bytes) -> None:
    """One line of an answer. Every event is a chunk of its own, so that no line is cut by the framing."""
    text = line.removeprefix(b"data: ")
    if not text.startswith(b'{"jsonrpc"'):
        return
    message = json.loads(text)
    if message.get("method") == "notifications/progress":
        told.progress.append(message["params"]["message"])
    elif "method" not in message:
        told.result = message.get("result") or {"isError": True, "content": [{"text": str(message.get("error"))}]}


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def memory_mib(pid: int) -> float:
    """What the process holds in memory now."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the process says nothing of its memory")


def percentile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0
