"""Servers of the tools for the harness: gateways as a run sees them."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from contract.call import CallCase
from contract.mcp_target import McpTarget
from contract.outcome import Run
from contract.pipe import PipeSession
from contract.rpc import HttpSession, Session
from contract.runner import run_calls
from tests.served import Served

HEADERS = {"x-memoai-project": "contract"}


def check_calls(
    url: str,
    cases: Sequence[CallCase],
    *,
    wire: str | None = None,
    page: str | None = None,
    folder: Path | None = None,
    broken: Callable[[Session], Session] = lambda session: session,
    seconds: float = 30,
    brain: str | None = None,
    anywhere: bool | None = None,
) -> Run[McpTarget]:
    """A run against a server behind a URL; only the memory tools can be told which brain is meant."""

    async def checked() -> Run[McpTarget]:
        async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
            session = broken(HttpSession(url, client, HEADERS, wire))
            target = McpTarget(url, session, page, folder, seconds, brain, _anywhere(url, anywhere))
            return await run_calls(target, cases)

    return asyncio.run(checked())


def _anywhere(url: str, said: bool | None) -> bool:
    return urlsplit(url).path not in ("", "/", "/mcp", "/memory/mcp") if said is None else said


def check_command(
    command: str,
    cases: Sequence[CallCase],
    *,
    wire: str | None = None,
    page: str | None = None,
    folder: Path | None = None,
    broken: Callable[[Session], Session] = lambda session: session,
    seconds: float = 30,
    brain: str | None = None,
) -> Run[McpTarget]:
    """A run against a server that is a command."""

    async def checked() -> Run[McpTarget]:
        session = broken(PipeSession(command, wire))
        target = McpTarget(command, session, page, folder, seconds, brain, "--surface memory" not in command)
        return await run_calls(target, cases)

    return asyncio.run(checked())


def stdio_command(served: Served, surface: str, brain: str | None = None, pages: str | None = None) -> str:
    """The command of a gateway over stdio, on the same data or platform as one over HTTP; `pages` is its web."""
    settings = {"BRAINS_LOG_LEVEL": "error", "BRAINS_DATA_DIR": str(served.data_dir), "MEMOAI_PROJECT": "contract"}
    if served.upstream_url:
        settings["BRAINS_UPSTREAM_URL"] = served.upstream_url
    if brain:
        settings["BRAINS_DEFAULT_BRAIN"] = brain
    settings["BRAINS_INGEST_ROOTS"] = str(served.root)
    if pages:
        settings["TEST_PAGES"] = pages
    words = " ".join(f"{name}={value}" for name, value in settings.items())
    return f"env {words} {sys.executable} -m {'tests.web' if pages else 'gateway'} stdio --surface {surface}"
