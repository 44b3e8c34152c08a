"""On a system that has nothing which only Linux or only POSIX has, every command starts and serves."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

HERE = Path(__file__).parent
GATEWAY = [sys.executable, "-m", "gateway"]
SECONDS = 90
pytestmark = pytest.mark.timeout(3 * SECONDS)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    (home / ".cursor").mkdir(parents=True)
    return {
        "PATH": str(home),
        "HOME": str(home),
        # The first is found before any other of that name.
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1])]),
        "BRAINS_DATA_DIR": str(tmp_path / "data"),
    }


def run(environment: dict[str, str], *command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=environment["HOME"], timeout=SECONDS, check=False
    )


@pytest.mark.parametrize("lacking", ["import fcntl", "import uvloop", "import resource", "from os import O_NOFOLLOW"])
def test_this_system_lacks_what_others_lack(environment: dict[str, str], lacking: str) -> None:
    """Else the tests below would say nothing."""
    done = run(environment, sys.executable, "-c", lacking)
    assert (done.returncode, "ImportError" in done.stderr or "ModuleNotFoundError" in done.stderr) == (1, True)


def test_doctor_finds_all_tools(environment: dict[str, str]) -> None:
    done = run(environment, *GATEWAY, "doctor", "--json")
    assert (done.returncode, json.loads(done.stdout)["all_served"]) == (0, True), done.stderr


async def test_a_client_that_starts_it_can_remember_and_is_told_what_it_cannot_do(
    environment: dict[str, str], tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.txt").write_text("A file.", encoding="utf-8")
    told = {**environment, "BRAINS_INGEST_ROOTS": str(files)}
    transport = StdioTransport(GATEWAY[0], [*GATEWAY[1:], "stdio"], env=told, cwd=str(tmp_path), keep_alive=False)
    async with Client(transport, timeout=SECONDS, init_timeout=SECONDS) as client:
        await client.call_tool("memory_remember", {"content": "Otters hold hands."})
        found = await client.call_tool("memory_search", {"query": "otters"})
        refused = await client.call_tool("memory_ingest_file", {"path": "a.txt"}, raise_on_error=False)
    assert "hold hands" in str(found.structured_content)
    assert refused.is_error
    assert (refused.structured_content or {})["code"] == "not_implemented"
    assert "send their text" in (refused.structured_content or {})["message"]


def test_it_serves_over_http(environment: dict[str, str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [*GATEWAY, "serve", "--port", str(port)],
        env=environment,
        cwd=environment["HOME"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        ends = time.monotonic() + SECONDS
        while True:
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < ends, "it does not serve"
            try:
                assert httpx.get(f"http://127.0.0.1:{port}/livez").status_code == 200
                break
            except httpx.TransportError:
                time.sleep(0.1)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_a_client_is_connected(environment: dict[str, str]) -> None:
    done = run(environment, *GATEWAY, "connect", "cursor", "--yes", "--json")
    (told,) = json.loads(done.stdout)
    # The command that is written is started without what is lacking here, as a client would.
    assert (told["state"], told["tools"]) == ("connected", 15), done.stderr
    assert run(environment, *GATEWAY, "disconnect", "--all", "--yes").returncode == 0
