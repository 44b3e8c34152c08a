"""Every case for a server of the tools holds on the gateway, in front of both dialects, by every way in."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from contract import case
from contract.rpc import HANDSHAKE, MODERN
from tests.contract.servers import check_calls, check_command, stdio_command
from tests.contract.targets import PAGE, PAGE_BODY, PAGE_TYPE, failures, reference_app
from tests.daemons.fake import FakeDaemon, T
from tests.gateway.conftest import TALK, structured
from tests.served import Served, listening, serving

EVERY = case.load_calls()
SURFACES = ["memory", "kv", "team", "being", "memo"]
WAYS = [("http", MODERN), ("http", HANDSHAKE), ("stdio", MODERN), ("stdio", HANDSHAKE)]


@dataclass
class Gateway:
    """A gateway, and a brain for the vocabularies that have no tool to make one."""

    served: Served
    brain: str


@pytest.fixture(scope="module", params=["reference platform", "daemon"])
def gateway(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    root, data = tmp_path_factory.mktemp("files"), tmp_path_factory.mktemp("data")
    with ExitStack() as stack:
        if request.param == "reference platform":
            app = stack.enter_context(reference_app(token=None))
        else:
            app = FakeDaemon(T, llm=TALK, pages={PAGE: (PAGE_TYPE, PAGE_BODY)}).app()
        platform = stack.enter_context(listening(app))
        served = stack.enter_context(serving(data, root, upstream_url=platform))
        yield Gateway(served, asyncio.run(new_brain(served)))


async def new_brain(served: Served) -> str:
    async with served.over_http("modern") as client:
        created = await client.call_tool("memory_create_brain", {"name": "For the contract"})
    return str(structured(created)["id"])


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(("way", "wire"), WAYS)
def test_every_case_holds_on_the_gateway(gateway: Gateway, surface: str, way: str, wire: str) -> None:
    served = gateway.served
    if way == "http":
        path = "/mcp" if surface == "memory" else f"/{surface}/mcp/{gateway.brain}"
        done = check_calls(served.url + path, EVERY, wire=wire, page=PAGE, folder=served.root)
    else:
        command = stdio_command(served, surface, None if surface == "memory" else gateway.brain)
        done = check_command(command, EVERY, wire=wire, page=PAGE, folder=served.root)
    assert failures(done) == {}
    assert done.target.surface == surface
    assert done.target.session.version == wire
    assert len(done.results) == len([one for one in EVERY if one.surface == surface])
    assert {one.case.id for one in done.results if one.outcome != "passed"} == set()
