"""A session that was closed: whoever goes on in it opens it again, and a call that is sent again does not."""

from typing import Any

import pytest

from tests.gateway.conftest import Agent

pytestmark = pytest.mark.not_quick


def said(content: str) -> dict[str, Any]:
    return {"session_id": "day", "messages": [{"role": "user", "content": content}]}


async def closed(agent: Agent) -> tuple[str, dict[str, Any]]:
    """When the session ended, and what came of it."""
    answer = await agent.good("memory_reflect", session_id="day")
    assert answer["reflection_status"] == "completed"
    return answer["ended_at"], answer["reflection"]


async def test_what_is_said_in_a_closed_session_opens_it_again(web_agent: Agent) -> None:
    await web_agent.good("memory_extract", **said("We fixed the pump."))
    first = await closed(web_agent)
    on = await web_agent.good("memory_extract", **said("It leaks again."))
    assert [message["content"] for message in on["messages"]] == ["It leaks again."]
    again = await closed(web_agent)
    assert again[0] > first[0]
    # Nothing was said since: it is the same end.
    assert await closed(web_agent) == again


async def test_a_call_that_is_sent_again_leaves_the_session_closed(web_agent: Agent) -> None:
    first = await web_agent.good("memory_extract", **said("We fixed the pump."))
    ended = await closed(web_agent)
    again = await web_agent.good("memory_extract", **said("We fixed the pump."))
    assert (again["messages"], again["reused"]) == (first["messages"], True)
    assert await closed(web_agent) == ended
