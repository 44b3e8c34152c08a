"""An agent of LangChain, with the tools of langchain-mcp-adapters."""

import asyncio
import os
import sys

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI


async def main() -> None:
    model = ChatOpenAI(model="scripted", base_url=os.environ["MODEL_URL"] + "/v1", api_key="none")
    client = MultiServerMCPClient({"brains": {"transport": "streamable_http", "url": os.environ["MCP_URL"]}})
    agent = create_agent(model, await client.get_tools())
    done = await agent.ainvoke({"messages": [{"role": "user", "content": "Begin."}]})
    sys.stdout.write(done["messages"][-1].content)


asyncio.run(main())
