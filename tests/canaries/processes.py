"""Gateways as processes of their own, whose every word on stderr is kept; killed, ended and started again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.daemons.real import free_port

START_SECONDS, STOP_SECONDS = 60.0, 20.0


@dataclass
class Process:
    """One server on a port that stays the same however often it is started."""

    settings: Mapping[str, str]
    errors: Path
    module: str = "gateway"
    command: str = "serve"
    arguments: Sequence[str] = ()
    port: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("BRAINS_", "JB"))}
        with self.errors.open("ab") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self.module, self.command, "--port", str(self.port), *self.arguments],
                env={**clean, "PYTHONPATH": os.getcwd(), **self.settings},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )

    def wait(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + START_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url}/healthz", trust_env=False).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.02)
        raise RuntimeError(f"a gateway did not start: {self.errors.read_text(encoding='utf-8')[-2000:]}")

    def kill(self) -> None:
        """At once, and without a word."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_SECONDS)

    def end(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def said(self) -> str:
        # As it was written: not a line break of any kind is made another.
        return self.errors.read_bytes().decode("utf-8")


@contextmanager
def running(*processes: Process) -> Iterator[None]:
    """All of them at once, because a start takes a while."""
    try:
        for process in processes:
            process.start()
        for process in processes:
            process.wait()
        yield
    finally:
        for process in processes:
            process.end()
