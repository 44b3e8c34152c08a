"""Clients of other makes that are given a URL and nothing else: they find the provider, log in and use a tool."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from tests.daemons.real import free_port
from tests.gateway.conftest import structured
from tests.peers.oidc.guarded import Stage, staged
from tests.peers.oidc.provider import HERE, NODE

PACKAGES = HERE.parent / "node_modules"
CLIENT_SECONDS = 60
# What the gateway tells clients to ask for at first.
LOGIN = {"brains:read", "brains:write"}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("stage")) as it:
        yield it


@dataclass(frozen=True)
class Desk:
    """A home of their own for a client and for the browser it opens."""

    home: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "BROWSER": str(HERE / "browser.mjs"),
            # The Inspector opens a browser only for somebody at a terminal, or if told so.
            "MCP_AUTO_OPEN_ENABLED": "true",
        }

    def run(self, *command: str) -> dict[str, Any]:
        """The JSON that a client prints."""
        done = subprocess.run(
            command,
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CLIENT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return dict(json.loads(done.stdout))

    def asked_for(self, stage: Stage) -> list[set[str]]:
        """The scopes that the client sent somebody to the provider for, one set for each login."""
        lines = (self.home / "browser.log").read_text(encoding="utf-8").splitlines()
        pages = [urlsplit(line.partition(" ")[2]) for line in lines]
        queries = [parse_qs(page.query) for page in pages if page.path == "/auth"]
        assert all(query["resource"] == [stage.gateway.audience] for query in queries)
        assert all(query["code_challenge_method"] == ["S256"] for query in queries)
        return [set(query["scope"][0].split()) - {"offline_access"} for query in queries]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def titles(found: dict[str, Any]) -> list[str]:
    return [hit["title"] for hit in found["hits"]]


async def test_mcp_remote_logs_in_and_steps_up_when_it_needs_to(stage: Stage, desk: Desk) -> None:
    program = [str(PACKAGES / "mcp-remote" / "dist" / "proxy.js"), stage.gateway.audience, "--host", "127.0.0.1"]
    log = desk.home / "mcp-remote.log"
    transport = StdioTransport("node", program, env=desk.environment, keep_alive=False, log_file=log)
    async with Client(transport, timeout=CLIENT_SECONDS, init_timeout=CLIENT_SECONDS) as client:
        search = {"brain": stage.brain, "query": "otters"}
        assert titles(structured(await client.call_tool("memory_search", search))) == ["Otters"]
        note = {"brain": stage.brain, "content": "# Herons\n\nHerons stand on one leg."}
        assert structured(await client.call_tool("memory_remember", note))["outcome"] == "stored"
        search = {"brain": stage.brain, "query": "herons"}
        assert titles(structured(await client.call_tool("memory_search", search))) == ["Herons"]
        assert desk.asked_for(stage) == [LOGIN]
        assert structured(await client.call_tool("memory_consolidate", {"brain": stage.brain}))["outcome"] == "stored"
        assert desk.asked_for(stage) == [LOGIN, {*LOGIN, "brains:admin"}]


def inspected(stage: Stage, desk: Desk, tool: str, arguments: dict[str, str], *flags: str) -> dict[str, Any]:
    command: Sequence[str] = [str(NODE), str(PACKAGES / ".bin" / "mcp-inspector"), "--cli", stage.gateway.audience]
    callback = f"http://127.0.0.1:{free_port()}/oauth/callback"
    asked = ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments)]
    return desk.run(*command, "--callback-url", callback, *flags, *asked, "--format", "json")


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_logs_in_remembers_and_finds(stage: Stage, desk: Desk, era: str) -> None:
    note = {"brain": stage.brain, "content": f"# Newts\n\nNewts of the {era} era live in ponds."}
    written = inspected(stage, desk, "memory_remember", note, "--protocol-era", era)
    assert payload(written)["outcome"] == "stored"
    search = {"brain": stage.brain, "query": f"newts {era}"}
    found = inspected(stage, desk, "memory_search", search, "--protocol-era", era)
    assert note["content"] in [hit["content"] for hit in payload(found)["hits"]]
    assert desk.asked_for(stage)[0] >= LOGIN


def payload(printed: dict[str, Any]) -> dict[str, Any]:
    return dict(printed.get("result", printed)["structuredContent"])


def test_the_fastmcp_command_line_logs_in_and_finds(stage: Stage, desk: Desk) -> None:
    program = str(Path(sys.executable).with_name("fastmcp"))
    arguments = json.dumps({"brain": stage.brain, "query": "otters"})
    command = [program, "call", stage.gateway.audience, "memory_search", "--input-json", arguments]
    found = desk.run(*command, "--auth", "oauth", "--json")
    assert titles(found["structured_content"]) == ["Otters"]
    assert desk.asked_for(stage) == [LOGIN]
