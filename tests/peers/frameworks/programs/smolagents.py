"""An agent of smolagents. It ends by calling a tool of its own, `final_answer`."""

import json
import os
import sys

from mcp import StdioServerParameters
from smolagents import MCPClient, OpenAIServerModel, ToolCallingAgent

model = OpenAIServerModel("scripted", api_base=os.environ["MODEL_URL"] + "/v1", api_key="none")
if "MCP_COMMAND" in os.environ:
    command, *arguments = json.loads(os.environ["MCP_COMMAND"])
    server: StdioServerParameters | dict[str, str] = StdioServerParameters(
        command=command, args=arguments, env=dict(os.environ)
    )
else:
    server = {"url": os.environ["MCP_URL"], "transport": "streamable-http"}
with MCPClient(server, structured_output=True) as tools:
    sys.stdout.write(str(ToolCallingAgent(tools=tools, model=model, max_steps=20).run("Begin.")))
