"""How clients are connected to this gateway: what to paste into which file, or at a terminal."""

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from gateway.app.connecting import toml_text, yaml_text
from gateway.app.connecting.clients import CLIENTS, Client, Shape, Slot, fill
from gateway.config.settings import Settings
from gateway.ui.client_entry import ClientEntry

_NAME: Final = "brains"
# How a person writes the directories of clients, on any system.
_HOMES: Final = {"$HOME": "~", "$CLAUDE": "~", "$CODEX": "~/.codex", "$CONFIG": "~/.config"}


def client_entries(settings: Settings) -> list[ClientEntry]:
    """For each client, an entry over HTTP if the entry can hold the token, and one that starts the gateway itself."""
    url = f"{root_url(settings)}/mcp"
    bearer = "<BRAINS_TOKEN>" if settings.token else "<token>" if settings.auth == "tokens" else None
    environment = _environment_for_stdio(settings)
    command = [own_command(), "stdio"]
    values: dict[Slot, Any] = {
        Slot.PROGRAM: command[0],
        Slot.ARGUMENTS: command[1:],
        Slot.COMMAND: command,
        Slot.ENVIRONMENT: environment,
        Slot.SECRETS: [],
        Slot.URL: url,
        Slot.HEADERS: {"Authorization": f"Bearer {bearer}"} if bearer else {},
        Slot.TOKEN_VARIABLE: "BRAINS_TOKEN" if bearer else "",
        Slot.NAME: _NAME,
    }
    made = _claude_code(command, environment, url, bearer)
    for client in CLIENTS.values():
        if client.name == made[0].client:
            continue
        if bearer is None or any(slot in (Slot.HEADERS, Slot.TOKEN_VARIABLE) for slot in client.http.values()):
            made.append(_entry(client, "over HTTP", client.http, values))
        made.append(_entry(client, "over stdio", client.stdio, values))
    return made


def own_command() -> str:
    """The command with its full path, because clients do not look into virtual environments."""
    return str(Path(sys.executable).with_name("brains-gateway"))


def _claude_code(command: list[str], environment: Mapping[str, str], url: str, bearer: str | None) -> list[ClientEntry]:
    """Claude Code gets commands, because it has one for this and its file holds much else."""
    header = f' --header "Authorization: Bearer {bearer}"' if bearer else ""
    told = "".join(f" -e {name}={shlex.quote(value)}" for name, value in environment.items())
    add, name = "claude mcp add", CLIENTS["claude-code"].name
    return [
        ClientEntry(name, "over HTTP", f"{add} --transport http {_NAME} {url}{header}"),
        ClientEntry(name, "over stdio", f"{add} {_NAME}{told} -- {shlex.join(command)}"),
    ]


def _entry(client: Client, how: str, shape: Shape, values: Mapping[Slot, Any]) -> ClientEntry:
    entry = fill(shape, values)
    match client.syntax:
        # On one line, so that it can also be pasted at a terminal.
        case "json":
            text = json.dumps({client.section: {_NAME: entry}})
        case "toml":
            text = toml_text.put("", client.section, _NAME, entry).rstrip()
        case "yaml":
            text = yaml_text.put("", client.section, _NAME, entry).rstrip()
    return ClientEntry(client.name, f"in {_place(client)}, {how}", text)


def _place(client: Client) -> str:
    """The user's file if its path is the same on every system, or else a project's file, or else only the file name."""
    paths = {files[-1] for files in client.files.values()}
    if len(paths) > 1:
        return client.project[0] if client.project else PurePosixPath(paths.pop()).name
    home, _, rest = paths.pop().partition("/")
    return f"{_HOMES[home]}/{rest}"


def root_url(settings: Settings) -> str:
    """An address that a client can use. The gateway may listen on all addresses, and that is not one of them."""
    if settings.public_url is not None:
        return settings.public_url
    if settings.is_loopback:
        host = settings.host
    else:
        host = next((name for name in settings.allowed_hosts if "*" not in name), "<this-host>")
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"


def _environment_for_stdio(settings: Settings) -> dict[str, str]:
    """The variables with which a gateway that a client starts serves the same brain as this one."""
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
