"""Every case for a server of the tools holds on the gateway, in front of both dialects, by every way in."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from contract import case
from contract.call import CallCase
from contract.rpc import HANDSHAKE, MODERN
from tests.contract.servers import check_calls, check_command, stdio_command
from tests.contract.targets import PAGE, failures, page_app, reference_app
from tests.daemons.fake import BRAIN, FakeDaemon, T
from tests.gateway.conftest import TALK, structured
from tests.served import Served, listening, serving
from tests.tiers import nth
from tests.web import web_on

EVERY = case.load_calls()
SURFACES = ["memory", "kv", "team", "being", "memo", "chat"]
NOT_IMPLEMENTED = CallCase.model_validate(
    {
        "id": "mcp/memory/consolidate/not-implemented",
        "what": "A consolidation that the platform cannot make fails with not_implemented.",
        "requirement": "must",
        "source": "spec/mcp-tools memory_consolidate",
        "steps": [{"call": "memory_consolidate", "expect": {"error": "not_implemented"}}],
    }
)
# Each platform by each way in; each way on each wire. `make test` has one of each platform and of each way.
WAYS = [
    pytest.param("reference platform", "http", MODERN, marks=pytest.mark.slow),
    pytest.param("reference platform", "stdio", HANDSHAKE, marks=pytest.mark.slow),
    ("daemon", "http", HANDSHAKE),
    pytest.param("daemon", "stdio", MODERN, marks=pytest.mark.slow),
]


@dataclass
class Gateway:
    """A gateway, and a brain for the vocabularies that have no tool to make one."""

    served: Served
    brain: str
    pages: str | None
    """The web of it, where the platform fetches no page itself."""


@pytest.fixture(scope="module")
def gateway(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    root, data = tmp_path_factory.mktemp("files"), tmp_path_factory.mktemp("data")
    with ExitStack() as stack:
        pages = None
        if request.param == "reference platform":
            app = stack.enter_context(reference_app(token=None))
        else:
            app = FakeDaemon(T, llm=TALK).app()
            pages = stack.enter_context(listening(page_app()))
            stack.enter_context(web_on(pages))
        platform = stack.enter_context(listening(app))
        served = stack.enter_context(serving(data, root, upstream_url=platform))
        yield Gateway(served, asyncio.run(new_brain(served)), pages)


async def new_brain(served: Served, name: str = "For the contract") -> str:
    async with served.over_http("modern") as client:
        brain = str(structured(await client.call_tool("memory_create_brain", {"name": name}))["id"])
        # One vocabulary only reads: this is what it finds.
        await client.call_tool("memory_remember", {"brain": brain, "content": "# Otters\n\nThe otters hold hands."})
    return brain


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(("gateway", "way", "wire"), WAYS, indirect=["gateway"])
@pytest.mark.sampled(3)
@pytest.mark.few(7)
def test_every_case_holds_on_the_gateway(gateway: Gateway, surface: str, way: str, wire: str) -> None:
    served, cases = gateway.served, nth(EVERY, 3)
    if way == "http":
        path = "/mcp" if surface == "memory" else f"/{surface}/mcp/{gateway.brain}"
        done = check_calls(served.url + path, cases, wire=wire, page=PAGE, folder=served.root)
    else:
        command = stdio_command(served, surface, None if surface == "memory" else gateway.brain, gateway.pages)
        done = check_command(command, cases, wire=wire, page=PAGE, folder=served.root)
    assert failures(done) == {}
    assert done.target.surface == surface
    assert done.target.session.version == wire
    assert len(done.results) == len([one for one in cases if one.surface == surface])
    assert {one.case.id for one in done.results if one.outcome != "passed"} == set()


def test_a_consolidation_that_no_platform_makes_is_not_supported(tmp_path: Path) -> None:
    """What the contract calls not_implemented is a gap, and no failure."""
    daemon = FakeDaemon(T, llm=TALK).without(f"POST {BRAIN}/consolidate")
    with listening(daemon.app()) as platform, serving(tmp_path, None, upstream_url=platform) as served:
        done = check_calls(f"{served.url}/mcp", case.selected(EVERY, ["mcp/memory/consolidate"]))
        refused = check_calls(f"{served.url}/mcp", [NOT_IMPLEMENTED])
    assert {one.case.id.rpartition("/")[2]: one.outcome for one in done.results} == {
        "definition": "passed",
        "keeps-what-was-remembered": "not supported",
        "no-progress": "not supported",
        "returns-the-result": "not supported",
        "text-is-a-summary": "not supported",
        "unknown-brain": "passed",
    }
    assert failures(refused) == {}
