"""Lists which clients of others are tried, over which transports, and by which tests: a table of docs/connecting.md."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.peers.frameworks.catalog import ALWAYS, HERE, NIGHTLY, PEERS, ROOT

LISTS_AND_CALLS: Final = "lists and calls"
PEERS_TIER, NIGHTLY_TIER = "`make test-peers`", "`make nightly`"
_FRAMEWORKS: Final = "frameworks/test_frameworks.py"
_OVER_STDIO: Final = f"{_FRAMEWORKS}::test_a_gateway_that_the_framework_starts_itself_serves_its_model_as_well"
_READS: Final = f"{_FRAMEWORKS}::test_the_model_reads_the_whole_of_ten_memories"


@dataclass(frozen=True)
class Tried:
    """A client, and what the tests show that it can do."""

    name: str
    package: str
    over_http: str
    over_stdio: str
    tier: str
    tests: tuple[str, ...]
    """The tests that show this."""

    @property
    def calls_over_both(self) -> bool:
        return self.over_http.startswith(LISTS_AND_CALLS) and self.over_stdio.startswith(LISTS_AND_CALLS)


def _sdk(name: str, package: str) -> Tried:
    test = "test_typescript_clients.py::test_a_client_of_another_make_uses_every_tool"
    login = "test_login.py::test_the_typescript_sdk_logs_in_and_refreshes"
    return Tried(name, package, f"{LISTS_AND_CALLS}, logs in", LISTS_AND_CALLS, PEERS_TIER, (test, login))


def _connected(name: str, package: str, said: str, more: str = "", *tests: str) -> Tried:
    test = "test_connect.py::test_a_client_says_itself_that_it_is_connected_and_its_file_becomes_what_it_was"
    return Tried(name, package, f"{said}{more}", said, PEERS_TIER, (test, *tests))


def _framework(name: str, package: str) -> Tried:
    tier = PEERS_TIER if name in ALWAYS else NIGHTLY_TIER
    return Tried(name, package, LISTS_AND_CALLS, LISTS_AND_CALLS, tier, (_READS, _OVER_STDIO))


# The keys are the names in the catalogue of frameworks.
_PACKAGES: Final = {
    "openai_agents": "openai-agents",
    "vercel": "@ai-sdk/mcp",
    "autogen": "autogen-ext",
    "continue": "@continuedev/cli",
    "crewai": "crewai-tools",
    "gemini_cli": "@google/gemini-cli",
    "goose": "@aaif/goose",
    "langchain": "langchain-mcp-adapters",
    "mastra": "@mastra/mcp",
    "mcp_use": "mcp-use",
    "opencode": "opencode-ai",
    "smolagents": "smolagents",
}
TRIED: Final = (
    _sdk("TypeScript SDK, version 1", "@modelcontextprotocol/sdk"),
    _sdk("TypeScript SDK, version 2", "@modelcontextprotocol/client"),
    Tried(
        "MCP Inspector",
        "@modelcontextprotocol/inspector",
        f"{LISTS_AND_CALLS}, logs in",
        LISTS_AND_CALLS,
        PEERS_TIER,
        (
            "test_inspector.py::test_the_inspector_lists_and_calls_over_either_transport",
            "test_login.py::test_the_inspector_logs_in_by_itself_once",
        ),
    ),
    _connected(
        "Claude Code",
        "@anthropic-ai/claude-code",
        "says that it is connected",
        ", logs in",
        "test_login.py::test_claude_code_logs_in_by_its_document",
    ),
    _connected("Codex", "@openai/codex", "says that it is enabled"),
    Tried(
        "mcp-remote",
        "mcp-remote",
        "logs in, lists",
        "–",
        PEERS_TIER,
        ("test_login.py::test_mcp_remote_logs_in_by_itself",),
    ),
    *(_framework(name, _PACKAGES[name]) for name in ALWAYS | NIGHTLY),
)


def pinned() -> dict[str, str]:
    """Every package that is installed to test with, and its version."""
    found: dict[str, str] = {}
    for folder in (PEERS, HERE):
        found |= json.loads((folder / "package.json").read_text(encoding="utf-8"))["dependencies"]
    for file in (HERE / "requirements").iterdir():
        found |= dict(re.findall(r"^([\w.-]+)==(\S+)$", file.read_text(encoding="utf-8"), re.MULTILINE))
    return found


def clients_table() -> str:
    versions = pinned()
    rows = ["| Client | Package | Over HTTP | Over stdio | In |", "|---|---|---|---|---|"]
    for one in TRIED:
        package = f"`{one.package}` {versions[one.package]}"
        rows.append(f"| {one.name} | {package} | {one.over_http} | {one.over_stdio} | {one.tier} |")
    return "\n".join(rows)


def file_of(test: str) -> Path:
    return ROOT / "tests" / "peers" / test.partition("::")[0]
