"""What is said at start: entries that work when they are pasted as they are."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import welcome
from gateway.config.settings import load
from gateway.operations.names import brain_uuid


def entries(**settings: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """The JSON entries, and the commands for Claude Code."""
    lines = [line.strip() for line in welcome.serving(load(**settings))]
    servers = [json.loads(line) for line in lines if line.startswith("{")]
    return servers, [line for line in lines if line.startswith("claude ")]


def stdio_environments(servers: list[dict[str, Any]]) -> list[Any]:
    inner = [next(iter(entry.values()))["brains"] for entry in servers]
    return [server.get("env") for server in inner if "command" in server]


def test_entries_of_a_plain_start_need_no_environment() -> None:
    servers, commands = entries()
    assert stdio_environments(servers) == [None, None]
    assert commands[0] == "claude mcp add --transport http brains http://127.0.0.1:8787/mcp"
    assert commands[1].startswith("claude mcp add brains -- /")


def test_a_process_started_by_a_client_is_told_where_the_data_is(tmp_path: Path) -> None:
    servers, commands = entries(data_dir=tmp_path / "my data")
    told = {"BRAINS_DATA_DIR": str(tmp_path / "my data")}
    assert stdio_environments(servers) == [told, told]
    assert f"-e BRAINS_DATA_DIR='{tmp_path}/my data' -- " in commands[1]


def test_a_process_started_by_a_client_is_told_the_platform_but_not_the_token() -> None:
    servers, commands = entries(upstream_url="https://platform.example", upstream_token="hunter2", default_brain="b")
    told = {
        "BRAINS_UPSTREAM_URL": "https://platform.example",
        "BRAINS_UPSTREAM_TOKEN": "<BRAINS_UPSTREAM_TOKEN>",
        "BRAINS_DEFAULT_BRAIN": "b",
    }
    assert stdio_environments(servers) == [told, told]
    assert "hunter2" not in json.dumps([servers, commands])


def test_clients_are_not_sent_to_an_address_that_is_none() -> None:
    _, commands = entries(host="0.0.0.0", token="t")
    assert "http://<this-host>:8787/mcp" in commands[0]
    _, commands = entries(host="0.0.0.0", token="t", allowed_hosts=("*.example", "brains.example"))
    assert "http://brains.example:8787/mcp" in commands[0]
    assert '--header "Authorization: Bearer <BRAINS_TOKEN>"' in commands[0]


def test_a_relative_data_directory_is_said_in_full() -> None:
    assert load(data_dir="somewhere").data_dir == Path.cwd() / "somewhere"


def test_the_other_vocabularies_are_told_of() -> None:
    told = "\n".join(welcome.serving(load(surfaces="memory,kv")))
    assert "other vocabularies          /kv/mcp\n" in told
    assert "over stdio: brains-gateway stdio --surface NAME\n" in told
    told = "\n".join(welcome.serving(load(surfaces="memory,kv", surface="kv")))
    assert "other vocabularies          /memory/mcp\n" in told
    told = "\n".join(welcome.serving(load(surfaces="kv")))
    assert "other vocabularies" not in told
    assert "--surface" not in told


@pytest.mark.parametrize(
    ("settings", "brains", "told"),
    [
        ({"default_brain": "main"}, [("main", "brn_1")], False),
        ({"default_brain": "brn_1"}, [("main", "brn_1")], False),
        ({"default_brain": brain_uuid("brn_1")}, [("main", "brn_1")], False),
        ({"default_brain": "other"}, [("main", "brn_1")], True),
        ({"default_brain": brain_uuid("brn_1")}, [(brain_uuid("brn_1"), "brn_2")], True),
        ({}, [("main", "brn_1")], False),
        # Nobody has asked the platform yet, and with many tenants there is no default.
        ({"default_brain": "other", "upstream_url": "http://127.0.0.1:9"}, None, False),
        ({"default_brain": "other", "auth": "tokens"}, [("main", "brn_1")], False),
    ],
)
def test_the_default_brain_is_known_by_each_of_its_names(
    settings: dict[str, Any], brains: list[tuple[str, str]] | None, told: bool
) -> None:
    assert bool(welcome.no_default(load(**settings), brains)) is told
