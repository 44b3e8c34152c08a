"""An agent of LangChain, with the tools of langchain-mcp-adapters."""

import asyncio
import json
import os
import sys

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI


async def main() -> None:
    model = ChatOpenAI(model="scripted", base_url=os.environ["MODEL_URL"] + "/v1", api_key="none")
    if "MCP_COMMAND" in os.environ:
        command, *arguments = json.loads(os.environ["MCP_COMMAND"])
        server = {"transport": "stdio", "command": command, "args": arguments, "env": dict(os.environ)}
    else:
        server = {"transport": "streamable_http", "url": os.environ["MCP_URL"]}
    client = MultiServerMCPClient({"brains": server})
    agent = create_agent(model, await client.get_tools())
    done = await agent.ainvoke({"messages": [{"role": "user", "content": "Begin."}]})
    sys.stdout.write(done["messages"][-1].content)


asyncio.run(main())
