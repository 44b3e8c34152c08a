"""What is said at start: where it listens, where data is, and how to connect a client."""

import json
import sys
from pathlib import Path

from gateway.settings import Settings


def serving(settings: Settings) -> list[str]:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{host}:{settings.port}/mcp"
    return [
        "",
        f"brains-gateway listens on   {url}",
        f"brain                       {_brain(settings)}",
        f"files are ingested from     {_roots(settings)}",
        *_hosts(settings),
        "",
        *_clients(url, settings.token is not None),
        "",
        "Stop with Ctrl-C.",
        "",
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


def _brain(settings: Settings) -> str:
    if settings.upstream_url is not None:
        return f"the platform at {settings.upstream_url}"
    return f"embedded, data in {settings.data_dir}"


def _roots(settings: Settings) -> str:
    if settings.ingest_roots:
        return ", ".join(str(root.absolute()) for root in settings.ingest_roots)
    return "nowhere: set BRAINS_INGEST_ROOTS to offer memory_ingest_file"


def _hosts(settings: Settings) -> list[str]:
    if settings.is_loopback or settings.allowed_hosts:
        return []
    return ["host names                  none but IP addresses: set BRAINS_ALLOWED_HOSTS to the names callers use"]


def _clients(url: str, with_token: bool) -> list[str]:
    command = str(Path(sys.executable).with_name("brains-gateway"))
    header = {"headers": {"Authorization": "Bearer <BRAINS_TOKEN>"}} if with_token else {}
    claude_header = ' --header "Authorization: Bearer <BRAINS_TOKEN>"' if with_token else ""
    return [
        "Claude Code",
        f"  claude mcp add --transport http brains {url}{claude_header}",
        f"  claude mcp add brains -- {command} stdio",
        "Cursor, in ~/.cursor/mcp.json (HTTP, or stdio)",
        f"  {_entry('mcpServers', {'url': url, **header})}",
        f"  {_entry('mcpServers', {'command': command, 'args': ['stdio']})}",
        "VS Code, in .vscode/mcp.json (HTTP, or stdio)",
        f"  {_entry('servers', {'type': 'http', 'url': url, **header})}",
        f"  {_entry('servers', {'type': 'stdio', 'command': command, 'args': ['stdio']})}",
    ]


def _entry(section: str, server: dict[str, object]) -> str:
    return json.dumps({section: {"brains": server}})
