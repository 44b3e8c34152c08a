"""What people would write instead of the gateway, with FastMCP and what it offers. Each in its own process."""

import os
from collections.abc import Callable
from typing import Any

import httpx
import yaml
from fastmcp import FastMCP
from fastmcp.server import create_proxy
from starlette.types import ASGIApp

from bench import serve
from bench.processes import ROOT
from bench.serve import PLATFORM_URL, PROXIED_URL


def ten_lines_server() -> FastMCP:
    """A search as one writes it in ten lines."""
    mcp = FastMCP("ten-lines")
    platform = httpx.AsyncClient(base_url=os.environ[PLATFORM_URL])

    @mcp.tool
    async def memory_search(query: str, brain: str = "main", top_k: int = 10) -> dict[str, Any]:
        """Search a brain for what answers a query."""
        answer = await platform.get(f"/v1/brains/{brain}/search", params={"q": query, "top_k": top_k})
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    return mcp


def openapi_server() -> FastMCP:
    """Every operation of the contract as a tool, made by FastMCP."""
    contract = yaml.safe_load((ROOT / "contract" / "openapi.yaml").read_text(encoding="utf-8"))
    contract["servers"] = [{"url": os.environ[PLATFORM_URL]}]
    # FastMCP does not read `false` as a schema. This one says the same.
    contract["components"]["schemas"]["SessionMessageRecord"]["properties"]["metadata"] = {"not": {}}
    return FastMCP.from_openapi(contract)


def proxy_server() -> FastMCP:
    """FastMCP in front of another server."""
    return create_proxy(os.environ[PROXIED_URL])


_FASTMCP: dict[str, Callable[[], FastMCP]] = {
    "ten-lines": ten_lines_server,
    "openapi": openapi_server,
    "proxy": proxy_server,
}


def app() -> ASGIApp:
    return _FASTMCP[serve.kind()]().http_app(stateless_http=True)


if __name__ == "__main__":
    serve.serve("bench.peers:app", serve.arguments([*_FASTMCP]))
