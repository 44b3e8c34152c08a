"""An agent of CrewAI, with the tools of crewai-tools."""

import json
import os
import sys

from crewai import LLM, Agent, Crew, Task
from crewai_tools import MCPServerAdapter
from mcp import StdioServerParameters

# It keeps a result from its model that fills a quarter of its window: of a model that it does not know, that is small.
model = LLM(model="openai/gpt-4o", base_url=os.environ["MODEL_URL"] + "/v1", api_key="none")
if "MCP_COMMAND" in os.environ:
    command, *arguments = json.loads(os.environ["MCP_COMMAND"])
    server: StdioServerParameters | dict[str, str] = StdioServerParameters(
        command=command, args=arguments, env=dict(os.environ)
    )
else:
    server = {"url": os.environ["MCP_URL"], "transport": "streamable-http"}
with MCPServerAdapter(server) as tools:
    agent = Agent(role="peer", goal="Use the tools.", backstory="A peer.", llm=model, tools=list(tools))
    task = Task(description="Begin.", expected_output="A word.", agent=agent)
    sys.stdout.write(str(Crew(agents=[agent], tasks=[task]).kickoff()))
