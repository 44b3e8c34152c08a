"""Gateways as processes of their own, in front of a proxy: started, waited for, and ended one way or the other."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.daemons.real import free_port

START_SECONDS, STOP_SECONDS = 60.0, 20.0
# So short that a stall can be had by the hundred; and for where nothing stalls, so long that only a hang meets it.
DEADLINE_SECONDS, PATIENT_SECONDS = 1.5, 60.0


@dataclass
class Gateway:
    """A `serve` process."""

    process: subprocess.Popen[bytes]
    url: str

    def kill(self) -> None:
        """At once, and without a word."""
        os.kill(self.process.pid, signal.SIGKILL)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def settings(upstream_url: str, directory: Path, deadline: float = DEADLINE_SECONDS) -> dict[str, str]:
    """Of a gateway whose deadlines are all the same."""
    deadlines = ("READ", "INGEST", "STAGE", "FIRST_EVENT", "IDLE")
    return {
        "BRAINS_UPSTREAM_URL": upstream_url,
        "BRAINS_DATA_DIR": str(directory / "data"),
        "BRAINS_INGEST_ROOTS": str(directory / "files"),
        "BRAINS_LOG_LEVEL": "error",
        **{f"BRAINS_{name}_SECONDS": str(deadline) for name in deadlines},
    }


def started(upstream_url: str, directory: Path, deadline: float, pages: str | None) -> Gateway:
    """A gateway that is on its way; `ready` waits for it. Its pages come from the server that is named."""
    port = free_port()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("BRAINS_", "JB"))}
    with (directory / f"gateway-{port}.log").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.web" if pages else "gateway", "serve", "--port", str(port)],
            env={**inherited, "PYTHONPATH": os.getcwd(), **settings(upstream_url, directory, deadline), **web(pages)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    return Gateway(process, f"http://127.0.0.1:{port}")


def web(pages: str | None) -> dict[str, str]:
    """Where a gateway of `tests.web` has its pages."""
    return {} if pages is None else {"TEST_PAGES": pages}


def ready(gateway: Gateway) -> Gateway:
    deadline = time.monotonic() + START_SECONDS
    with httpx.Client(trust_env=False) as http:
        while gateway.process.poll() is None and time.monotonic() < deadline:
            try:
                if http.get(f"{gateway.url}/healthz").is_success:
                    return gateway
            except httpx.TransportError:
                time.sleep(0.02)
    raise RuntimeError("a gateway did not start; its log is beside its data")


@contextmanager
def gateways(
    count: int,
    upstream_url: str,
    directory: Path,
    deadline: float = DEADLINE_SECONDS,
    pages: str | None = None,
) -> Iterator[Sequence[Gateway]]:
    """So many gateways, all ready."""
    running = [started(upstream_url, directory, deadline, pages) for _ in range(count)]
    try:
        yield [ready(gateway) for gateway in running]
    finally:
        for gateway in running:
            gateway.end()
