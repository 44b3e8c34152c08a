"""Clients that write through a load balancer as long as a test lasts, and a check of what is stored in the end."""

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from contract.platform.database import FILE_NAME
from gateway.config import token_file
from tests.faults.proof.shelves import PlatformShelf, mark
from tests.served import Era, messages_of, raw_call

# More than a minute of them, so that a client outlasts whatever a gateway is down for.
RESENDS = 600
BROKEN = "broken"


def with_token(path: Path, name: str) -> str:
    token = token_file.make_token()
    with token_file.change(path) as records:
        record = {
            "id": name,
            "sha256": token_file.digest(token),
            "name": name,
            "subject": name,
            "scope": "brains:admin",
        }
        records.append(token_file.Record.model_validate(record | {"created": "2026-01-01T00:00:00Z"}))
    return token


@dataclass
class Told:
    """What clients were told, and what they wrote."""

    marks: list[str] = field(default_factory=list)
    messages: dict[str, list[str]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    final: list[Any] = field(default_factory=list)
    """Errors after which a client does not send the call again."""
    searches: int = 0
    sent: Counter[int] = field(default_factory=Counter)
    """How many calls were sent once, how many twice, and so on."""
    disturbances: list[tuple[float, float]] = field(default_factory=list)
    """When each kill or restart began, and when all was well again; infinite until then."""
    failed_twice: int = 0
    """How many calls were sent again more often than they met a kill or a restart."""

    @contextmanager
    def disturbed(self) -> Iterator[None]:
        """While something is killed and comes back."""
        begun, n = time.monotonic(), len(self.disturbances)
        self.disturbances.append((begun, math.inf))
        yield
        self.disturbances[n] = (begun, time.monotonic())

    def met_since(self, begun: float) -> int:
        """How many kills and restarts a call has met that began then."""
        return sum(ends >= begun for _, ends in self.disturbances)


@dataclass
class Client:
    """Sends each call through the balancer on a connection of its own, and sends it again if that breaks."""

    http: httpx.AsyncClient
    url: str
    token: str
    told: Told

    async def call(self, tool: str, arguments: dict[str, Any], era: Era) -> dict[str, Any] | None:
        begun = time.monotonic()
        for n in range(1, RESENDS + 1):
            said = await self._once(tool, arguments, era)
            if said is None:
                self.told.errors[BROKEN] += 1
            elif not said.get("isError"):
                self.told.sent[n] += 1
                self.told.failed_twice += n > 2 and n - 1 > self.told.met_since(begun)
                return said
            else:
                error = said["structuredContent"]
                self.told.errors[error["code"]] += 1
                if not error["retryable"]:
                    self.told.final.append((tool, error))
                    return None
            await asyncio.sleep(random.uniform(0.05, 0.2))
        self.told.final.append((tool, "sent too often"))
        return None

    async def _once(self, tool: str, arguments: dict[str, Any], era: Era) -> dict[str, Any] | None:
        """The result; None if the connection broke before there was one."""
        request = raw_call(era, tool, arguments)
        request["headers"] |= {"authorization": f"Bearer {self.token}", "connection": "close"}
        path = "/mcp" if tool == "memory_create_brain" else "/mcp/main"
        try:
            response = await self.http.post(self.url + path, **request)
            if response.status_code != 200:
                # A proxy's own page is not JSON, so it does not count as an answer of a gateway.
                return {"isError": True, "structuredContent": {"code": str(response.status_code), **response.json()}}
            messages = messages_of(response)
        except (httpx.TransportError, KeyError, ValueError):
            return None
        return dict(messages[-1]["result"]) if messages and "result" in messages[-1] else None


async def write_on(client: Client, n: int, stop: asyncio.Event, pause: float) -> None:
    """Write in every way in turn, and search after each write, until told to stop."""
    told, session, turn = client.told, f"session-{n}", 0
    told.messages[session] = []
    while not stop.is_set():
        turn += 1
        era: Era = "modern" if turn % 2 else "legacy"
        word = mark(n, turn)
        said = [{"role": "user", "content": f"Heron {word}"}]
        match turn % 5:
            case 0:
                await client.call("memory_remember", {"content": word, "path": f"memory/global/{word}.md"}, era)
            case 1:
                await client.call("memory_extract", {"messages": said}, era)
            case 2:
                await client.call("memory_extract", {"messages": said, "session_id": session}, era)
                told.messages[session].append(f"{session} Heron {word}")
            case 3:
                await client.call("memory_create_brain", {"name": f"Brain {word}"}, era)
            case _:
                await client.call("memory_remember", {"content": f"# Heron\n\nIt waits. {word}"}, era)
        if turn % 5 != 2:
            told.marks.append(word)
        if await client.call("memory_search", {"query": word}, era) is not None:
            told.searches += 1
        await asyncio.sleep(pause)


@asynccontextmanager
async def load(url: str, token: str, clients: int = 6, pause: float = 0, *, verify: bool = True) -> AsyncIterator[Told]:
    """Clients that write as long as the block lasts, and pause after each write."""
    told, stop = Told(), asyncio.Event()
    async with httpx.AsyncClient(trust_env=False, timeout=20, verify=verify) as http:
        writing = [
            asyncio.create_task(write_on(Client(http, url, token, told), n, stop, pause)) for n in range(1, clients + 1)
        ]
        try:
            yield told
        except BaseException:
            for client in writing:
                client.cancel()
            raise
        stop.set()
        await asyncio.gather(*writing)


async def until_written(told: Told, more: int) -> None:
    """Wait for this many more writes, so that the load goes on in whatever state the gateways are."""
    goal = len(told.marks) + more
    async with asyncio.timeout(30):
        while len(told.marks) < goal:  # noqa: ASYNC110  # clients count in a list
            await asyncio.sleep(0.01)


def stored(directory: Path) -> Counter[str]:
    """How often each mark is stored."""
    with closing(PlatformShelf(directory / FILE_NAME)) as shelf:
        return shelf.documents() + shelf.brains()


def differences(directory: Path, told: Told) -> dict[str, object]:
    """What is wrong: marks and messages that are not stored exactly once, with their number, and sessions whose
    messages are in another order."""
    there = stored(directory)
    wrong: dict[str, object] = {word: there[word] for word in told.marks if there[word] != 1}
    with closing(PlatformShelf(directory / FILE_NAME)) as shelf:
        logs = {session: shelf.log(session) for session in told.messages}
    for session, log in logs.items():
        counts = Counter(log)
        odd = {message: counts[message] for message in {*log, *told.messages[session]} if counts[message] != 1}
        in_order = [message for message in told.messages[session] if message in counts]
        wrong |= odd if [*dict.fromkeys(log)] == in_order else {**odd, session: "in another order"}
    return wrong
