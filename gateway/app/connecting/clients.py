"""The clients that can be connected: where each keeps its servers, in which shape, and its command that lists them."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from shutil import which
from typing import Any, Final, Literal

Shape = Mapping[str, Any]
System = Literal["linux", "macos", "windows"]


class Slot(Enum):
    """A place in the shape of an entry, to be filled."""

    PROGRAM = "the path of the command"
    ARGUMENTS = "what comes after it"
    COMMAND = "both in one list"
    ENVIRONMENT = "variables and their values"
    SECRETS = "names of variables that the client is to pass on"
    URL = "the address"
    HEADERS = "headers, with the token as a reference"
    TOKEN_VARIABLE = "the name of the variable that holds the token"
    NAME = "what the entry is called"


@dataclass(frozen=True)
class Client:
    """One client. Paths begin with one of the words of `_places`; where several are given, the first that is there."""

    name: str
    files: Mapping[System, tuple[str, ...]]
    section: str
    stdio: Shape
    http: Shape
    syntax: Literal["json", "toml", "yaml"] = "json"
    project: tuple[str, ...] = ()
    """The file in a project, if it has one."""
    reference: str = ""
    """How a value names a variable, if it can."""
    program: str = ""
    signs: tuple[str, ...] = ()
    """Paths that show that it is installed, besides the folder of its file."""
    check: tuple[str, ...] = ()
    """Its own command to look at a server; `{name}` is the name of the entry."""
    healthy: tuple[str, ...] = ()
    """What that command prints on one line for a server that works."""
    cannot_tell: str = ""
    """A word that it prints if it has not tried to connect."""


def _everywhere(*paths: str) -> Mapping[System, tuple[str, ...]]:
    return {"linux": paths, "macos": paths, "windows": paths}


_COMMAND: Final = {"command": Slot.PROGRAM, "args": Slot.ARGUMENTS, "env": Slot.ENVIRONMENT}
_CODE: Final = "Code/User/mcp.json"

CLIENTS: Final[Mapping[str, Client]] = {
    "claude-code": Client(
        "Claude Code",
        _everywhere("$CLAUDE/.claude.json"),
        section="mcpServers",
        stdio={"type": "stdio", **_COMMAND},
        http={"type": "http", "url": Slot.URL, "headers": Slot.HEADERS},
        project=(".mcp.json",),
        reference="${%s}",
        program="claude",
        signs=("$HOME/.claude",),
        check=("mcp", "get", "{name}"),
        healthy=("Status:", "Connected"),
    ),
    "claude-desktop": Client(
        "Claude Desktop",
        {
            "linux": ("$CONFIG/Claude/claude_desktop_config.json",),
            "macos": ("$SUPPORT/Claude/claude_desktop_config.json",),
            "windows": ("$APPDATA/Claude/claude_desktop_config.json",),
        },
        section="mcpServers",
        stdio=_COMMAND,
        # It only starts commands, and takes no address.
        http={"command": "npx", "args": ["-y", "mcp-remote", Slot.URL]},
    ),
    "cursor": Client(
        "Cursor",
        _everywhere("$HOME/.cursor/mcp.json"),
        section="mcpServers",
        stdio=_COMMAND,
        http={"url": Slot.URL, "headers": Slot.HEADERS},
        project=(".cursor/mcp.json",),
        reference="${env:%s}",
        program="cursor",
    ),
    "vscode": Client(
        "VS Code",
        {"linux": (f"$CONFIG/{_CODE}",), "macos": (f"$SUPPORT/{_CODE}",), "windows": (f"$APPDATA/{_CODE}",)},
        section="servers",
        stdio={"type": "stdio", **_COMMAND},
        http={"type": "http", "url": Slot.URL, "headers": Slot.HEADERS},
        project=(".vscode/mcp.json",),
        reference="${env:%s}",
        program="code",
    ),
    "windsurf": Client(
        "Windsurf",
        _everywhere("$HOME/.codeium/windsurf/mcp_config.json"),
        section="mcpServers",
        stdio=_COMMAND,
        http={"serverUrl": Slot.URL, "headers": Slot.HEADERS},
        reference="${env:%s}",
        program="windsurf",
    ),
    "zed": Client(
        "Zed",
        {
            "linux": ("$CONFIG/zed/settings.json",),
            "macos": ("$HOME/.config/zed/settings.json",),
            "windows": ("$APPDATA/Zed/settings.json",),
        },
        section="context_servers",
        # Older versions need this field, which says that the server is not from an extension.
        stdio={"source": "custom", "enabled": True, **_COMMAND},
        http={"source": "custom", "enabled": True, "url": Slot.URL},
        project=(".zed/settings.json",),
        program="zed",
    ),
    "codex": Client(
        "Codex",
        _everywhere("$CODEX/config.toml"),
        section="mcp_servers",
        stdio={**_COMMAND, "env_vars": Slot.SECRETS},
        http={"url": Slot.URL, "bearer_token_env_var": Slot.TOKEN_VARIABLE},
        syntax="toml",
        project=(".codex/config.toml",),
        program="codex",
        # This command does not connect to the server, but it reads the entry.
        check=("mcp", "get", "{name}"),
        healthy=("enabled: true",),
    ),
    "gemini-cli": Client(
        "Gemini CLI",
        _everywhere("$HOME/.gemini/settings.json"),
        section="mcpServers",
        stdio=_COMMAND,
        http={"type": "http", "url": Slot.URL, "headers": Slot.HEADERS},
        project=(".gemini/settings.json",),
        reference="${%s}",
        program="gemini",
        check=("mcp", "list"),
        healthy=("{name}:", "Connected"),
        cannot_tell="untrusted",
    ),
    "opencode": Client(
        "opencode",
        _everywhere("$CONFIG/opencode/opencode.jsonc", "$CONFIG/opencode/opencode.json"),
        section="mcp",
        stdio={"type": "local", "command": Slot.COMMAND, "environment": Slot.ENVIRONMENT, "enabled": True},
        http={"type": "remote", "url": Slot.URL, "headers": Slot.HEADERS, "enabled": True},
        project=("opencode.jsonc", "opencode.json"),
        reference="{env:%s}",
        program="opencode",
        check=("mcp", "list"),
        healthy=("{name}", "connected"),
    ),
    "goose": Client(
        "Goose",
        {
            "linux": ("$CONFIG/goose/config.yaml",),
            "macos": ("$HOME/.config/goose/config.yaml",),
            "windows": ("$APPDATA/Block/goose/config/config.yaml",),
        },
        section="extensions",
        stdio={
            "enabled": True,
            "type": "stdio",
            "name": Slot.NAME,
            "description": "A memory that agents share",
            "cmd": Slot.PROGRAM,
            "args": Slot.ARGUMENTS,
            "envs": Slot.ENVIRONMENT,
            "env_keys": Slot.SECRETS,
            "timeout": 300,
        },
        http={
            "enabled": True,
            "type": "streamable_http",
            "name": Slot.NAME,
            "description": "A memory that agents share",
            "uri": Slot.URL,
            "headers": Slot.HEADERS,
            "env_keys": Slot.SECRETS,
            "timeout": 300,
        },
        syntax="yaml",
        reference="${%s}",
        program="goose",
    ),
    "cline": Client(
        "Cline",
        _everywhere("$HOME/.cline/data/settings/cline_mcp_settings.json"),
        section="mcpServers",
        stdio=_COMMAND,
        http={"type": "streamableHttp", "url": Slot.URL},
        program="cline",
        signs=("$HOME/.cline",),
    ),
}


def fill(shape: Shape, values: Mapping[Slot, Any]) -> dict[str, Any]:
    """The entry of that shape. What is empty need not be said."""
    made = {key: _filled(value, values) for key, value in shape.items()}
    return {key: value for key, value in made.items() if value not in ("", [], {})}


def _filled(value: Any, values: Mapping[Slot, Any]) -> Any:
    if isinstance(value, Slot):
        return values[value]
    return [_filled(one, values) for one in value] if isinstance(value, list) else value


def system() -> System:
    return "windows" if sys.platform == "win32" else "macos" if sys.platform == "darwin" else "linux"


def file_of(client: Client, project: Path | None, on: System | None = None) -> Path | None:
    """Where it keeps its servers, for this user or for a project; None where it has no file for that."""
    if project is not None:
        return _first([project / name for name in client.project])
    return _first([_expand(path) for path in client.files[on or system()]])


def is_installed(client: Client) -> bool:
    file = file_of(client, None)
    own = Path.home()
    signs = [_expand(path) for path in client.signs]
    if file is not None:
        # If the file is in the home directory itself, only the file shows that the client is installed, not the folder.
        signs.append(file if file.parent == own else file.parent)
    return bool(client.program and which(client.program)) or any(sign.exists() for sign in signs)


def _first(paths: list[Path]) -> Path | None:
    """The first that exists, or else the last, which is the best one to create."""
    return next((path for path in paths if path.exists()), paths[-1] if paths else None)


def _expand(path: str) -> Path:
    place, _, rest = path.partition("/")
    return _places()[place] / rest


def _places() -> Mapping[str, Path]:
    home, given = Path.home(), os.environ
    return {
        "$HOME": home,
        "$CONFIG": Path(given.get("XDG_CONFIG_HOME") or home / ".config"),
        "$SUPPORT": home / "Library" / "Application Support",
        "$APPDATA": Path(given.get("APPDATA") or home / "AppData" / "Roaming"),
        "$CLAUDE": Path(given.get("CLAUDE_CONFIG_DIR") or home),
        "$CODEX": Path(given.get("CODEX_HOME") or home / ".codex"),
    }
