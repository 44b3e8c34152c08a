"""What is said at start: where it listens, where data is, and how to connect a client."""

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from gateway.config.settings import Settings
from gateway.operations.names import is_brain


def serving(settings: Settings) -> list[str]:
    return [
        "",
        f"brains-gateway listens on   {listening_url(settings)}",
        *_surfaces(settings),
        f"brain                       {_brain(settings)}",
        *(["writes                      none: BRAINS_READ_ONLY is set"] if settings.read_only else []),
        f"callers                     {_callers(settings)}",
        f"files are ingested from     {_roots(settings)}",
        "",
        *_clients(settings),
        "",
        "Stop with Ctrl-C.",
        "",
    ]


def listening_url(settings: Settings) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{settings.port}/mcp"


def facts(settings: Settings) -> dict[str, object]:
    """The same for a log that programs read."""
    return {
        "surfaces": list(settings.surfaces),
        "platform": _brain(settings),
        "callers": _callers(settings),
        "files_from": _roots(settings),
        "read_only": settings.read_only,
    }


def no_default(settings: Settings, brains: Sequence[tuple[str, str]] | None) -> list[str]:
    """That the default brain is not there. No reason not to start: it can only be made by a gateway that runs."""
    default = None if settings.is_shared else settings.default_brain
    if default is None or brains is None or any(is_brain(default, brain_id, slug) for slug, brain_id in brains):
        return []
    there = ", ".join(slug for slug, _ in brains)
    return [
        f"There is no brain {default}, which BRAINS_DEFAULT_BRAIN names, and calls that name none fail. There are: "
        f"{there}. Correct it, or create it with memory_create_brain.",
    ]


def platform(host: str, port: int, data_dir: Path, with_token: bool) -> list[str]:
    return [
        "",
        f"brains platform listens on  http://{host}:{port}",
        f"data                        {data_dir}",
        f"token                       {'required' if with_token else 'none'}",
        "",
        f"A gateway uses it with BRAINS_UPSTREAM_URL=http://{host}:{port}",
        "",
    ]


def _surfaces(settings: Settings) -> list[str]:
    """What else is served, besides the tools at `/mcp`."""
    first, others = settings.first_surface, [f"/{name}/mcp" for name in settings.surfaces]
    others.remove(f"/{first}/mcp")
    if not others:
        return []
    return [
        f"other vocabularies          {', '.join(others)}",
        "                            over stdio: brains-gateway stdio --surface NAME",
    ]


def _brain(settings: Settings) -> str:
    if settings.upstream_url is not None:
        return f"the platform at {settings.upstream_url}"
    return f"embedded, data in {settings.data_dir}"


def _callers(settings: Settings) -> str:
    shared = ", all of whom share the embedded brain" if settings.upstream_url is None else ""
    if settings.auth == "jwt":
        return f"with an access token of {settings.auth_issuer} for {settings.audience}{shared}"
    if settings.auth == "tokens":
        return f"with a token of {settings.tokens_path}{shared}"
    if settings.auth == "password":
        return f"who log in at {settings.public_url} as a user of {settings.users_path}{shared}"
    return "with the one token of BRAINS_TOKEN" if settings.token else "everybody on this machine"


def _roots(settings: Settings) -> str:
    if settings.ingest_roots:
        return ", ".join(str(root.absolute()) for root in settings.ingest_roots)
    return "nowhere: set BRAINS_INGEST_ROOTS to offer memory_ingest_file"


def _clients(settings: Settings) -> list[str]:
    url = _url_for_clients(settings)
    bearer = "<BRAINS_TOKEN>" if settings.token else "<token>" if settings.auth == "tokens" else None
    header = {"headers": {"Authorization": f"Bearer {bearer}"}} if bearer else {}
    claude_header = f' --header "Authorization: Bearer {bearer}"' if bearer else ""
    environment = _environment_for_stdio(settings)
    claude_environment = "".join(f" -e {name}={shlex.quote(value)}" for name, value in environment.items())
    command = str(Path(sys.executable).with_name("brains-gateway"))
    stdio: dict[str, object] = {"command": command, "args": ["stdio"], **({"env": environment} if environment else {})}
    return [
        "Claude Code",
        f"  claude mcp add --transport http brains {url}{claude_header}",
        f"  claude mcp add brains{claude_environment} -- {shlex.quote(command)} stdio",
        "Cursor, in ~/.cursor/mcp.json (HTTP, or stdio)",
        f"  {_entry('mcpServers', {'url': url, **header})}",
        f"  {_entry('mcpServers', stdio)}",
        "VS Code, in .vscode/mcp.json (HTTP, or stdio)",
        f"  {_entry('servers', {'type': 'http', 'url': url, **header})}",
        f"  {_entry('servers', {'type': 'stdio', **stdio})}",
    ]


def _url_for_clients(settings: Settings) -> str:
    """An address a client can use: what is listened on may be every address there is."""
    if settings.public_url is not None:
        return f"{settings.public_url}/mcp"
    if settings.is_loopback:
        host = settings.host
    else:
        host = next((name for name in settings.allowed_hosts if "*" not in name), "<this-host>")
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}/mcp"


def _environment_for_stdio(settings: Settings) -> dict[str, str]:
    """What a process that a client starts must be told, to serve the same brain as this one."""
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
