"""An agent of openai-agents, which makes every tool strict where it can: the model must then name every argument."""

import asyncio
import json
import os
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from openai import AsyncOpenAI


async def main() -> None:
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="none")
    model = OpenAIChatCompletionsModel(model="scripted", openai_client=client)
    if "MCP_COMMAND" in os.environ:
        command, *arguments = json.loads(os.environ["MCP_COMMAND"])
        server = MCPServerStdio({"command": command, "args": arguments, "env": dict(os.environ)})
    else:
        server = MCPServerStreamableHttp({"url": os.environ["MCP_URL"]})
    async with server as brains:
        agent = Agent(name="peer", model=model, mcp_servers=[brains], mcp_config={"convert_schemas_to_strict": True})
        done = await Runner.run(agent, "Begin.", max_turns=20)
    sys.stdout.write(done.final_output)


asyncio.run(main())
