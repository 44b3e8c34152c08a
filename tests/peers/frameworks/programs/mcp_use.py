"""An agent of mcp-use."""

import asyncio
import json
import os
import sys

from langchain_openai import ChatOpenAI
from mcp_use import MCPAgent, MCPClient


async def main() -> None:
    model = ChatOpenAI(model="scripted", base_url=os.environ["MODEL_URL"] + "/v1", api_key="none")
    if "MCP_COMMAND" in os.environ:
        command, *arguments = json.loads(os.environ["MCP_COMMAND"])
        server = {"command": command, "args": arguments, "env": dict(os.environ)}
    else:
        server = {"url": os.environ["MCP_URL"]}
    client = MCPClient({"mcpServers": {"brains": server}})
    try:
        sys.stdout.write(await MCPAgent(llm=model, client=client, max_steps=20).run("Begin."))
    finally:
        await client.close_all_sessions()


asyncio.run(main())
