"""Records what the server answers over stdio when a client connects, for `gateway/cli/early_answers.py`.

    python -m tests.recorded

Needed when a surface, the version or one of the libraries has changed. Read the difference before committing it.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gateway.cli.early_answers import RECORDED, versions
from gateway.surfaces.catalog import SURFACES

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
# Whoever sets FastMCP up waits for the server.
LATE = {"FASTMCP_LOG_LEVEL": "INFO"}
CLIENT = {"name": "recorder", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": CLIENT,
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def request(number: int | str, method: str, params: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method} | ({} if params is None else {"params": params})


def initialize(number: int | str, version: str, **more: Any) -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT} | more
    return request(number, "initialize", params)


class Stdio:
    """A gateway over stdio, a line at a time."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def say(self, *messages: Any) -> None:
        self.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def line(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def ask(self, message: Any) -> bytes:
        self.say(message)
        return self.line()

    def end(self) -> bytes:
        """Close its input; what else it says."""
        rest, _ = self.process.communicate(timeout=60)
        return rest


@contextmanager
def started(folder: Path, *arguments: str, **settings: str) -> Iterator[Stdio]:
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "BRAINS_DATA_DIR": str(folder), **settings}
    command = [sys.executable, "-m", "gateway", "stdio", *arguments]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield Stdio(process)
        finally:
            process.kill()


def recording(surface: str, folder: Path) -> dict[str, Any]:
    """What the server itself answers."""
    said = []
    for version in HANDSHAKES:
        with started(folder, "--surface", surface, **LATE) as server:
            answers = {"initialize": json.loads(server.ask(initialize(0, version)))["result"]}
            assert answers["initialize"].pop("protocolVersion") == version
            server.say(INITIALIZED)
            said.append(answers | {m: json.loads(server.ask(request(1, m)))["result"] for m in (*LISTS, "ping")})
    assert all(answers == said[0] for answers in said), "the version makes a difference: record each"
    with started(folder, "--surface", surface, **LATE) as server:
        modern = {
            method: json.loads(server.ask(request(1, method, {"_meta": META})))["result"]
            for method in ("server/discover", *LISTS)
        }
    # The place of what differs.
    said[0]["initialize"] = {"protocolVersion": ""} | said[0]["initialize"]
    return {"versions": versions(), "handshakes": HANDSHAKES, "handshake": said[0], "modern": modern}


def main() -> None:
    RECORDED.mkdir(exist_ok=True)
    for surface in SURFACES:
        with tempfile.TemporaryDirectory() as folder:
            text = json.dumps(recording(surface, Path(folder)), ensure_ascii=False, indent=1)
        (RECORDED / f"{surface}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
