"""Every case of the contract is answered the same by the direct path and by FastMCP, to the last header and field."""

import asyncio
from pathlib import Path

import pytest

from contract import case
from contract.rpc import HANDSHAKE, MODERN
from tests.contract.servers import check_calls
from tests.contract.targets import PAGE, failures, page_app, reference_app
from tests.contract.test_call_cases import SURFACES, new_brain
from tests.served import listening, serving
from tests.tiers import nth
from tests.twin import answered_twice
from tests.web import web_on

EVERY = case.load_calls()


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("wire", [MODERN, HANDSHAKE])
@pytest.mark.sampled(3)
@pytest.mark.few(5)
def test_every_case_is_answered_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, surface: str, wire: str
) -> None:
    cases = nth(EVERY, 3)
    # Whatever the other tests go by.
    monkeypatch.setenv("BRAINS_DIRECT", "on")
    with (
        listening(page_app()) as pages,
        web_on(pages),
        reference_app(token=None) as platform,
        listening(platform) as upstream,
        answered_twice(monkeypatch) as log,
        serving(tmp_path, tmp_path, upstream_url=upstream) as served,
    ):
        path = "/mcp" if surface == "memory" else f"/{surface}/mcp/{asyncio.run(new_brain(served))}"
        done = check_calls(served.url + path, cases, wire=wire, page=PAGE, folder=served.root)
    assert log.differences == []
    assert failures(done) == {}
    # Some cases call nothing, and what is no plain call goes to FastMCP alone.
    assert log.compared > len(done.results) / 2
