"""How a client reaches the gateway: a command to start, or an address."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gateway.cli.prepare import local_roots
from gateway.config.settings import BadSetting, Settings
from gateway.config.sources import CONFIG, PREFIX, is_secret, origins

# Settings that hold over stdio too. A gateway that a client starts gets them as this command got them.
_CARRIED: Final = (
    "upstream_url",
    "upstream_token",
    "upstream_plain",
    "dialect",
    "quota_notes",
    "quota_bytes",
    "embed_url",
    "embed_model",
    "embed_key",
    "llm_url",
    "llm_model",
    "llm_key",
    "default_brain",
    "actor",
    "project",
    "read_only",
    "write_scope",
    "recall_notes",
    "context_entries",
    "full_text",
    "extra_tools",
    "tool_prefix",
    "being_model",
    "fetch",
    "fetch_allow",
)
# A directory in which `uvx` makes environments that it later deletes.
_PASSING: Final = "archive-v0"


@dataclass(frozen=True)
class Server:
    """A command with its environment, or an address. Secrets are only named: the client must have them itself."""

    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Variables that hold a secret for the command."""
    url: str = ""
    token_variable: str = ""
    """The variable that holds the bearer token for the address."""


def started(settings: Settings, surface: str | None, project: Path | None) -> Server:
    """A gateway that the client starts, with the settings of this one. It may read the files of the project, if any."""
    environment, secrets = _environment(settings)
    roots = settings.ingest_roots or ((project,) if project else local_roots(settings) or ())
    if roots:
        environment["BRAINS_INGEST_ROOTS"] = os.pathsep.join(str(root.absolute()) for root in roots)
    return Server((*_command(), "stdio", *(("--surface", surface) if surface else ())), environment, secrets)


def addressed(settings: Settings, url: str, surface: str | None, variable: str | None) -> Server:
    """A gateway that is already running.

    Raises:
        BadSetting: the address is not valid.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise BadSetting("--http takes the address of a gateway, as in http://127.0.0.1:8787/mcp")
    if parts.username is not None or parts.password is not None:
        raise BadSetting("--http takes an address without a password: name its variable with --token-variable.")
    if surface is not None:
        if not parts.path.startswith("/mcp"):
            raise BadSetting("--surface needs an address whose path begins with /mcp: put the surface in it yourself.")
        parts = parts._replace(path=f"/{surface}{parts.path}")
    named = variable or (f"{PREFIX}TOKEN" if settings.token is not None else "")
    return Server(url=parts.geturl(), token_variable=named)


def is_passing() -> bool:
    """Whether this command will soon be deleted, because it was only tried out."""
    return _PASSING in Path(sys.prefix).parts


def _command() -> tuple[str, ...]:
    """The command by its full path: clients know no virtual environment."""
    script = Path(sys.executable).with_name("brains-gateway.exe" if os.name == "nt" else "brains-gateway")
    return (str(script),) if script.is_file() else (sys.executable, "-m", "gateway")


def _environment(settings: Settings) -> tuple[dict[str, str], tuple[str, ...]]:
    """The settings of this command, and the names of its secret variables."""
    told: dict[str, str] = {}
    secrets: list[str] = []
    if settings.upstream_url is None:
        told["BRAINS_DATA_DIR"] = str(settings.data_dir.absolute())
    if config := os.environ.get(CONFIG):
        told[CONFIG] = str(Path(config).expanduser().absolute())
    found = origins(Settings.model_fields)
    for name in _CARRIED:
        origin = found[name]
        if origin.kind == "file":
            told[origin.name] = str(Path(os.environ[origin.name]).expanduser().absolute())
        elif origin.kind == "environment" and is_secret(Settings.model_fields[name]):
            secrets.append(origin.name)
        elif origin.kind == "environment":
            told[origin.name] = origin.value
    return told, tuple(secrets)
