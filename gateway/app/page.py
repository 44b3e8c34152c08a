"""Puts the page for people together: what it shows of the gateway, and who may come in."""

import asyncio
import secrets
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from gateway.app.capabilities import capabilities
from gateway.app.connecting.entries import client_entries, root_url
from gateway.app.database_file import backup_state
from gateway.app.diagnosis import facts, problems_of_file, problems_of_models
from gateway.app.gateway import Gateway
from gateway.config.kinds import is_loopback_host
from gateway.config.reread_file import state_keys
from gateway.config.settings import Settings
from gateway.http.endpoint import Door
from gateway.mcp.recent_calls import RecentCalls
from gateway.operations.caller import Call
from gateway.operations.table import JsonObject
from gateway.ui.client_entry import ClientEntry


def has_page(settings: Settings) -> bool:
    return settings.ui == "on" or (settings.ui == "auto" and _is_local(settings))


def page_url(settings: Settings) -> str:
    return f"{root_url(settings)}/"


def page_of(gateway: Gateway, settings: Settings, door: Door) -> ASGIApp:
    """The page. From now on, the surfaces of the gateway note for it how calls go."""
    # Imported when used: what makes HTML takes time to load.
    from gateway.ui.page import Page
    from gateway.ui.session import Seal
    from gateway.ui.visit import PageServices, Status

    async def status(call: Call) -> Status:
        report = await _report(gateway, settings, call)
        if settings.tells_callers_apart:
            return Status([("Dialect", report["dialect"] or "not known")], report)
        where = settings.upstream_url or f"the embedded brain in {settings.data_dir}"
        roots = ", ".join(str(root) for root in settings.ingest_roots or ())
        backups, _overdue = await asyncio.to_thread(backup_state, settings)
        return Status(facts(report, where, roots and f"ingested from {roots}", backups), report)

    recent = gateway.recent = RecentCalls()
    services = PageServices(
        gateway.brain,
        status,
        _entries(settings),
        recent,
        read_only=settings.read_only,
        tells_callers_apart=settings.tells_callers_apart,
    )
    file = settings.state_keys_file
    keys = [secrets.token_bytes(32)] if file is None else state_keys(file.read_bytes())
    return Page(services, door.inbound, door.limits, Seal(keys), settings.public_url)


def _is_local(settings: Settings) -> bool:
    public = urlsplit(settings.public_url or "").hostname
    return settings.is_loopback and not settings.allowed_hosts and (public is None or is_loopback_host(public))


async def _report(gateway: Gateway, settings: Settings, call: Call) -> JsonObject:
    """What `doctor` says. Only the owner of everything here is told about files and models."""
    report = await capabilities(gateway.brain, gateway.surfaces(), call)
    if settings.tells_callers_apart:
        # The URL of each call names the brain.
        unnamed = {"no_brain", "forbidden"}
        return {**report, "problems": [problem for problem in report["problems"] if problem["code"] not in unnamed]}
    models = await gateway.models() or {}
    of_file = await asyncio.to_thread(problems_of_file, settings)
    problems = [*of_file, *report["problems"], *problems_of_models(models)]
    return {**report, "models": models, "problems": problems, "read_only": settings.read_only}


def _entries(settings: Settings) -> tuple[ClientEntry, ...]:
    """The entries that are useful for this visitor: from another machine, nobody can start a process here."""
    is_own = _is_local(settings) and not settings.tells_callers_apart
    return tuple(entry for entry in client_entries(settings) if is_own or "stdio" not in entry.how)
