"""Clients as they are published, connected by `brains-gateway connect`: each says itself that it is."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.peers.quiet import LOOPBACK_ONLY
from tests.release import build
from tests.served import serving
from tests.test_installed import install_alone

NODE_MODULES = Path(__file__).parent / "node_modules"
SECONDS = 120
pytestmark = pytest.mark.timeout(4 * SECONDS)
COMMAND = str(Path(sys.executable).with_name("brains-gateway"))
TOKEN = "brt_a-token-that-nobody-may-see-0123456789"
# A client -> where its file is, what is in it already, its own command, and what that says.
CLIENTS = {
    "claude-code": (".claude.json", '{"numStartups": 3}', ["claude", "mcp", "get", "brains"], "Connected"),
    "codex": (
        ".codex/config.toml",
        '# mine\nmodel = "o" # stays\n',
        ["codex", "mcp", "get", "brains"],
        "enabled: true",
    ),
    "gemini-cli": (
        ".gemini/settings.json",
        '// mine\n{\n  "security": {"folderTrust": {"enabled": false}} // stays\n}\n',
        ["gemini", "mcp", "list"],
        "Connected",
    ),
    "opencode": (
        ".config/opencode/opencode.jsonc",
        '// mine\n{\n  "autoupdate": false, // stays\n}\n',
        ["opencode", "mcp", "list"],
        "connected",
    ),
}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """A command in an empty home, where no client reaches beyond this machine."""
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        "PATH": os.pathsep.join([str(NODE_MODULES / "node" / "bin"), str(NODE_MODULES / ".bin"), os.environ["PATH"]]),
        "HOME": str(home),
        "BRAINS_DATA_DIR": str(tmp_path / "data"),
        "BRAINS_TOKEN": TOKEN,
        **LOOPBACK_ONLY,
    }

    def run(*command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=home, timeout=SECONDS, check=False
        )

    return run


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("client", list(CLIENTS))
def test_a_client_says_itself_that_it_is_connected_and_its_file_becomes_what_it_was(
    client: str, transport: str, tmp_path: Path, run: Callable[..., "subprocess.CompletedProcess[str]"]
) -> None:
    place, content, look, word = CLIENTS[client]
    path = tmp_path / "home" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    with serving(tmp_path / "served", None, token=TOKEN) as served:
        address = ["--http", f"{served.url}/mcp"] if transport == "http" else []
        done = run(COMMAND, "connect", client, "--yes", "--json", *address)
        assert done.returncode == 0, done.stdout + done.stderr
        (told,) = json.loads(done.stdout)
        assert (told["state"], told["tools"], told["client_says"]) == ("connected", 15 if not address else 14, True)
        written = path.read_text(encoding="utf-8")
        assert TOKEN not in written
        assert ("stays" in content) <= ("stays" in written)
        # The command has asked the client already. Those that are quick are asked once more, as a person would.
        if client in ("claude-code", "codex"):
            said = run(*look)
            assert any(word in line for line in (said.stdout + said.stderr).splitlines()), said
    assert run(COMMAND, "disconnect", client, "--yes").returncode == 0
    left = path.read_text(encoding="utf-8")
    # Claude Code writes into this file whenever it is asked: then only our entry goes.
    assert left == content if client != "claude-code" else json.loads(left)["numStartups"] == 3
    assert "brains" not in left


def test_all_clients_here_say_that_what_was_installed_from_the_wheel_is_connected(
    tmp_path: Path, run: Callable[..., "subprocess.CompletedProcess[str]"]
) -> None:
    (wheel,) = (file for file in build(tmp_path / "dist") if file.suffix == ".whl")
    command = str(install_alone(wheel, tmp_path / "installed"))
    files = {client: tmp_path / "home" / place for client, (place, *_) in CLIENTS.items()}
    for client, file in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(CLIENTS[client][1], encoding="utf-8")
    done = run(command, "connect", "--all", "--yes", "--json")
    told = {one["client"]: (one["state"], one["client_says"]) for one in json.loads(done.stdout)}
    assert told == dict.fromkeys(CLIENTS, ("connected", True)), done.stderr
    assert all(command in file.read_text(encoding="utf-8") for file in files.values())
    assert run(command, "disconnect", "--all", "--yes").returncode == 0
    left = {client: file.read_text(encoding="utf-8") for client, file in files.items()}
    assert json.loads(left.pop("claude-code"))["numStartups"] == 3
    assert left == {client: CLIENTS[client][1] for client in left}
