"""What a tool says is the same by every way to it."""

from typing import Any

import pytest
from fastmcp import FastMCP
from fastmcp.server.context import Context
from fastmcp.tools import ToolResult
from mcp_types import CallToolResult, InputRequiredResult, TextContent

from gateway.brain.brain import Brain
from gateway.mcp.result import Result
from gateway.mcp.run import SurfaceTool, tools_of
from gateway.mcp.surface import Surface
from gateway.mcp.tool import tool
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.surfaces.memory.schema import LIST_BRAINS, ListBrainsInput

QUESTION = InputRequiredResult(input_requests={}, request_state="x")


class Says(Surface):
    """Has one tool, which says what it is told to."""

    name = "says"
    instructions = ""
    said: Result | InputRequiredResult | GatewayError = Result("tea")

    @tool(LIST_BRAINS)
    async def list_brains(self, args: ListBrainsInput, call: Call) -> Result | InputRequiredResult:
        if isinstance(self.said, GatewayError):
            raise self.said
        return self.said


def saying(said: Result | InputRequiredResult | GatewayError) -> SurfaceTool:
    surface = Says(Brain.__new__(Brain))
    surface.said = said
    (only,) = tools_of(surface)
    assert isinstance(only, SurfaceTool)
    return only


async def run(tool: SurfaceTool) -> ToolResult:
    """As FastMCP runs a tool."""
    async with Context(fastmcp=FastMCP("says")):
        return await tool.run({})


@pytest.mark.parametrize("data", [None, {"hits": [{"score": 0.5, "note": None}]}])
def test_it_is_on_the_wire_as_the_sdk_writes_it(data: dict[str, Any] | None) -> None:
    for is_error in (False, True):
        by_model = CallToolResult(
            content=[TextContent(type="text", text="tea")], structured_content=data, is_error=is_error
        )
        dumped = by_model.model_dump(by_alias=True, mode="json", exclude_none=True)
        assert Result("tea", data, is_error).as_json() == dumped


@pytest.mark.parametrize("full", [None, "green tea"])
async def test_fastmcp_s_own_way_says_the_same(full: str | None) -> None:
    said = Result("tea", {"a": 1}, full=full)
    ran = await run(saying(said))
    texts = [TextContent(type="text", text=text) for text in ("tea", full) if text]
    assert (ran.content, ran.structured_content, ran.is_error) == (texts, {"a": 1}, False)
    assert said.as_json()["content"] == [text.model_dump(mode="json", exclude_none=True) for text in texts]


async def test_a_failure_is_one_there_too() -> None:
    ran = await run(saying(GatewayError("not_found")))
    assert ran.is_error
    assert ran.structured_content is not None
    assert ran.structured_content["code"] == "not_found"


async def test_a_question_stays_one() -> None:
    ran = await run(saying(QUESTION))
    assert getattr(ran, "input_required", None) == QUESTION
