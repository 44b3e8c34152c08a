"""The OAuth provider of `provider.mjs` as a process: started, steered, stopped, and started again where it was."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.daemons.real import end, free_port

HERE = Path(__file__).parent
# The provider needs a newer Node than others here; npm brings it along.
NODE = HERE.parent / "node_modules" / "node" / "bin" / "node"
START_SECONDS = 30.0


@dataclass
class Provider:
    """One provider at one port, whether it runs at the moment or not."""

    keys_file: Path
    port: int = field(default_factory=free_port)
    issuer: str = ""
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.issuer = self.issuer or self.url

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        if not NODE.exists():
            raise RuntimeError("the provider is not installed: run `make test-peers`")
        log = self.keys_file.with_suffix(f".{self.port}.log")
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [str(NODE), str(HERE / "provider.mjs"), str(self.port), str(self.keys_file), self.issuer],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={"PATH": os.environ.get("PATH", ""), "HOME": str(self.keys_file.parent)},
            )
        wait_until_up(self.process, f"{self.url}/.well-known/openid-configuration", log)

    def stop(self) -> None:
        if self.process is not None:
            end(self.process)
            self.process = None

    @contextmanager
    def issuing(self, **otherwise: Any) -> Iterator[None]:
        """With another `ttl`, other `claims`, a wrong `clock` or a `clientId` for new clients, until the block ends."""
        self.told("/steer", otherwise)
        try:
            yield
        finally:
            self.told("/steer", {})

    def rotate(self, *, keep: bool) -> None:
        """Sign with a new key from now on; publish those of before too, or not."""
        self.told("/rotate", {"keep": keep})

    def key_requests(self) -> int:
        """How often anybody has asked for the keys."""
        return int(self.told("/steer", {})["keyRequests"])

    def told(self, path: str, what: dict[str, Any]) -> dict[str, Any]:
        answer = httpx.post(self.url + path, json=what, trust_env=False)
        return dict(answer.raise_for_status().json())


@contextmanager
def provided(directory: Path, *, keys: str = "keys.json", issuer: str = "") -> Iterator[Provider]:
    """A provider that runs; two of them share their keys when they share the file."""
    provider = Provider(directory / keys, issuer=issuer)
    try:
        provider.start()
        yield provider
    finally:
        provider.stop()


def wait_until_up(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    with httpx.Client(trust_env=False) as client:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                if client.get(url).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.02)
    end(process)
    raise RuntimeError(f"{url} does not answer; the last words:\n{log.read_text(errors='replace')[-2000:]}")
