"""A gateway as a process of its own, so that what it costs can be told from what the tests cost."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx

from tests.daemons.real import free_port
from tests.gateway.test_processes import answers, wait_until
from tests.served import messages_of, raw_call

Platform = Literal["embedded", "daemon"]
DAEMON = """
import sys, uvicorn
from tests.daemons.fake import FakeDaemon, Script, T
uvicorn.run(FakeDaemon(T, llm=Script()).app(), port=int(sys.argv[1]), log_level="error")
"""
SURFACES = ("memory", "kv", "team", "being", "memo", "chat")
PATIENCE = 120.0


@dataclass
class Watch:
    """Asks a gateway every now and then how it is, and knows for how long it was too busy to say."""

    held: float = 0.0
    """Seconds of its own that it worked on while one answer was due: what else the machine did is not counted."""
    slowest: float = 0.0
    asked: int = 0


@dataclass
class Gateway:
    http: httpx.Client
    pid: int
    errors: Path
    tools: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tools = {surface: self._listed(surface) for surface in SURFACES}

    def _listed(self, surface: str) -> list[dict[str, Any]]:
        request = raw_call("legacy", "", {})
        request["json"] |= {"method": "tools/list", "params": {}}
        tools = self._post(f"/{surface}/mcp", request)["result"]["tools"]
        # What reads comes last, to read what was written.
        return sorted(tools, key=lambda tool: bool(tool["annotations"].get("readOnlyHint")))

    def call(self, surface: str, brain: str, tool: str, arguments: Any) -> dict[str, Any]:
        request = raw_call("modern", tool, arguments)
        request["headers"]["memoai_project"] = "demo"
        # Only `memory` takes the brain as an argument.
        return self._post("/mcp" if surface == "memory" else f"/{surface}/mcp/{brain}", request)

    def _post(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        # In ASCII, because half a character has no other way to be sent.
        body = json.dumps(request["json"]).encode()
        headers = {**request["headers"], "content-type": "application/json"}
        return messages_of(self.http.post(path, content=body, headers=headers))[-1]

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mib(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8").split()
        return int(status[status.index("VmHWM:") + 1]) / 1024

    @contextmanager
    def watched(self) -> Iterator[Watch]:
        done, watch = threading.Event(), Watch()

        def ask() -> None:
            with httpx.Client(base_url=self.http.base_url, timeout=PATIENCE) as http:
                while not done.wait(0.1):
                    begun, cpu = time.monotonic(), self.cpu_seconds()
                    http.get("/healthz").raise_for_status()
                    seconds = time.monotonic() - begun
                    watch.held = max(watch.held, min(seconds, self.cpu_seconds() - cpu))
                    watch.slowest, watch.asked = max(watch.slowest, seconds), watch.asked + 1

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            yield watch
        finally:
            done.set()
            asking.join()


@contextmanager
def _running(environment: dict[str, str], errors: Path, port: int, *command: str) -> Iterator[int]:
    with errors.open("wb") as stderr:
        started = subprocess.Popen(
            [sys.executable, *command], env=environment, stdout=subprocess.DEVNULL, stderr=stderr
        )
    try:
        wait_until(lambda: answers(port), f"{command[0]} did not answer")
        yield started.pid
    finally:
        started.terminate()
        started.wait(20)


@contextmanager
def running(platform: Platform, tmp_path: Path) -> Iterator[Gateway]:
    settings = {"BRAINS_DATA_DIR": str(tmp_path / "data"), "BRAINS_INGEST_ROOTS": str(tmp_path)}
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), **settings}
    port, errors = free_port(), tmp_path / "errors.txt"
    with ExitStack() as stack:
        if platform == "daemon":
            theirs = free_port()
            stack.enter_context(_running(environment, tmp_path / "daemon.txt", theirs, "-c", DAEMON, str(theirs)))
            environment |= {"BRAINS_UPSTREAM_URL": f"http://127.0.0.1:{theirs}"}
        pid = stack.enter_context(_running(environment, errors, port, "-m", "gateway", "serve", "--port", str(port)))
        http = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE))
        yield Gateway(http, pid, errors)
