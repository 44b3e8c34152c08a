"""The agent frameworks that are tried, and how each is started with a gateway and a model of its own."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.peers.frameworks.shapes import MODEL, Json

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PEERS = HERE.parent
# Two of the frameworks need a newer Node than most people have.
NODE = PEERS / "node_modules" / "node" / "bin" / "node"
PROMPT = "Begin."


@dataclass(frozen=True)
class Place:
    """Where a framework finds everything: a gateway, a model, and a home of its own."""

    gateway: str
    model: str
    home: Path
    command: tuple[str, ...] = ()
    """What starts a gateway over stdio, if the framework is to start one itself. Its environment has the settings."""

    def write(self, name: str, content: Json) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # JSON is YAML too.
        path.write_text(json.dumps(content), encoding="utf-8")
        return path


@dataclass(frozen=True)
class Program:
    """A command, and what it must be told by its environment."""

    command: list[str]
    environment: dict[str, str]


@dataclass(frozen=True)
class Framework:
    """One framework. How it treats arguments is its own affair, and stands here so that a change is seen."""

    start: Callable[[Place], Program]
    # Turns of the script that it does not send on, because the arguments do not fit the schema of the tool.
    refuses: frozenset[str] = frozenset()
    # Its model must name every argument of a tool.
    requires_all: bool = False
    # An argument of its own, that it offers with every tool and sends on.
    adds: str | None = None
    # The tool that its model must call at the end, if it may not simply speak.
    ends_with: str | None = None


def _python(program: str) -> Callable[[Place], Program]:
    """A program for a virtual environment of its own: what it needs does not agree with what we need."""

    def start(place: Place) -> Program:
        python = ROOT / ".frameworks" / program / "bin" / "python"
        # -P: a program may have the name of what it imports.
        return Program([str(python), "-P", str(HERE / "programs" / f"{program}.py")], {})

    return start


def _node(program: str) -> Callable[[Place], Program]:
    return lambda place: Program([str(NODE), str(HERE / "programs" / f"{program}.mjs")], {})


def _installed(command: str) -> str:
    """Where a command is: with the peers that every change is tested with, or with the frameworks."""
    there = PEERS / "node_modules" / ".bin" / command
    return str(there if there.exists() else HERE / "node_modules" / ".bin" / command)


def _entry(place: Place, remote: Json) -> Json:
    """A server as most clients have it in their settings."""
    return {"command": place.command[0], "args": list(place.command[1:])} if place.command else remote


def _gemini(place: Place) -> Program:
    place.write(
        ".gemini/settings.json",
        {
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "privacy": {"usageStatisticsEnabled": False},
            "mcpServers": {"brains": {**_entry(place, {"url": place.gateway, "type": "http"}), "trust": True}},
        },
    )
    command = [str(NODE), _installed("gemini"), "--prompt", PROMPT, "--approval-mode", "yolo", "--model", MODEL]
    return Program(command, {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": place.model})


def _opencode(place: Place) -> Program:
    options = {"baseURL": f"{place.model}/v1", "apiKey": "none"}
    remote = {"type": "remote", "url": place.gateway}
    brains = {"type": "local", "command": list(place.command)} if place.command else remote
    place.write(
        "opencode.json",
        {
            "provider": {"stub": {"npm": "@ai-sdk/anthropic", "options": options, "models": {MODEL: {}}}},
            "model": f"stub/{MODEL}",
            "autoupdate": False,
            "share": "disabled",
            "permission": {"*": "allow"},
            "mcp": {"brains": brains},
        },
    )
    return Program([_installed("opencode"), "run", PROMPT], {})


def _goose(place: Place) -> Program:
    remote = {"type": "streamable_http", "uri": place.gateway}
    command, *arguments = place.command or [""]
    brains: Json = {"type": "stdio", "cmd": command, "args": arguments} if place.command else remote
    brains |= {"name": "brains", "description": "Memory.", "enabled": True, "timeout": 60}
    place.write(".config/goose/config.yaml", {"extensions": {"brains": brains}})
    told = {
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": MODEL,
        "GOOSE_MODE": "auto",
        "GOOSE_DISABLE_KEYRING": "1",
        "GOOSE_TELEMETRY_ENABLED": "false",
        "OPENAI_HOST": place.model,
        "OPENAI_API_KEY": "none",
    }
    return Program([_installed("goose"), "run", "--no-session", "--text", PROMPT], told)


def _continue(place: Place) -> Program:
    model = {"name": MODEL, "provider": "openai", "model": MODEL, "apiBase": f"{place.model}/v1", "apiKey": "none"}
    config = place.write(
        "config.yaml",
        {
            "name": "peer",
            "version": "1.0.0",
            "schema": "v1",
            "models": [model | {"roles": ["chat"], "capabilities": ["tool_use"]}],
            "mcpServers": [{"name": "brains", **_entry(place, {"type": "streamable-http", "url": place.gateway})}],
        },
    )
    command = [str(NODE), _installed("cn"), "--print", PROMPT, "--config", str(config), "--auto"]
    return Program(command, {"CONTINUE_TELEMETRY_ENABLED": "0"})


# In every run of `make test-peers`.
ALWAYS = {
    "openai_agents": Framework(_python("openai_agents")),
    "vercel": Framework(_node("vercel")),
}
# In `make nightly` and `make test-frameworks`: they take minutes to install.
NIGHTLY = {
    "autogen": Framework(_python("autogen")),
    "continue": Framework(_continue),
    "crewai": Framework(_python("crewai"), refuses=frozenset({"loose"})),
    "gemini_cli": Framework(_gemini, refuses=frozenset({"nulls", "loose"}), adds="wait_for_previous"),
    "goose": Framework(_goose),
    "langchain": Framework(_python("langchain")),
    "mastra": Framework(_node("mastra"), refuses=frozenset({"loose"})),
    "mcp_use": Framework(_python("mcp_use")),
    "opencode": Framework(_opencode),
    "smolagents": Framework(
        _python("smolagents"), refuses=frozenset({"nulls", "loose"}), requires_all=True, ends_with="final_answer"
    ),
}
