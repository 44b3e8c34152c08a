"""A gateway for the tests of a session, and clients of it by every way in."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from fastmcp import Client
from fastmcp.client.client import CallToolResult
from mcp_types import TextContent

from tests.served import Era, Served, serving

WAYS_IN: list[tuple[str, Era]] = [
    ("http", "modern"),
    ("http", "legacy"),
    ("stdio", "modern"),
    ("stdio", "legacy"),
]


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("files")
    with serving(tmp_path_factory.mktemp("data"), root) as gateway:
        yield gateway


@dataclass
class Agent:
    """A client with a brain of its own."""

    client: Client[Any]
    brain: str

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


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def structured(result: CallToolResult) -> dict[str, Any]:
    assert result.structured_content is not None, text_of(result)
    return dict(result.structured_content)


def code_of(result: CallToolResult) -> str:
    """The code of an error result, the same in its text, its line of JSON and its structure."""
    assert result.is_error, text_of(result)
    error = structured(result)
    assert set(error) >= {"code", "message", "retryable", "request_id"}
    assert text_of(result).startswith(f"{error['code']}: {error['message']}\n{{")
    return str(error["code"])


@pytest.fixture(params=WAYS_IN, ids="-".join)
async def agent(request: pytest.FixtureRequest, served: Served) -> AsyncIterator[Agent]:
    """The same test body by every transport and on both protocol eras."""
    transport, era = request.param
    async with served.connect(transport, era) as client:
        created = await client.call_tool("memory_create_brain", {"name": f"Test {uuid4()}"})
        yield Agent(client, structured(created)["id"])


@pytest.fixture
async def web_agent(served: Served) -> AsyncIterator[Agent]:
    """One way in, where the way makes no difference."""
    async with served.over_http("modern") as client:
        created = await client.call_tool("memory_create_brain", {"name": f"Test {uuid4()}"})
        yield Agent(client, structured(created)["id"])
