"""The text at start: where the gateway listens, where data is, and how to connect a client."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gateway.app.connecting.clients import CLIENTS
from gateway.app.connecting.entries import client_entries, own_command
from gateway.app.page import has_page, page_url
from gateway.config.settings import Settings
from gateway.operations.names import is_brain

# The terminal has room for a few clients. The page shows all of them.
_SHOWN: Final = {CLIENTS[key].name for key in ("claude-code", "cursor", "vscode")}


def serving(settings: Settings) -> list[str]:
    return [
        "",
        f"brains-gateway listens on   {listening_url(settings)}",
        *([f"page for people             {page_url(settings)}"] if has_page(settings) else []),
        *_surfaces(settings),
        f"brain                       {_brain(settings)}",
        *(["writes                      none: BRAINS_READ_ONLY is set"] if settings.read_only else []),
        f"callers                     {_callers(settings)}",
        f"files are ingested from     {_roots(settings)}",
        "",
        *_client_lines(settings),
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
    """A warning that the default brain does not exist. The gateway starts, because only a running one can make it."""
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


def _client_lines(settings: Settings) -> list[str]:
    """For a few clients, the files and what to write into them; then the command that connects these and others."""
    places: dict[str, list[str]] = {}
    for entry in client_entries(settings):
        if entry.client not in _SHOWN:
            continue
        place = entry.how.removesuffix(" over HTTP").removesuffix(" over stdio").removesuffix(",")
        named = f"{entry.client}, {place} (HTTP, or stdio)" if place.startswith("in ") else entry.client
        places.setdefault(named, []).append(f"  {entry.text}")
    shown = [line for named, texts in places.items() for line in (named, *texts)]
    return [*shown, f"These and others, with one command: {shlex.quote(own_command())} connect"]
