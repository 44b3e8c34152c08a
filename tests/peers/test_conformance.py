"""The official MCP conformance suite on both wires: the production surfaces, and the application with fixtures."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from gateway.surfaces.catalog import SURFACES
from tests.peers.conformance import ways
from tests.peers.conformance.suite import (
    WIRES,
    Card,
    Run,
    Way,
    Wire,
    baseline,
    card,
    failing,
    ran,
    recorded,
    row,
    scored,
    surprises,
    version,
)
from tests.served import raw_call

pytestmark = [
    # The suite has scenarios for what newer clients do without.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]
UNSCORED = ("json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation")
both_wires = pytest.mark.parametrize("wire", WIRES)


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ways.production(tmp_path_factory.mktemp("production")) as url:
        yield url


def assert_as_recorded(run: Run, wire: Wire, way: Way) -> None:
    assert surprises(run, wire, way) == []
    assert row(card(run, wire, way)) == recorded()["wires"][wire][way], "python -m tests.peers.conformance"


@both_wires
@pytest.mark.parametrize("surface", SURFACES)
def test_a_production_surface_does_as_recorded(production: str, tmp_path: Path, wire: Wire, surface: str) -> None:
    run = ran(f"{production}/{surface}/mcp", wire, "production", tmp_path)
    assert_as_recorded(run, wire, "production")


@both_wires
def test_the_application_with_fixtures_does_as_recorded(tmp_path: Path, wire: Wire) -> None:
    with ways.fixtures(tmp_path) as url:
        run = ran(url, wire, "fixtures", tmp_path)
    assert_as_recorded(run, wire, "fixtures")
    assert run.exit_code == 0, run.said


@both_wires
def test_the_application_with_fixtures_behind_auth_does_as_recorded(tmp_path: Path, wire: Wire) -> None:
    with ways.behind_auth(tmp_path) as (url, guarded):
        assert httpx.post(guarded, **raw_call("modern", "test_simple_text", {})).status_code == 401
        run = ran(url, wire, "fixtures behind auth", tmp_path)
    assert_as_recorded(run, wire, "fixtures behind auth")
    assert run.exit_code == 0, run.said


def test_a_failure_that_is_new_a_stale_entry_and_a_scenario_without_a_result_are_told() -> None:
    fine = {scenario: [{"id": scenario, "status": "SUCCESS"}] for scenario in [*scored("2025-11-25"), *UNSCORED]}
    sampling = [{"id": "tools-call-sampling", "status": "FAILURE"}]
    ping = [{"id": "ping", "status": "FAILURE", "errorMessage": "no answer"}]
    seen = {**fine, "tools-call-sampling": sampling, "ping": ping}
    del seen["tools-list"]
    told = surprises(Run(seen, 1, ""), "2025-11-25", "fixtures")
    assert told[:2] == ["ping:ping fails: no answer", "tools-list:no-result fails: the suite has no result of it"]
    assert {line.partition(" does not fail")[0] for line in told[2:]} == {
        entry for entry in baseline("2025-11-25", "fixtures") if not entry.startswith("tools-call-sampling")
    }


@both_wires
def test_a_warning_counts_and_what_passes_without_fixtures_does_not(wire: Wire) -> None:
    fine = Run({scenario: [{"id": "x", "status": "SUCCESS"}] for scenario in [*scored(wire), *UNSCORED]}, 0, "")
    warned = replace(fine, checks={**fine.checks, "tools-list": [{"id": "y", "status": "WARNING"}]})
    assert failing(warned, wire, "production") == failing(warned, wire, "fixtures") == {"tools-list:y": "WARNING"}
    everything = len(scored(wire))
    assert card(fine, wire, "fixtures") == Card(everything, 0, 0, 0)
    assert card(warned, wire, "fixtures") == Card(everything - 1, 0, 1, 0)
    assert card(fine, wire, "production").passed < 10


def test_the_record_is_of_the_suite_that_is_pinned() -> None:
    pinned = json.loads((Path(__file__).parent / "package.json").read_text(encoding="utf-8"))["dependencies"]
    assert pinned["@modelcontextprotocol/conformance"] == version() == recorded()["suite"]
    assert [recorded()["wires"][wire]["scored"] for wire in WIRES] == [len(scored(wire)) for wire in WIRES] == [30, 37]


@both_wires
@pytest.mark.parametrize("way", ["production", "fixtures"])
def test_every_expected_failure_has_a_reason(wire: Wire, way: Way) -> None:
    assert [entry for entry, reason in baseline(wire, way).items() if len(reason.split()) < 5] == []
