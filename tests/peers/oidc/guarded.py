"""A gateway process that lets in whoever has an access token of a provider, and bare requests to it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.daemons.real import end, free_port
from tests.peers.oidc.login import robot_token
from tests.peers.oidc.provider import Provider, provided, wait_until_up
from tests.served import Era, messages_of, raw_call

# The program as it is, but for the seconds it waits before it asks again for a key that it does not know.
IMPATIENT = "from gateway.http.auth import keys; keys._ASKED_EVERY = {}; from gateway.cli.main import main; main()"


@dataclass(frozen=True)
class Guarded:
    """Where a gateway is, and what it logs."""

    url: str
    log: Path

    @property
    def audience(self) -> str:
        return f"{self.url}/mcp"

    def call(
        self,
        era: Era,
        tool: str,
        arguments: dict[str, Any],
        token: str | None = None,
        path: str = "/mcp",
        **headers: str,
    ) -> httpx.Response:
        request = raw_call(era, tool, arguments)
        request["headers"] |= headers | ({} if token is None else {"authorization": f"Bearer {token}"})
        return httpx.post(self.url + path, **request, timeout=30, trust_env=False)

    def reasons(self) -> list[str]:
        """Why requests were refused at the door, which callers do not hear."""
        return [event["reason"] for event in self.events("http.refused") if "reason" in event]

    def callers(self) -> list[str]:
        """Who made each call that was served."""
        return [event["caller"] for event in self.events("call.served")]

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = self.log.read_text(encoding="utf-8").splitlines()
        events = [json.loads(line) for line in lines if line.startswith("{")]
        return [event for event in events if event["event"] == name]


@contextmanager
def guarded(directory: Path, provider: Provider, *, asks_every: float | None = None) -> Iterator[Guarded]:
    """`brains-gateway serve` with the embedded brain, behind the provider; `asks_every` spares a test those seconds."""
    port = free_port()
    url, log = f"http://127.0.0.1:{port}", directory / f"gateway-{port}.log"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("BRAINS_", "JB"))}
    program = ["-m", "gateway"] if asks_every is None else ["-c", IMPATIENT.format(asks_every)]
    settings = {
        "BRAINS_AUTH": "jwt",
        "BRAINS_AUTH_ISSUER": provider.issuer,
        "BRAINS_PUBLIC_URL": url,
        "BRAINS_DATA_DIR": str(directory / f"data-{port}"),
        "BRAINS_LOG_FORMAT": "json",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *program, "serve", "--port", str(port)],
            env={**inherited, "PYTHONPATH": os.getcwd(), **settings},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        wait_until_up(process, f"{url}/healthz", log)
        yield Guarded(url, log)
    finally:
        end(process)


@dataclass(frozen=True)
class Stage:
    """A provider, a gateway behind it, and a brain there with one note about otters."""

    provider: Provider
    gateway: Guarded
    brain: str


@contextmanager
def staged(directory: Path) -> Iterator[Stage]:
    with provided(directory) as provider, guarded(directory, provider) as gateway:
        token = robot_token(provider, "brains:write", gateway.audience)
        made = gateway.call("modern", "memory_create_brain", {"name": "Main"}, token)
        brain = str(result_of(made)["structuredContent"]["id"])
        note = {"brain": brain, "content": "# Otters\n\nOtters hold hands while they sleep."}
        assert result_of(gateway.call("modern", "memory_remember", note, token))["isError"] is False
        yield Stage(provider, gateway, brain)


def result_of(response: httpx.Response) -> dict[str, Any]:
    """What a tool answered."""
    return dict(messages_of(response)[-1]["result"])
