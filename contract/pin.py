"""Writes the pin of a surface: the tools a server lists, as JSON with sorted keys.

    python -m contract.pin memory brains-gateway stdio

Read the difference as a user of the tools would before committing it.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp_types import Tool

PINS = Path(__file__).parent / "tools"
EXTRAS = "_extras"
PINNED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")


def pinned(tools: list[Tool]) -> list[dict[str, Any]]:
    """The fields of a tool list that belong to the contract; the rest (`_meta`) is the framework's own."""
    dumped = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    return [{key: tool[key] for key in PINNED if key in tool} for tool in dumped]


async def listed(command: str, *arguments: str) -> list[Tool]:
    async with Client(StdioTransport(command, list(arguments))) as client:
        return list(await client.list_tools())


def main() -> None:
    surface, command, *arguments = sys.argv[1:]
    tools = asyncio.run(listed(command, *arguments))
    if surface.endswith(EXTRAS):
        # Tools that a server has beside those of the surface.
        own = json.loads((PINS / f"{surface.removesuffix(EXTRAS)}.json").read_text(encoding="utf-8"))
        tools = [tool for tool in tools if tool.name not in {pin["name"] for pin in own}]
    text = json.dumps(pinned(tools), indent=2, sort_keys=True, ensure_ascii=False)
    (PINS / f"{surface}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
