"""How clients are connected to this gateway: what to paste into which file, or at a terminal."""

import json
import shlex
import sys
from pathlib import Path

from gateway.config.settings import Settings
from gateway.ui.client_entry import ClientEntry


def client_entries(settings: Settings) -> list[ClientEntry]:
    """For each client an entry over HTTP, and one with which it starts the gateway itself."""
    url = f"{root_url(settings)}/mcp"
    bearer = "<BRAINS_TOKEN>" if settings.token else "<token>" if settings.auth == "tokens" else None
    header = {"headers": {"Authorization": f"Bearer {bearer}"}} if bearer else {}
    claude_header = f' --header "Authorization: Bearer {bearer}"' if bearer else ""
    environment = _environment_for_stdio(settings)
    claude_environment = "".join(f" -e {name}={shlex.quote(value)}" for name, value in environment.items())
    command = str(Path(sys.executable).with_name("brains-gateway"))
    stdio: dict[str, object] = {"command": command, "args": ["stdio"], **({"env": environment} if environment else {})}
    claude, cursor, code = "Claude Code", "in ~/.cursor/mcp.json", "in .vscode/mcp.json"
    return [
        ClientEntry(claude, "over HTTP", f"claude mcp add --transport http brains {url}{claude_header}"),
        ClientEntry(claude, "over stdio", f"claude mcp add brains{claude_environment} -- {shlex.quote(command)} stdio"),
        ClientEntry("Cursor", f"{cursor}, over HTTP", _entry("mcpServers", {"url": url, **header})),
        ClientEntry("Cursor", f"{cursor}, over stdio", _entry("mcpServers", stdio)),
        ClientEntry("VS Code", f"{code}, over HTTP", _entry("servers", {"type": "http", "url": url, **header})),
        ClientEntry("VS Code", f"{code}, over stdio", _entry("servers", {"type": "stdio", **stdio})),
    ]


def root_url(settings: Settings) -> str:
    """An address that a client can use, because the gateway may listen on all addresses."""
    if settings.public_url is not None:
        return settings.public_url
    if settings.is_loopback:
        host = settings.host
    else:
        host = next((name for name in settings.allowed_hosts if "*" not in name), "<this-host>")
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"


def _environment_for_stdio(settings: Settings) -> dict[str, str]:
    """The settings that a process started by a client needs, to serve the same brain as this one."""
    if settings.upstream_url is not None:
        told = {"BRAINS_UPSTREAM_URL": settings.upstream_url}
        if settings.upstream_token is not None:
            told["BRAINS_UPSTREAM_TOKEN"] = "<BRAINS_UPSTREAM_TOKEN>"
    else:
        told = {"BRAINS_DATA_DIR": str(settings.data_dir)} if "data_dir" in settings.model_fields_set else {}
        if settings.llm_url is not None:
            told |= {"BRAINS_LLM_URL": settings.llm_url, "BRAINS_LLM_MODEL": str(settings.llm_model)}
            told |= {} if settings.llm_key is None else {"BRAINS_LLM_KEY": "<BRAINS_LLM_KEY>"}
    if settings.default_brain is not None:
        told["BRAINS_DEFAULT_BRAIN"] = settings.default_brain
    return told


def _entry(section: str, server: dict[str, object]) -> str:
    return json.dumps({section: {"brains": server}})
