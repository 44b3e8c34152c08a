"""Two gateways, and a platform that holds the first message of a session until it is told to go on."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contract.platform.app import create_app
from contract.platform.store import Store
from tests.canaries.processes import Process, running
from tests.replicas.load import with_token
from tests.served import listening, messages_of, raw_call

_PATIENCE_SECONDS = 60


@dataclass
class HoldsFirst:
    """A platform that has the first message of a session, and does not add it yet."""

    app: ASGIApp
    knows_keys: bool
    """Else it ignores them, as platforms do that have never heard of them."""
    until_second_look: bool
    """Whether it goes on by itself, once it was asked for the session a second time."""
    arrived: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    looks: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].endswith("/sessions/talk/messages"):
            await self.app(scope, receive, send)
        elif scope["method"] == "GET":
            await self.app(scope, receive, send)
            self.looks += 1
            if self.looks == 2 and self.until_second_look:
                self.go_on.set()
        else:
            # Read before it is held: a platform finishes what it has, whether or not anybody still waits for it.
            body = await _read(receive)
            if not self.arrived.is_set():
                self.arrived.set()
                await happened(self.go_on)
            await self.app(scope, _again(body if self.knows_keys else _without_key(body)), send)


async def happened(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, _PATIENCE_SECONDS)


async def _read(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        part = await receive()
        body, more = body + part.get("body", b""), part.get("more_body", False)
    return body


def _again(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _without_key(body: bytes) -> bytes:
    message = json.loads(body)
    del message["metadata"]["idempotency_key"]
    # Of the same length, because it was announced.
    return json.dumps(message).encode().ljust(len(body))


@dataclass
class World:
    platform: HoldsFirst
    store: Store
    gateways: list[Process]
    token: str

    def stored(self) -> list[str]:
        brain = self.store.brain("main")
        return [str(message["content"]) for message in self.store.sessions.messages(brain, "talk", 10)]


@contextmanager
def two_gateways(
    folder: Path, *, knows_keys: bool = True, until_second_look: bool = True, **settings: str
) -> Iterator[World]:
    store = Store.open(folder / "platform")
    platform = HoldsFirst(create_app(store, token=None), knows_keys, until_second_look)
    token = with_token(folder / "tokens.json", "writer")
    try:
        with listening(platform) as url:
            settings = {
                "BRAINS_UPSTREAM_URL": url,
                "BRAINS_UPSTREAM_TOKEN": "upstream-token",
                "BRAINS_AUTH": "tokens",
                "BRAINS_SINGLE_TENANT": "true",
                "BRAINS_TOKENS_FILE": str(folder / "tokens.json"),
                "BRAINS_DATA_DIR": str(folder / "data"),
                **settings,
            }
            gateways = [Process(settings, folder / f"{n}.txt") for n in range(2)]
            with running(*gateways):
                yield World(platform, store, gateways, token)
    finally:
        store.close()


async def say(world: World, gateway: Process) -> dict[str, Any]:
    messages = [{"role": "user", "content": word} for word in ("one", "two")]
    request = raw_call("modern", "memory_extract", {"messages": messages, "session_id": "talk"})
    request["headers"]["authorization"] = f"Bearer {world.token}"
    async with httpx.AsyncClient(trust_env=False, timeout=_PATIENCE_SECONDS) as http:
        answer = await http.post(f"{gateway.url}/mcp/main", **request)
    result = messages_of(answer)[-1]["result"]
    assert not result.get("isError"), result
    return dict(result["structuredContent"])
