"""A gateway as users have it: a real server on a loopback port, or a process spoken to over stdio."""

import asyncio
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import httpx
import uvicorn
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from starlette.types import ASGIApp

from gateway.app.http_app import http_app
from gateway.config.settings import load
from gateway.http.connection import Connection

Era = Literal["modern", "legacy"]
# What the operator of such a gateway sends, who is told more than others.
OPERATOR = {"authorization": "Bearer 0123456789abcdef"}
MODE: dict[Era, str] = {"modern": "2026-07-28", "legacy": "legacy"}


@dataclass(frozen=True)
class Served:
    """Where a gateway is, the data it serves, and the directory it ingests files from."""

    url: str
    data_dir: Path
    root: Path
    upstream_url: str | None = None

    def over_http(self, era: Era, path: str = "/mcp", headers: dict[str, str] | None = None) -> Client[Any]:
        return Client(StreamableHttpTransport(self.url + path, headers=headers), mode=MODE[era])

    def over_stdio(self, era: Era, surface: str = "memory", **settings: str) -> Client[Any]:
        upstream = {"BRAINS_UPSTREAM_URL": self.upstream_url} if self.upstream_url else {}
        return stdio_client(
            era, self.root, surface=surface, BRAINS_DATA_DIR=str(self.data_dir), **{**upstream, **settings}
        )

    def connect(self, transport: str, era: Era) -> Client[Any]:
        return self.over_http(era) if transport == "http" else self.over_stdio(era)


def stdio_client(era: Era, cwd: Path, *, surface: str = "memory", **settings: str) -> Client[Any]:
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "BRAINS_LOG_LEVEL": "error", **settings}
    command = ["-m", "tests.web" if "TEST_PAGES" in settings else "gateway", "stdio", "--surface", surface]
    transport = StdioTransport(sys.executable, command, env=environment, cwd=str(cwd), keep_alive=False)
    return Client(transport, mode=MODE[era])


class _Server(uvicorn.Server):
    """One that ends when it is told to: the original looks whether it was, ten times a second."""

    _wake: Callable[[], object] | None = None

    async def main_loop(self) -> None:
        told, ticks = asyncio.Event(), 0
        self._wake = partial(asyncio.get_running_loop().call_soon_threadsafe, told.set)
        while not await self.on_tick(ticks):
            ticks += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), 0.1)

    def end(self) -> None:
        self.should_exit = True
        if self._wake is not None:
            # Its loop may be closed, if it ended by itself.
            with suppress(RuntimeError):
                self._wake()


@contextmanager
def listening(app: ASGIApp, bound: socket.socket | None = None) -> Iterator[str]:
    """The application under uvicorn, in a thread, until the block ends; on a port that was had before, if need be."""
    bound = bound or socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, http=Connection, lifespan="on", log_config=None, access_log=False, timeout_graceful_shutdown=2
    )
    server = _Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("the server did not start")
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.end()
        thread.join(timeout=15)


@contextmanager
def serving(data_dir: Path, root: Path | None, **settings: Any) -> Iterator[Served]:
    roots = () if root is None else (root,)
    settings = {"metrics_token": "0123456789abcdef", **settings}
    with listening(http_app(load(data_dir=data_dir, ingest_roots=roots, **settings))) as url:
        yield Served(url, data_dir, root or data_dir, settings.get("upstream_url"))


MODERN_HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28"}
LEGACY_HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}


def raw_call(era: Era, tool: str, arguments: Any, token: str | int | None = None) -> dict[str, Any]:
    """Keyword arguments of an HTTP request that calls a tool, as a bare client would send it."""
    meta: dict[str, Any] = {} if token is None else {"progressToken": token}
    headers = dict(LEGACY_HEADERS)
    if era == "modern":
        headers = {**MODERN_HEADERS, "mcp-method": "tools/call", "mcp-name": tool}
        meta |= {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    return {"headers": headers, "json": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}}


def messages_of(response: httpx.Response) -> list[dict[str, Any]]:
    """The JSON-RPC messages of a response, whether it came as JSON or as events."""
    import json

    if response.headers["content-type"].startswith("application/json"):
        return [response.json()]
    lines = response.text.splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
