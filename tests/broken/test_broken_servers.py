"""Every case for a server of the tools can fail: for each there is a server that is broken so, and it is caught."""

from collections.abc import Iterator

import pytest

from contract import case
from tests.broken import being_calls, kv_calls, memo_calls, memory_calls, team_calls
from tests.broken.calls import BrokenSession, Server
from tests.contract.servers import check_calls
from tests.contract.targets import failures
from tests.served import Served, serving

EVERY = {one.id: one for one in case.load_calls()}
SERVERS = memory_calls.SERVERS + kv_calls.SERVERS + team_calls.SERVERS + memo_calls.SERVERS + being_calls.SERVERS


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("files")) as served:
        yield served


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)
def test_a_broken_server_is_caught(gateway: Served, server: Server) -> None:
    surface = EVERY[server.breaks[0]].surface
    cases = [EVERY[name] for name in server.breaks]
    done = check_calls(
        f"{gateway.url}/{surface}/mcp",
        cases,
        folder=gateway.root,
        broken=lambda session: BrokenSession(session, server.act),
    )
    failed = failures(done)
    assert {one.case.id: one.outcome for one in done.results if one.case.id not in failed} == {}
    assert set(failed) == set(server.breaks)
    # A case that could not even begin has noticed nothing.
    for result in failed.values():
        assert result.failure is not None
        assert not result.failure.request.startswith(("a brain", "the case", "the server")), result.failure


def test_every_case_is_broken_by_a_server() -> None:
    assert set(EVERY) - {name for server in SERVERS for name in server.breaks} == set()


def test_every_server_has_a_name_of_its_own() -> None:
    names = [server.name for server in SERVERS]
    assert len(set(names)) == len(names)
