"""`brains-gateway connect` and `disconnect`: all clients in an empty home, and what each is told."""

import json
import stat
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.app.connecting.clients import CLIENTS, Client, System, file_of, is_installed
from gateway.cli.connecting.config_file import ConfigFile
from gateway.cli.connecting.entry import Refused, entry_of, server_of
from gateway.cli.connecting.server import Server
from tests.commands import run_here
from tests.gateway.cli.connecting.programs import program
from tests.served import serving

TOKEN = "brt_a-token-that-nobody-may-see-0123456789"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where nothing is installed and nothing is set."""
    made = tmp_path / "home"
    made.mkdir()
    for name in ("XDG_CONFIG_HOME", "APPDATA", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(made))
    monkeypatch.setenv("USERPROFILE", str(made))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("BRAINS_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(made)
    return made


def install(client: Client) -> Path:
    """What shows that a client is there: the folder of its file."""
    path = file_of(client, None)
    assert path is not None
    (path.parent if path.parent != Path.home() else Path.home() / ".claude").mkdir(parents=True, exist_ok=True)
    return path


def read(client: Client, path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    readers: dict[str, Callable[[str], Any]] = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
    return readers[client.syntax](text)


def outcomes(*arguments: str, **settings: str) -> dict[str, Any]:
    done = run_here(*arguments, "--json", **settings)
    assert done.returncode in (0, 1), done.stderr
    return {one["client"]: one for one in json.loads(done.stdout)}


def test_without_clients_nothing_is_written_and_that_is_said(home: Path) -> None:
    done = run_here("connect", "--all", "--yes")
    assert (done.returncode, done.stdout) == (0, "")
    assert "No client was found" in done.stderr
    assert list(home.iterdir()) == []


def test_every_client_is_connected_and_becomes_what_it_was(home: Path) -> None:
    paths = {key: install(client) for key, client in CLIENTS.items()}
    before = {key: b"" for key in CLIENTS if key in ("zed", "vscode")}
    for key, content in before.items():
        paths[key].write_bytes(content)
    told = outcomes("connect", "--all", "--yes")
    assert {key: (one["state"], one["tools"]) for key, one in told.items()} == dict.fromkeys(CLIENTS, ("connected", 15))
    for key, client in CLIENTS.items():
        assert list(read(client, paths[key])[client.section]) == ["brains"]
        assert stat.S_IMODE(paths[key].stat().st_mode) == (0o644 if key in before else 0o600)
    told = outcomes("disconnect", "--all", "--yes")
    assert {one["state"] for one in told.values()} == {"disconnected"}
    assert {key for key in CLIENTS if paths[key].exists()} == set(before)
    assert {key: paths[key].read_bytes() for key in before} == before


def test_a_client_is_told_the_whole_path_the_data_and_where_files_are(home: Path, tmp_path: Path) -> None:
    install(CLIENTS["cursor"])
    (tmp_path / "files").mkdir()
    roots = str(tmp_path / "files")
    told = outcomes("connect", "cursor", "--yes", BRAINS_INGEST_ROOTS=roots, BRAINS_DEFAULT_BRAIN="main")
    assert (told["cursor"]["state"], told["cursor"]["backup"]) == ("connected", None)
    assert read(CLIENTS["cursor"], home / ".cursor" / "mcp.json") == {
        "mcpServers": {
            "brains": {
                "command": str(Path(sys.executable).with_name("brains-gateway")),
                "args": ["stdio"],
                "env": {
                    "BRAINS_DATA_DIR": str(tmp_path / "data"),
                    "BRAINS_DEFAULT_BRAIN": "main",
                    "BRAINS_INGEST_ROOTS": roots,
                },
            }
        }
    }


def test_what_is_the_same_is_not_written_again(home: Path) -> None:
    path = install(CLIENTS["cursor"])
    outcomes("connect", "cursor", "--yes")
    written = path.stat().st_mtime_ns
    assert outcomes("connect", "cursor", "--yes")["cursor"]["state"] == "unchanged"
    assert path.stat().st_mtime_ns == written
    assert outcomes("disconnect", "cursor", "--yes")["cursor"]["state"] == "disconnected"
    assert not path.exists()
    assert outcomes("disconnect", "cursor", "--yes")["cursor"]["state"] == "absent"


def test_another_surface_is_an_entry_of_its_own_and_disconnect_takes_out_all(home: Path) -> None:
    path = install(CLIENTS["gemini-cli"])
    path.write_text("{}", encoding="utf-8")
    outcomes("connect", "gemini-cli", "--yes")
    told = outcomes("connect", "gemini-cli", "--yes", "--surface", "kv")
    assert told["gemini-cli"]["tools"] == 5
    assert list(read(CLIENTS["gemini-cli"], path)["mcpServers"]) == ["brains", "brains-kv"]
    outcomes("disconnect", "gemini-cli", "--yes")
    assert path.read_text(encoding="utf-8") == "{}"


def test_a_project_has_a_file_of_its_own_and_clients_without_one_say_so(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    told = outcomes("connect", "claude-code", "goose", "--scope", "project", "--yes")
    assert told["claude-code"]["file"] == str(project.resolve() / ".mcp.json")
    made = read(CLIENTS["claude-code"], project / ".mcp.json")["mcpServers"]["brains"]
    assert made["env"]["BRAINS_INGEST_ROOTS"] == str(project)
    assert (told["goose"]["state"], "no file for one project" in told["goose"]["message"]) == ("left alone", True)


def test_where_nobody_can_be_asked_nothing_is_written(home: Path) -> None:
    path = install(CLIENTS["codex"])
    done = run_here("connect", "codex")
    assert done.returncode == 1
    assert "+[mcp_servers.brains]" in done.stdout
    assert "add --yes" in done.stderr
    assert not path.exists()
    assert run_here("connect", "--yes").returncode == 2


def test_a_malformed_file_is_left_alone_and_the_others_are_connected(home: Path) -> None:
    broken, good = install(CLIENTS["windsurf"]), install(CLIENTS["cursor"])
    broken.write_text('{"mcpServers": {', encoding="utf-8")
    told = outcomes("connect", "windsurf", "cursor", "--yes")
    assert told["windsurf"]["state"] == "left alone"
    assert "is not JSON as it should be" in told["windsurf"]["message"]
    assert broken.read_text(encoding="utf-8") == '{"mcpServers": {'
    assert (told["cursor"]["state"], good.exists()) == ("connected", True)


def test_printing_writes_nothing(home: Path) -> None:
    done = run_here("connect", "--print")
    assert done.returncode == 0
    assert [client.name for client in CLIENTS.values() if f"{client.name}, in " not in done.stdout] == []
    assert list(home.iterdir()) == []
    shown = json.loads(run_here("connect", "--print", "--json", "codex", "--http", "http://127.0.0.1:1/mcp").stdout)
    assert shown["codex"]["entry"] == {"url": "http://127.0.0.1:1/mcp"}


def test_a_token_is_only_named_and_the_tools_are_listed_with_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = ["claude-code", "codex", "vscode", "goose", "opencode", "zed"]
    paths = {key: install(CLIENTS[key]) for key in clients}
    with serving(tmp_path / "served", None, token=TOKEN) as served:
        arguments = ["--http", f"{served.url}/mcp", "--yes", "--token-variable", "MY_TOKEN"]
        told = outcomes("connect", *clients, *arguments, MY_TOKEN=TOKEN)
        assert {key: told[key]["state"] for key in clients} == {
            **dict.fromkeys(clients, "connected"),
            "zed": "left alone",
        }
        assert "cannot read a token from a variable" in told["zed"]["message"]
        refused = outcomes("connect", "cursor", "--http", f"{served.url}/mcp", "--yes")["cursor"]
        assert (refused["state"], "--token-variable" in refused["message"]) == ("doubtful", True)
    for key in clients[:-1]:
        said = paths[key].read_text(encoding="utf-8")
        assert TOKEN not in said
        assert "MY_TOKEN" in said


def test_an_address_where_nothing_answers_is_written_and_said(home: Path) -> None:
    told = outcomes("connect", "cursor", "--yes", "--http", "http://127.0.0.1:9/mcp", "--surface", "team")
    assert (told["cursor"]["state"], "nothing answers" in told["cursor"]["message"]) == ("doubtful", True)
    made = read(CLIENTS["cursor"], home / ".cursor" / "mcp.json")
    assert made["mcpServers"]["brains-team"] == {"url": "http://127.0.0.1:9/team/mcp"}


@pytest.mark.parametrize(
    ("url", "word"),
    [("127.0.0.1:8787", "as in http"), ("http://me:secret@h/mcp", "without a password"), ("ftp://h/", "as in http")],
)
def test_an_address_that_is_none_is_said(home: Path, url: str, word: str) -> None:
    done = run_here("connect", "cursor", "--yes", "--http", url)
    assert (done.returncode, word in done.stderr) == (2, True)
    assert "secret" not in done.stderr


@pytest.mark.parametrize("says", [True, False])
def test_the_client_is_asked_itself(home: Path, tmp_path: Path, says: bool) -> None:
    program(tmp_path / "bin" / "claude", "Status: Connected" if says else "Status: Failed to connect")
    told = outcomes("connect", "claude-code", "--yes")
    assert (told["claude-code"]["state"], told["claude-code"]["client_says"]) == (
        ("connected", True) if says else ("doubtful", False)
    )


def test_every_shape_is_read_back_as_it_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAINS_UPSTREAM_TOKEN", TOKEN)
    plain = {"BRAINS_DATA_DIR": "/data"}
    for client in CLIENTS.values():
        stdio = Server(("/bin/brains-gateway", "stdio"), plain)
        assert server_of(client, entry_of(client, stdio, "brains")) == stdio
        assert server_of(client, entry_of(client, Server(url="http://h/mcp"), "brains")).url == "http://h/mcp"
        secret = Server(("/bin/brains-gateway", "stdio"), plain, ("BRAINS_UPSTREAM_TOKEN",))
        if client.name in ("Claude Desktop", "Zed", "Cline"):
            with pytest.raises(Refused, match="BRAINS_UPSTREAM_TOKEN_FILE"):
                entry_of(client, secret, "brains")
            continue
        entry = entry_of(client, secret, "brains")
        assert TOKEN not in json.dumps(entry)
        assert server_of(client, entry).environment == {**plain, "BRAINS_UPSTREAM_TOKEN": TOKEN}


def test_secrets_of_the_gateway_are_named_or_read_from_their_file(home: Path, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text(TOKEN, encoding="utf-8")
    secret.chmod(0o600)
    shown = run_here(
        "connect", "--print", "--json", "zed", BRAINS_UPSTREAM_URL="https://h", BRAINS_UPSTREAM_TOKEN_FILE=str(secret)
    )
    assert json.loads(shown.stdout)["zed"]["entry"]["env"] == {
        "BRAINS_UPSTREAM_URL": "https://h",
        "BRAINS_UPSTREAM_TOKEN_FILE": str(secret),
    }
    shown = run_here(
        "connect", "--print", "--json", "zed", "cursor", BRAINS_UPSTREAM_URL="https://h", BRAINS_UPSTREAM_TOKEN=TOKEN
    )
    assert TOKEN not in shown.stdout + shown.stderr
    assert list(json.loads(shown.stdout)) == ["cursor"]
    assert json.loads(shown.stdout)["cursor"]["entry"]["env"]["BRAINS_UPSTREAM_TOKEN"] == "${env:BRAINS_UPSTREAM_TOKEN}"


@pytest.mark.parametrize(
    ("on", "places"),
    [
        (
            "linux",
            [".config/Claude/claude_desktop_config.json", ".config/Code/User/mcp.json", ".config/zed/settings.json"],
        ),
        (
            "macos",
            [
                "Library/Application Support/Claude/claude_desktop_config.json",
                "Library/Application Support/Code/User/mcp.json",
                ".config/zed/settings.json",
            ],
        ),
        (
            "windows",
            [
                "AppData/Roaming/Claude/claude_desktop_config.json",
                "AppData/Roaming/Code/User/mcp.json",
                "AppData/Roaming/Zed/settings.json",
            ],
        ),
    ],
)
def test_each_system_has_its_places(home: Path, on: System, places: list[str]) -> None:
    found = [file_of(CLIENTS[key], None, on) for key in ("claude-desktop", "vscode", "zed")]
    assert found == [home / place for place in places]


def test_homes_that_clients_are_told_of_are_theirs(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert file_of(CLIENTS["codex"], None) == tmp_path / "codex" / "config.toml"
    assert file_of(CLIENTS["claude-code"], None) == tmp_path / "claude" / ".claude.json"
    assert not is_installed(CLIENTS["opencode"])
    jsonc = tmp_path / "xdg" / "opencode" / "opencode.jsonc"
    jsonc.parent.mkdir(parents=True)
    jsonc.write_text("// mine\n{}", encoding="utf-8")
    assert is_installed(CLIENTS["opencode"])
    assert file_of(CLIENTS["opencode"], None) == jsonc


def test_an_entry_of_before_comes_back(home: Path) -> None:
    """Somebody wrote it by hand, and then let it be done."""
    path = install(CLIENTS["cursor"])
    by_hand = '{"mcpServers": {"brains": {"url": "http://127.0.0.1:8787/mcp"}}}'
    path.write_text(by_hand, encoding="utf-8")
    told = outcomes("connect", "cursor", "--yes")
    assert Path(told["cursor"]["backup"]).read_text(encoding="utf-8") == by_hand
    assert ConfigFile.look(CLIENTS["cursor"], path).entries()["brains"]["args"] == ["stdio"]
    outcomes("disconnect", "cursor", "--yes")
    assert path.read_text(encoding="utf-8") == by_hand
