"""What the gateway is compared with: FastMCP as shipped, parts of it, and the SDK below it. Each in its own process."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

from fastmcp import Context, FastMCP
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent, Tool
from starlette.types import ASGIApp

from bench import serve

_FOREVER = 3600


def echo_server() -> FastMCP:
    mcp = FastMCP("bare")

    @mcp.tool
    async def echo(text: str) -> str:
        return text

    return mcp


def progress_server() -> FastMCP:
    mcp = FastMCP("bare-progress")

    @mcp.tool
    async def report(times: int, ctx: Context) -> str:
        for n in range(times):
            await ctx.report_progress(n, message="@1234567890123456789 ")
        return "done"

    @mcp.tool
    async def hold(ctx: Context) -> str:
        await ctx.report_progress(0, message="@1234567890123456789 ")
        await asyncio.sleep(_FOREVER)
        return "done"

    return mcp


def low_level_server() -> Server[Any]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

    async def list_tools(
        _context: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="echo", input_schema=schema)])

    async def call_tool(_context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=str((params.arguments or {})["text"]))])

    return Server(
        "low-level", get_tool_input_schema={"echo": schema}.get, on_list_tools=list_tools, on_call_tool=call_tool
    )


def guarded_server() -> FastMCP:
    """The echo behind FastMCP's own check of tokens."""
    # Here: the others must not pay for it when they start.
    from fastmcp.server.auth.providers.jwt import JWTVerifier

    verifier = JWTVerifier(
        public_key=os.environ["BENCH_KEY"],
        issuer=os.environ["BENCH_ISSUER"],
        audience=os.environ["BENCH_AUDIENCE"],
        algorithm="ES256",
    )
    mcp = FastMCP("guarded", auth=verifier)

    @mcp.tool
    async def echo(text: str) -> str:
        return text

    return mcp


_FASTMCP: dict[str, Callable[[], FastMCP]] = {
    "echo": echo_server,
    "progress": progress_server,
    "guarded": guarded_server,
}
KINDS = (*_FASTMCP, "low-level")


def app() -> ASGIApp:
    if serve.kind() == "low-level":
        return low_level_server().streamable_http_app(stateless_http=True)
    return _FASTMCP[serve.kind()]().http_app(stateless_http=True)


if __name__ == "__main__":
    told = serve.arguments([*KINDS, "stdio"])
    if told.kind == "stdio":
        echo_server().run(show_banner=False)
    else:
        serve.serve("bench.bare:app", told)
