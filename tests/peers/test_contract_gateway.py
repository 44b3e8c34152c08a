"""The contract against the gateway in front of the published daemon: every case of every vocabulary holds."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from contract import case
from contract.rpc import HANDSHAKE, MODERN
from tests.contract.servers import check_calls, check_command, stdio_command
from tests.contract.targets import PAGE, failures, page_app
from tests.contract.test_call_cases import SURFACES, new_brain
from tests.daemons.llm import ScriptedLLM
from tests.daemons.real import running_daemon
from tests.gateway.conftest import TALK
from tests.served import Served, listening, serving
from tests.web import web_on

EVERY = case.load_calls()


@pytest.fixture(scope="module")
def pages() -> Iterator[str]:
    """A web server that has the page."""
    with listening(page_app()) as url:
        yield url


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, pages: str) -> Iterator[Served]:
    """A gateway in front of the daemon."""
    files, data, home = (tmp_path_factory.mktemp(name) for name in ("files", "data", "daemon"))
    with ExitStack() as stack:
        llm = stack.enter_context(listening(ScriptedLLM(TALK).app()))
        daemon = stack.enter_context(running_daemon(home, llm_url=llm))
        stack.enter_context(web_on(pages))
        yield stack.enter_context(serving(data, files, upstream_url=daemon))


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(("way", "wire"), [("http", MODERN), ("stdio", HANDSHAKE)])
def test_every_case_holds_in_front_of_the_published_daemon(
    served: Served, pages: str, surface: str, way: str, wire: str
) -> None:
    # For those that have no tool to make one. One each: a patrol looks at all that is there, and others wait for it.
    brain = None if surface == "memory" else asyncio.run(new_brain(served, f"For {surface} over {way}"))
    if way == "http":
        path = "/mcp" if brain is None else f"/{surface}/mcp/{brain}"
        done = check_calls(served.url + path, EVERY, wire=wire, page=PAGE, folder=served.root)
    else:
        command = stdio_command(served, surface, brain, pages)
        done = check_command(command, EVERY, wire=wire, page=PAGE, folder=served.root)
    assert failures(done) == {}
    assert {one.case.id for one in done.results} == {one.id for one in EVERY if one.surface == surface}
    assert {one.case.id for one in done.results if one.outcome != "passed"} == set()
