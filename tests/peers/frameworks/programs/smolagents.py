"""An agent of smolagents. It ends by calling a tool of its own, `final_answer`."""

import os
import sys

from smolagents import MCPClient, OpenAIServerModel, ToolCallingAgent

model = OpenAIServerModel("scripted", api_base=os.environ["MODEL_URL"] + "/v1", api_key="none")
with MCPClient({"url": os.environ["MCP_URL"], "transport": "streamable-http"}, structured_output=True) as tools:
    sys.stdout.write(str(ToolCallingAgent(tools=tools, model=model, max_steps=20).run("Begin.")))
