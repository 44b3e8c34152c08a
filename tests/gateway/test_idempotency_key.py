"""The name a client may give a call to a session: `_meta["brains/idempotencyKey"]`."""

from typing import Any
from uuid import uuid4

import pytest
from fastmcp.client.client import CallToolResult

from tests.gateway.conftest import Agent, Platforms, agent_of, code_of, structured
from tests.served import Era

KEY = "brains/idempotencyKey"


async def say(agent: Agent, session: str, content: str, key: Any = None, **other: Any) -> CallToolResult:
    messages = [{"role": "user", "content": content}]
    arguments = {"brain": agent.brain, "session_id": session, "messages": messages, **other}
    meta = {} if key is None else {KEY: key}
    return await agent.client.call_tool("memory_extract", arguments, meta=meta, raise_on_error=False)


async def said(agent: Agent, session: str, content: str, key: Any = None) -> str:
    """The id of what was said; ` again` if it was said before."""
    answer = structured(await say(agent, session, content, key))
    return str(answer["messages"][0]["id"]) + (" again" if answer.get("reused") else "")


# Where the gateway keeps the session, by both ways in and on both protocol eras.
WAYS_IN = [
    ("http", "modern"),
    ("http", "legacy"),
    pytest.param("stdio", "modern", marks=pytest.mark.slow),
    pytest.param("stdio", "legacy", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("transport", "era"), WAYS_IN)
async def test_with_a_key_a_call_is_exact(transport: str, era: Era, platforms: Platforms) -> None:
    async for agent in agent_of(platforms("T"), "T", transport, era):
        session = f"s-{uuid4()}"
        first = await said(agent, session, "yes", "k1")
        assert await said(agent, session, "yes", "k1") == f"{first} again"
        second = await said(agent, session, "yes", "k2")
        assert second != first
        assert "again" not in second
        await said(agent, session, "no")
        assert await said(agent, session, "yes", "k1") == f"{first} again"
        assert await said(agent, session, "yes", "k2") == f"{second} again"


async def test_without_a_key_a_call_is_the_same_when_it_comes_next(web_agent: Agent) -> None:
    session = f"s-{uuid4()}"
    first = await said(web_agent, session, "yes")
    assert await said(web_agent, session, "yes") == f"{first} again"
    await said(web_agent, session, "no")
    assert "again" not in await said(web_agent, session, "yes")


async def test_a_call_with_a_key_that_comes_again_is_the_same_on_every_platform(web_agent: Agent) -> None:
    session = f"s-{uuid4()}"
    first = await said(web_agent, session, "yes", "k1")
    assert await said(web_agent, session, "yes", "k1") == f"{first} again"


async def test_a_key_holds_for_one_session(web_agent: Agent) -> None:
    ids = {await said(web_agent, f"s-{uuid4()}", "yes", "k1") for _ in range(2)}
    assert len(ids) == 2


@pytest.mark.parametrize("key", ["a", "A-z_0.9:x", "x" * 255, "0d9f6f0e-6f0c-4a55-9a7e-2f3b1c9a4e10"])
async def test_a_key_is_a_word_as_clients_make_them(key: str, web_agent: Agent) -> None:
    assert not (await say(web_agent, f"s-{uuid4()}", "yes", key)).is_error


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "a/b", "é", "a\n", 7, True, ["a"], {"a": 1}])
async def test_what_is_no_key_is_refused_and_nothing_is_said(key: Any, platforms: Platforms) -> None:
    async for agent in agent_of(platforms("T"), "T", "http", "modern"):
        session = f"s-{uuid4()}"
        result = await say(agent, session, "yes", key)
        assert code_of(result) == "validation_error"
        assert KEY in structured(result)["message"]
        assert "again" not in await said(agent, session, "yes")
