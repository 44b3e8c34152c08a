"""The suite's tools that answer by themselves: content of every kind, logging, progress, schemas, headers."""

import asyncio
from typing import Annotated, Any, Final

from fastmcp import Context
from fastmcp.exceptions import ToolError
from fastmcp.tools import Tool, ToolResult
from mcp_types import AudioContent, EmbeddedResource, ImageContent, TextContent, TextResourceContents
from pydantic import Field

from tests.peers.conformance.samples import PNG_BASE64, WAV_BASE64

# Keywords of JSON Schema 2020-12 that must come out as they went in; the suite has the same.
SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

_IMAGE: Final = ImageContent(type="image", data=PNG_BASE64, mime_type="image/png")


def tools() -> list[Tool]:
    bodies = (
        test_simple_text,
        test_image_content,
        test_audio_content,
        test_embedded_resource,
        test_multiple_content_types,
        test_tool_with_logging,
        test_logging_tool,
        test_tool_with_progress,
        test_error_handling,
        test_custom_headers,
    )
    made: list[Tool] = [Tool.from_function(body, output_schema=None) for body in bodies]
    with_schema = Tool.from_function(json_schema_2020_12_tool, output_schema=None)
    return [*made, with_schema.model_copy(update={"parameters": SCHEMA})]


async def test_simple_text() -> str:
    """Answers with text."""
    return "This is a simple text response for testing."


async def test_image_content() -> ToolResult:
    """Answers with an image."""
    return ToolResult([_IMAGE])


async def test_audio_content() -> ToolResult:
    """Answers with a sound."""
    return ToolResult([AudioContent(type="audio", data=WAV_BASE64, mime_type="audio/wav")])


async def test_embedded_resource() -> ToolResult:
    """Answers with a resource."""
    return ToolResult([_embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")])


async def test_multiple_content_types() -> ToolResult:
    """Answers with text, an image and a resource."""
    resource = _embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return ToolResult([TextContent(type="text", text="Multiple content types test:"), _IMAGE, resource])


async def test_tool_with_logging(ctx: Context) -> str:
    """Logs three times while it works."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(message)
        await asyncio.sleep(0.05)
    return "Logged."


async def test_logging_tool(ctx: Context) -> str:
    """Logs once."""
    await ctx.info("Logged by test_logging_tool")
    return "Logged."


async def test_tool_with_progress(ctx: Context) -> str:
    """Tells how far it is, three times."""
    for progress in (0, 50, 100):
        await ctx.session.report_progress(progress, 100)
        await asyncio.sleep(0.05)
    return "Done."


async def test_error_handling() -> str:
    """Fails."""
    raise ToolError("This tool intentionally returns an error for testing")


async def test_custom_headers(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Takes an argument that is in a header too."""
    return region


async def json_schema_2020_12_tool() -> str:
    """Tool with JSON Schema 2020-12 features"""
    return "ok"


def _embedded(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))
