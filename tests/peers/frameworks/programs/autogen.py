"""An agent of AutoGen, with the tools of autogen-ext."""

import asyncio
import json
import os
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams, StreamableHttpServerParams


async def main() -> None:
    capable = {"vision": False, "function_calling": True, "json_output": False, "structured_output": False}
    model = OpenAIChatCompletionClient(
        model="scripted",
        base_url=os.environ["MODEL_URL"] + "/v1",
        api_key="none",
        model_info={**capable, "family": "unknown"},
    )
    if "MCP_COMMAND" in os.environ:
        command, *arguments = json.loads(os.environ["MCP_COMMAND"])
        server = StdioServerParams(command=command, args=arguments, env=dict(os.environ))
    else:
        server = StreamableHttpServerParams(url=os.environ["MCP_URL"])
    async with McpWorkbench(server) as brains:
        agent = AssistantAgent("peer", model_client=model, workbench=brains, max_tool_iterations=20)
        done = await agent.run(task="Begin.")
    sys.stdout.write(done.messages[-1].to_text())


asyncio.run(main())
