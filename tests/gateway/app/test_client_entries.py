"""The entries that people paste into clients: one for each client that `connect` knows, and read back as meant."""

import json
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from gateway.app.connecting.clients import CLIENTS, Client
from gateway.app.connecting.entries import client_entries
from gateway.cli.connecting.entry import server_of
from gateway.config.settings import load

READ: dict[str, Callable[[str], Any]] = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}


def pasted(client: Client, **settings: Any) -> dict[str, Any]:
    """The entries of a client, over HTTP and over stdio."""
    entries = [entry for entry in client_entries(load(**settings)) if entry.client == client.name]
    return {
        entry.how.rpartition(" ")[2]: READ[client.syntax](entry.text)[client.section]["brains"] for entry in entries
    }


def test_there_are_entries_for_every_client_that_can_be_connected() -> None:
    told = [(entry.client, entry.how.rpartition(" ")[2]) for entry in client_entries(load())]
    assert told == [(client.name, transport) for client in CLIENTS.values() for transport in ("HTTP", "stdio")]


# Claude Code has commands instead of entries in a file.
@pytest.mark.parametrize("key", [key for key in CLIENTS if key != "claude-code"])
def test_an_entry_is_read_as_it_is_meant(key: str) -> None:
    client = CLIENTS[key]
    entries = pasted(client, default_brain="otters")
    assert server_of(client, entries["HTTP"]).url == "http://127.0.0.1:8787/mcp"
    server = server_of(client, entries["stdio"])
    assert (server.command[1:], dict(server.environment)) == (("stdio",), {"BRAINS_DEFAULT_BRAIN": "otters"})


def test_clients_that_cannot_be_told_a_token_are_not_sent_where_one_is_needed() -> None:
    over_http = {entry.client: entry.text for entry in client_entries(load(token="t" * 20)) if "HTTP" in entry.how}
    assert {client.name for client in CLIENTS.values()} - set(over_http) == {"Claude Desktop", "Zed", "Cline"}
    assert [name for name, text in over_http.items() if "BRAINS_TOKEN" not in text or "t" * 20 in text] == []
