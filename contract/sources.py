"""Where a reader finds what a case demands: every source can be opened."""

from contract.causes import own_route

MADE_BY = {
    "spec/mcp-tools": "the page “MCP tools” of the Jeffs Brain documentation",
    "spec/kv": "the page of the Jettson memory tools",
    "spec/team": "the page of the team memory server",
    "spec/being": "the page of the being's MCP server",
    "spec/memo": "the page of the MemoAI MCP server",
    "spec/chat": "the page “Building MCP servers for ChatGPT and API integrations” of the OpenAI documentation",
}


def where_of(source: str) -> str:
    """Where the source is, in words."""
    kind, _, section = source.partition(" ")
    if kind == "openapi":
        route = own_route(source)
        return f"contract/openapi.yaml, {route}" if route else f"contract/openapi.yaml, {section}"
    if source.startswith("memory serve, "):
        return "the route of the published daemon (npm @jeffs-brain/memory, `memory serve`)"
    if kind == "ours":
        return section or "this project's own idea"
    if kind == "mcp":
        return f"the MCP specification, {section}"
    return f"{MADE_BY[kind]}, at “{section}”"
