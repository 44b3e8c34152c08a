"""Every case for a server of the tools can fail: for each there is a server that is broken so, and it is caught."""

import asyncio
from collections.abc import Iterator

import pytest

from contract import case
from tests.broken import being_calls, chat_calls, kv_calls, memo_calls, memory_calls, memory_writes, team_calls
from tests.broken.calls import BrokenSession, Server
from tests.broken.test_broken import noticed
from tests.contract.servers import check_calls
from tests.contract.targets import PAGE, reference_app
from tests.contract.test_call_cases import new_brain
from tests.served import Served, listening, serving

EVERY = {one.id: one for one in case.load_calls()}
SURFACES = (memory_calls, memory_writes, kv_calls, team_calls, memo_calls, being_calls, chat_calls)
SERVERS = [server for surface in SURFACES for server in surface.SERVERS]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data, root = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("files")
    with (
        reference_app(token=None) as app,
        listening(app) as platform,
        serving(data, root, upstream_url=platform) as served,
    ):
        asyncio.run(new_brain(served))
        yield served


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)
@pytest.mark.sampled(7)
def test_a_broken_server_is_caught(gateway: Served, server: Server) -> None:
    surface = EVERY[server.breaks[0]].surface
    cases = [EVERY[name] for name in server.breaks]
    done = check_calls(
        f"{gateway.url}/{surface}/mcp",
        cases,
        page=PAGE,
        folder=gateway.root,
        broken=lambda session: BrokenSession(session, server.act),
    )
    noticed(done, server.breaks)


def test_every_case_is_broken_by_a_server() -> None:
    broken = {name for server in SERVERS for name in server.breaks}
    assert set(EVERY) - broken == set(), "add a server(…) to a list in tests/broken/*_calls.py for each of these"


def test_every_server_has_a_name_of_its_own() -> None:
    names = [server.name for server in SERVERS]
    assert len(set(names)) == len(names)
