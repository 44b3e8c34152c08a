"""A surface for tests alone: the prompts and resources that the conformance suite asks for, and its tools."""

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from fastmcp import Context, FastMCP
from fastmcp.prompts import Message, PromptResult
from fastmcp.server.dependencies import get_context
from fastmcp.tools import Tool
from mcp_types import (
    CompletionArgument,
    CompletionContext,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    PromptReference,
    ResourceTemplateReference,
    TextResourceContents,
)

from gateway.app.gateway import Gateway
from gateway.mcp.surface import Surface
from tests.peers.conformance import asking_tools, content_tools
from tests.peers.conformance.samples import PNG, PNG_BASE64


class FixtureSurface(Surface):
    """What the suite expects of any server, served as our own surfaces are."""

    name: ClassVar[str] = "fixtures"
    instructions: ClassVar[str] = "For the conformance suite."

    def add_to(self, mcp: FastMCP) -> None:
        _add_resources(mcp)
        _add_prompts(mcp)

        @mcp.completion
        async def completed(
            ref: PromptReference | ResourceTemplateReference,
            argument: CompletionArgument,
            context: CompletionContext | None,
        ) -> list[str]:
            return [word for word in ("test", "testing", "paris") if word.startswith(argument.value)]


class FixtureGateway(Gateway):
    """The gateway as it is, but for the surface and its tools."""

    def surface(self, name: str) -> Surface:
        return FixtureSurface(self.brain)

    def server(self, surface: Surface, tools: Sequence[Tool] | None = None, is_answered: Any = None) -> FastMCP:
        return super().server(surface, [*content_tools.tools(), *asking_tools.tools()])


def _add_resources(mcp: FastMCP) -> None:
    @mcp.resource("test://static-text", name="static-text", description="A text.", mime_type="text/plain")
    async def static_text() -> str:
        return "This is the content of the static text resource."

    @mcp.resource("test://static-binary", name="static-binary", description="An image.", mime_type="image/png")
    async def static_binary() -> bytes:
        return PNG

    @mcp.resource("test://watched-resource", name="watched", description="To subscribe to.", mime_type="text/plain")
    async def watched() -> str:
        return "Watched resource content"

    @mcp.resource(
        "test://template/{id}/data", name="template", description="A resource by id.", mime_type="application/json"
    )
    async def template(id: str) -> str:
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def _add_prompts(mcp: FastMCP) -> None:
    @mcp.prompt(description="A simple prompt.")
    async def test_simple_prompt() -> str:
        return "This is a simple prompt for testing."

    @mcp.prompt(description="A prompt with arguments.")
    async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @mcp.prompt(description="A prompt with an embedded resource.")
    async def test_prompt_with_embedded_resource(resourceUri: str) -> PromptResult:
        text = TextResourceContents(
            uri=resourceUri, mime_type="text/plain", text="Embedded resource content for testing."
        )
        embedded = EmbeddedResource(type="resource", resource=text)
        return PromptResult([Message(embedded), Message("Please process the embedded resource above.")])

    @mcp.prompt(description="A prompt with an image.")
    async def test_prompt_with_image() -> PromptResult:
        image = ImageContent(type="image", data=PNG_BASE64, mime_type="image/png")
        return PromptResult([Message(image), Message("Please analyze the image above.")])

    @mcp.prompt(description="A prompt that asks for its context.")
    async def test_input_required_result_prompt(ctx: Context) -> Any:
        answer = (get_context().input_responses or {}).get("user_context")
        if isinstance(answer, ElicitResult):
            return f"The context is {(answer.content or {}).get('context')}."
        asked = asking_tools.form("What context should the prompt use?", context={"type": "string"})
        return InputRequiredResult(input_requests={"user_context": asked})
