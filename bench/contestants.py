"""Who is measured: how each is started, what it is asked, and whether it answers correctly."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

from bench import canned
from bench.client import checked
from bench.login import Login
from bench.processes import ROOT, Contestant, running
from bench.result import Unmeasured
from bench.serve import PLATFORM_URL, PROXIED_URL
from bench.upstream import COUNTS_PATH
from bench.wire import PATH, ToolCall, Wire, get, result

ECHO = ToolCall("echo", {"text": canned.QUERY})
SEARCH = ToolCall("memory_search", {"query": canned.QUERY, "brain": "main"})
# As FastMCP names it that makes tools of the contract.
OPERATION = ToolCall("search", {"q": canned.QUERY, "brain": "main"})
SEARCH_PATH = f"/v1/brains/main/search?q={quote(canned.QUERY)}&top_k=10"


def ask(deltas: int, pause: float = 0.0, *, hold: bool = False) -> ToolCall:
    query = canned.ask_query(deltas, pause, hold=hold)
    return ToolCall("memory_ask", {"query": query, "brain": "main"}, with_progress=True)


def bare(kind: str, workdir: Path, workers: int = 1, login: Login | None = None) -> AbstractContextManager[Contestant]:
    env = login.bare_settings() if login else {}
    return running(f"bare {kind}", ["bench.bare", kind, "--workers", str(workers)], workdir, env=env)


def floor(upstream: Contestant, workdir: Path) -> AbstractContextManager[Contestant]:
    return running("floor", ["bench.floor", "floor"], workdir, env={PLATFORM_URL: upstream.url})


def peer(kind: str, behind: Contestant, workdir: Path) -> AbstractContextManager[Contestant]:
    """What people would write instead, in front of the platform or, as a proxy, of another server."""
    env = {PLATFORM_URL: behind.url, PROXIED_URL: behind.url + PATH}
    return running(f"peer {kind}", ["bench.peers", kind], workdir, env=env)


def platform(workdir: Path) -> AbstractContextManager[Contestant]:
    return running("instant platform", ["bench.upstream"], workdir)


def gateway(
    upstream: Contestant,
    workdir: Path,
    workers: int = 1,
    login: Login | None = None,
    tree: Path = ROOT,
    more: Mapping[str, str] = MappingProxyType({}),
) -> AbstractContextManager[Contestant]:
    """`more` are settings that it has besides."""
    platform = {"BRAINS_UPSTREAM_URL": upstream.url, "BRAINS_DIALECT": "platform"}
    env = {**platform, "BRAINS_LOG_FORMAT": "json", **(login.gateway_settings() if login else {}), **more}
    return running("gateway", ["gateway", "serve", "--workers", str(workers)], workdir, env=env, tree=tree)


def is_search(call: ToolCall) -> bool:
    """Whether the platform is asked for each answer."""
    return call.tool in (SEARCH.tool, OPERATION.tool)


def counts(upstream: Contestant) -> dict[str, int]:
    """What the instant platform was asked so far."""
    told: dict[str, int] = json.loads(asyncio.run(checked(upstream.port, get(COUNTS_PATH))))
    return told


def check(contestant: Contestant, call: ToolCall, wire: Wire) -> None:
    """One call, looked at: before and after it is measured.

    Raises:
        Unmeasured: the answer is not what it should be.
    """
    contestant.check_alive()
    body = asyncio.run(checked(contestant.port, call.request(wire)))
    try:
        found = result(body)
    except ValueError:
        raise Unmeasured(f"{contestant.name} answered {call.tool} with an error: {body[:200]!r}") from None
    text = str(found["content"][0]["text"])
    if is_search(call):
        right = (
            found["structuredContent"] == canned.search_result() and canned.search_result()["hits"][0]["path"] in text
        )
    else:
        right = text == canned.QUERY
    if not right:
        raise Unmeasured(f"{contestant.name} did not answer {call.tool} as it should.")


def check_platform(upstream: Contestant) -> None:
    if json.loads(asyncio.run(checked(upstream.port, get(SEARCH_PATH)))) != canned.search_result():
        raise Unmeasured("The instant platform did not answer a search as it should.")
