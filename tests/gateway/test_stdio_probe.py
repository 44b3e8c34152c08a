"""A client that probes with `server/discover` over stdio, and then shakes hands the old way, is served."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.served import raw_call

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "probe", "version": "1"},
}
DISCOVER = {"jsonrpc": "2.0", "id": "probe", "method": "server/discover", "params": {"_meta": META}}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "probe", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST = {"jsonrpc": "2.0", "id": "list", "method": "tools/list"}


class Process:
    """What is written to it and read from it, a line each."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def say(self, *messages: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
        self._process.stdin.flush()

    def answers(self, count: int) -> dict[Any, Any]:
        """By the id that each is to."""
        assert self._process.stdout is not None
        read = [json.loads(self._process.stdout.readline()) for _ in range(count)]
        return {message["id"]: message for message in read}


@contextmanager
def started(directory: Path) -> Iterator[Process]:
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "BRAINS_DATA_DIR": str(directory)}
    command = [sys.executable, "-m", "gateway", "stdio"]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        yield Process(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(20) == 0


@pytest.mark.slow
def test_a_handshake_after_a_probe_is_answered(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        # Before we have answered anything, as a client does that waits no longer.
        process.say(DISCOVER, INITIALIZE)
        answers = process.answers(2)
        assert "2026-07-28" in answers["probe"]["result"]["supportedVersions"]
        assert answers["hello"]["result"]["protocolVersion"] == "2025-11-25"
        process.say(INITIALIZED, LIST, raw_call("legacy", "memory_list_brains", {})["json"])
        answers = process.answers(2)
        assert "memory_search" in {tool["name"] for tool in answers["list"]["result"]["tools"]}
        assert answers[1]["result"]["structuredContent"]["items"][0]["slug"] == "main"


@pytest.mark.slow
def test_a_client_that_goes_on_after_its_probe_is_served_as_ever(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        process.say(DISCOVER, DISCOVER | {"id": "again"})
        assert set(process.answers(2)) == {"probe", "again"}
        process.say(raw_call("modern", "memory_list_brains", {})["json"])
        assert process.answers(1)[1]["result"]["isError"] is False
        # By now it has chosen.
        process.say(INITIALIZE)
        assert process.answers(1)["hello"]["error"]["code"] == -32022
        process.say(raw_call("modern", "memory_list_brains", {})["json"])
        assert process.answers(1)[1]["result"]["isError"] is False
