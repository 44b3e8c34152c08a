"""Gateways for the tests of a session, one for each platform, and clients of them by every way in."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest
from fastmcp import Client
from fastmcp.client.client import CallToolResult
from mcp_types import TextContent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.daemons.fake import FakeDaemon, G, Script, T, Y
from tests.gateway.ingest.internet import Internet, record_dialling
from tests.served import Era, Served, listening, serving
from tests.tiers import by_tier
from tests.web import web_on

DAEMONS = {"T": T, "Y": Y, "G": G}
# The canonical platform by every way in, and every make of the daemon.
WAYS_IN: list[tuple[str, str, Era]] = [
    ("embedded", "http", "modern"),
    ("embedded", "http", "legacy"),
    ("embedded", "stdio", "legacy"),
    ("T", "http", "modern"),
    ("Y", "http", "legacy"),
    ("G", "http", "modern"),
]
EVERY_WAY_IN: list[tuple[str, str, Era]] = [
    (platform, transport, era)
    for platform in ("embedded", *DAEMONS)
    for transport in ("http", "stdio")
    for era in ("modern", "legacy")
]
# What differs over stdio is the transport, which the cases of the contract and the pins try in `make test` too: the
# same test body by a process of its own is worth its second and a half once in `make test-all`, and by night always.
NOT_QUICK = [("embedded", "http", "legacy"), ("T", "http", "modern")]
WAYS = [
    pytest.param(
        way, marks=() if way == WAYS_IN[0] else pytest.mark.not_quick if way in NOT_QUICK else pytest.mark.slow
    )
    for way in by_tier(WAYS_IN, WAYS_IN, EVERY_WAY_IN)
]
PLATFORMS = [
    "embedded",
    pytest.param("T", marks=pytest.mark.not_quick),
    *(pytest.param(daemon, marks=pytest.mark.slow) for daemon in ("Y", "G")),
]
# For what differs little from one make of the daemon to the next: by night it is tried on all of them.
FEW_PLATFORMS = [*PLATFORMS[:2], *(pytest.param(daemon, marks=pytest.mark.nightly) for daemon in ("Y", "G"))]
# What the language model of the daemons says, whatever it is asked.
TALK = Script(
    tokens=["The night train ", "to Vienna leaves ", "at 22:10 from platform 9."],
    memories=[
        {
            "action": "create",
            "filename": "../tea.md",
            "name": "Tea",
            "description": "What to drink",
            "type": "user",
            "content": "The user prefers tea over coffee.",
            "indexEntry": "tea",
            "scope": "global",
            "tags": ["drinks"],
        }
    ],
    reflection={
        "outcome": "success",
        "summary": "The pump was fixed.",
        "retryFeedback": "",
        "shouldRecordEpisode": True,
        "openQuestions": [],
        "heuristics": [],
    },
)

Platforms = Callable[[str], Served]


@pytest.fixture(scope="session")
def platforms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platforms]:
    """A gateway in front of each platform, started when it is first asked for."""
    running: dict[str, Served] = {}
    with ExitStack() as stack:
        web = stack.enter_context(listening(Starlette(routes=[Route("/{path:path}", _page)])))

        def started(name: str) -> Served:
            if name not in running:
                root, data = tmp_path_factory.mktemp("files"), tmp_path_factory.mktemp("data")
                upstream: dict[str, str] = {}
                if name != "embedded":
                    daemon = FakeDaemon(DAEMONS[name], llm=TALK)
                    upstream["upstream_url"] = stack.enter_context(listening(daemon.app()))
                with web_on(web):
                    running[name] = stack.enter_context(serving(data, root, **upstream))
            return running[name]

        yield started


async def _page(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("Otters hold hands while they sleep.")


@pytest.fixture(scope="session")
def served(platforms: Platforms) -> Served:
    return platforms("embedded")


@dataclass
class Agent:
    """A client with a brain of its own, on one of the platforms."""

    client: Client[Any]
    brain: str
    platform: str
    served: Served

    async def __call__(self, tool: str, **arguments: Any) -> CallToolResult:
        """Call a tool on the own brain, whatever comes of it."""
        if tool not in {"memory_create_brain", "memory_list_brains"}:
            arguments.setdefault("brain", self.brain)
        return await self.client.call_tool(tool, arguments, raise_on_error=False)

    async def good(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured result of a call that must succeed."""
        result = await self(tool, **arguments)
        assert not result.is_error, text_of(result)
        return structured(result)


@dataclass
class House:
    """One brain on one of the platforms, and a client of each surface that is asked for."""

    served: Served
    brain: str
    platform: str
    transport: str
    era: Era
    clients: AsyncExitStack
    headers: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    """For processes that are spoken to over stdio."""
    open: dict[str, Client[Any]] = field(default_factory=dict)

    async def client(self, surface: str) -> Client[Any]:
        if surface not in self.open:
            if self.transport == "http":
                client = self.served.over_http(self.era, f"/{surface}/mcp/{self.brain}", self.headers)
            else:
                client = self.served.over_stdio(
                    self.era, surface, **{"BRAINS_DEFAULT_BRAIN": self.brain, **self.settings}
                )
            self.open[surface] = await self.clients.enter_async_context(client)
        return self.open[surface]

    async def __call__(self, surface: str, tool: str, **arguments: Any) -> CallToolResult:
        """Call a tool of a surface, whatever comes of it."""
        return await (await self.client(surface)).call_tool(tool, arguments, raise_on_error=False)

    async def good(self, surface: str, tool: str, **arguments: Any) -> CallToolResult:
        result = await self(surface, tool, **arguments)
        assert not result.is_error, text_of(result)
        return result


async def house_of(platforms: Platforms, platform: str, transport: str, era: Era) -> AsyncIterator[House]:
    served = platforms(platform)
    async with AsyncExitStack() as clients:
        async with served.over_http("modern") as client:
            created = await client.call_tool("memory_create_brain", {"name": f"Test {uuid4()}"})
        yield House(served, structured(created)["id"], platform, transport, era, clients)


@pytest.fixture(params=WAYS, ids="-".join)
async def house(request: pytest.FixtureRequest, platforms: Platforms) -> AsyncIterator[House]:
    """A brain with all surfaces on it, on every platform, by every transport and on both protocol eras."""
    async for found in house_of(platforms, *request.param):
        yield found


@pytest.fixture(params=PLATFORMS[:2])
async def web_house(request: pytest.FixtureRequest, platforms: Platforms) -> AsyncIterator[House]:
    """One of each dialect, and one way in, where the way makes no difference."""
    async for found in house_of(platforms, request.param, "http", "modern"):
        yield found


def texts_of(result: CallToolResult) -> list[str]:
    """The summary, and what it leaves out, if it leaves out anything."""
    blocks = [block for block in result.content if isinstance(block, TextContent)]
    assert len(blocks) == len(result.content) <= 2
    return [block.text for block in blocks]


def text_of(result: CallToolResult) -> str:
    return texts_of(result)[0]


def structured(result: CallToolResult) -> dict[str, Any]:
    assert result.structured_content is not None, text_of(result)
    return dict(result.structured_content)


def code_of(result: CallToolResult) -> str:
    """The code of an error result, the same in its text, its line of JSON and its structure."""
    assert result.is_error, text_of(result)
    error = structured(result)
    assert set(error) >= {"code", "message", "retryable", "request_id"}
    assert len(result.content) == 1
    assert text_of(result).startswith(f"{error['code']}: {error['message']}\n{{")
    return str(error["code"])


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    """Holds within ten seconds: for what goes on after an answer."""
    for _ in range(200):
        if await check():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it never came to be")


async def agent_of(served: Served, platform: str, transport: str, era: Era) -> AsyncIterator[Agent]:
    async with served.connect(transport, era) as client:
        created = await client.call_tool("memory_create_brain", {"name": f"Test {uuid4()}"})
        yield Agent(client, structured(created)["id"], platform, served)


@pytest.fixture(params=WAYS, ids="-".join)
async def agent(request: pytest.FixtureRequest, platforms: Platforms) -> AsyncIterator[Agent]:
    """The same test body on every platform, by every transport and on both protocol eras."""
    platform, transport, era = request.param
    async for found in agent_of(platforms(platform), platform, transport, era):
        yield found


@pytest.fixture(params=PLATFORMS)
async def web_agent(request: pytest.FixtureRequest, platforms: Platforms) -> AsyncIterator[Agent]:
    """One way in, where the way makes no difference."""
    async for found in agent_of(platforms(request.param), request.param, "http", "modern"):
        yield found


@pytest.fixture
def internet() -> Internet:
    return Internet()


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Where a socket wanted to connect to. A test that lets one try empties the list."""
    attempts = record_dialling(monkeypatch)
    yield attempts
    assert attempts == []
