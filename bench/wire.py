"""The two wires as raw HTTP: what a client sends to `/mcp`, and what it makes of the answer."""

import json
from dataclasses import dataclass
from typing import Any

JsonObject = dict[str, Any]
PATH = "/mcp"
# The SDK's own guard wants a port, and takes any.
HOST = "127.0.0.1:80"
_PROTOCOL = "io.modelcontextprotocol/"


@dataclass(frozen=True, slots=True)
class Wire:
    """One era of the protocol."""

    version: str
    modern: bool


MODERN = Wire("2026-07-28", modern=True)
LEGACY = Wire("2025-11-25", modern=False)
WIRES = (MODERN, LEGACY)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tools/call, the same for both wires but for its envelope."""

    tool: str
    arguments: JsonObject
    with_progress: bool = False
    token: str | None = None

    def headers(self, wire: Wire) -> dict[str, str]:
        common = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": wire.version,
        }
        if self.token is not None:
            common["authorization"] = f"Bearer {self.token}"
        return common | ({"mcp-method": "tools/call", "mcp-name": self.tool} if wire.modern else {})

    def body(self, wire: Wire) -> bytes:
        meta: JsonObject = {"progressToken": 1} if self.with_progress else {}
        if wire.modern:
            meta |= {f"{_PROTOCOL}protocolVersion": wire.version, f"{_PROTOCOL}clientCapabilities": {}}
        params = {"name": self.tool, "arguments": self.arguments} | ({"_meta": meta} if meta else {})
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()

    def request(self, wire: Wire) -> bytes:
        body = self.body(wire)
        lines = [f"POST {PATH} HTTP/1.1", f"host: {HOST}", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers(wire).items()]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: {HOST}\r\n\r\n".encode()


def put(path: str, body: bytes) -> bytes:
    return f"PUT {path} HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def result(body: bytes) -> JsonObject:
    """The result in an answer, be it JSON or an event stream.

    Raises:
        ValueError: there is none, or it is an error.
    """
    text = body.decode()
    messages = [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:")] or [json.loads(text)]
    found = messages[-1].get("result")
    if not isinstance(found, dict) or found.get("isError"):
        raise ValueError("the answer is an error")
    return found
