"""The daemon as others wrote it: `memory serve` from npm, as a process of its own."""

import os
import random
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

PROGRAM = Path(__file__).parents[1] / "peers" / "node_modules" / ".bin" / "memory"
START_SECONDS, STOP_SECONDS = 60.0, 10.0


@contextmanager
def running_daemon(root: Path, *, llm_url: str | None = None, token: str | None = None) -> Iterator[str]:
    """The daemon on a free loopback port, with its files under `root`. `llm_url` is where `/v1` of its model is."""
    if not PROGRAM.exists():
        raise RuntimeError("the daemon is not installed: run `npm install` in tests/peers")
    root.mkdir(parents=True, exist_ok=True)
    address, log = f"127.0.0.1:{free_port()}", root / "daemon.log"
    command = [str(PROGRAM), "serve", "--addr", address, "--root", str(root / "home")]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment(root, llm_url, token),
        ) as process,
    ):
        try:
            wait_until_healthy(process, f"http://{address}", log)
            yield f"http://{address}"
        finally:
            end(process)


def free_port() -> int:
    """A port for a server that is started next. No system gives those of this range to others of its own accord, so
    nothing is likely to take it meanwhile."""
    while True:
        port = random.SystemRandom().randrange(10_000, 30_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def environment(root: Path, llm_url: str | None, token: str | None) -> dict[str, str]:
    """Nothing of the person's own settings and keys reaches the daemon."""
    clean = {"PATH": os.environ.get("PATH", ""), "HOME": str(root), "JB_HOME": str(root / "home")}
    if token is not None:
        clean["JB_AUTH_TOKEN"] = token
    if llm_url is not None:
        # OPENAI_* would turn on embeddings as well, and the daemon adds /v1 itself.
        base = llm_url.rstrip("/").removesuffix("/v1")
        clean |= {"JB_LLM_PROVIDER": "openai", "JB_LLM_BASE_URL": base, "JB_LLM_API_KEY": "scripted"}
    return clean


def wait_until_healthy(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    with httpx.Client(trust_env=False) as client:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                if client.get(f"{url}/healthz").is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
    state = "did not answer" if process.poll() is None else f"ended with {process.returncode}"
    raise RuntimeError(f"the daemon {state}; its last words:\n{log.read_text(errors='replace')[-2000:]}")


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        # An open event stream keeps it from leaving by itself.
        process.kill()
        process.wait()
