"""Runs the suite, and judges what it saw: what is scored, what was skipped, what was expected to fail."""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import yaml

HERE: Final = Path(__file__).parent
RECORD: Final = HERE / "record.json"
_MODULES: Final = HERE.parent / "node_modules"
_SUITE: Final = _MODULES / "@modelcontextprotocol" / "conformance"

Wire = Literal["2025-11-25", "2026-07-28"]
Way = Literal["production", "fixtures", "fixtures behind auth"]
WIRES: Final[tuple[Wire, ...]] = ("2025-11-25", "2026-07-28")

# What production surfaces are held to. All else needs tools, prompts or resources of the suite's own, or passes
# without them only because there is nothing to look at: a tool that is missing "reports an error", for one.
_WITHOUT_FIXTURES: Final[Mapping[Wire, tuple[str, ...]]] = {
    "2025-11-25": (
        "server-initialize",
        "ping",
        "logging-set-level",
        "tools-list",
        "resources-list",
        "prompts-list",
        "dns-rebinding-protection",
    ),
    "2026-07-28": (
        "server-stateless",
        "tools-list",
        "resources-list",
        "prompts-list",
        "sep-2164-resource-not-found",
        "caching",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
        "http-header-validation",
        "input-required-result-unsupported-methods",
    ),
}
# Held to as well, though the suite does not score them yet.
_UNSCORED: Final[Mapping[Wire, tuple[str, ...]]] = {
    "2025-11-25": ("json-schema-2020-12",),
    "2026-07-28": ("json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"),
}

Check = Mapping[str, Any]
_NO_RESULT: Final[Check] = {"id": "no-result", "status": "FAILURE", "errorMessage": "the suite has no result of it"}


@dataclass(frozen=True, slots=True)
class Run:
    """What the suite saw of one server: the checks of each scenario, and its own verdict by our baseline."""

    checks: Mapping[str, Sequence[Check]]
    exit_code: int
    said: str


@dataclass(frozen=True, slots=True)
class Card:
    """Scored scenarios: they add up to all there are."""

    passed: int
    skipped: int
    """Not counted, because they need fixtures that are not there."""
    expected: int
    """Fail, at least in one check, for a reason that the baseline gives."""
    not_applicable: int
    """Single checks in what passed that the suite skips, because the server does not offer what they are about."""


def scored(wire: Wire) -> list[str]:
    requirements = yaml.safe_load((_SUITE / "requirements" / f"{wire}.yaml").read_text(encoding="utf-8"))
    return list(requirements["server"])


def held_to(wire: Wire, way: Way) -> list[str]:
    return list(_WITHOUT_FIXTURES[wire]) if way == "production" else [*scored(wire), *_UNSCORED[wire]]


def baseline(wire: Wire, way: Way) -> dict[str, str]:
    """The checks that are expected to fail, as `scenario:check`, and why."""
    sections = yaml.safe_load((HERE / f"baseline-{wire}.yaml").read_text(encoding="utf-8"))
    return dict(sections.get("production" if way == "production" else "fixtures") or {})


def ran(url: str, wire: Wire, way: Way, folder: Path) -> Run:
    """The whole suite for one wire, against one server."""
    expected = folder / "expected.yaml"
    expected.write_text(yaml.safe_dump({"server": list(baseline(wire, way))}), encoding="utf-8")
    results = folder / "results"
    # Not the Node of this machine: the suite needs a newer one than the other peers do.
    node, program = str(_MODULES / "node" / "bin" / "node"), str(_SUITE / "dist" / "index.js")
    options = ["--url", url, "--requirements", wire, "--expected-failures", str(expected), "-o", str(results)]
    done = subprocess.run(
        [node, program, "server", *options], capture_output=True, text=True, cwd=folder, timeout=100, check=False
    )
    seen = {_scenario_of(path): json.loads(path.read_text(encoding="utf-8")) for path in results.glob("*/checks.json")}
    return Run(seen, done.returncode, done.stdout.partition("=== SUMMARY ===")[2] + done.stderr)


def _scenario_of(checks: Path) -> str:
    """Results are in `server-<scenario>-<time>`."""
    return re.sub(r"-\d{4}-\d{2}-\d{2}T[\dZ-]+$", "", checks.parent.name).removeprefix("server-")


def failing(run: Run, wire: Wire, way: Way) -> dict[str, str]:
    """Every check that fails, and why; or warns, which the suite takes for the same where there is a baseline."""
    return {
        f"{scenario}:{check['id']}": str(check.get("errorMessage") or check["status"])
        for scenario in held_to(wire, way)
        for check in run.checks.get(scenario, [_NO_RESULT])
        if check["status"] in {"FAILURE", "WARNING"}
    }


def surprises(run: Run, wire: Wire, way: Way) -> list[str]:
    """What fails and was not expected to, and what was expected to and does not."""
    seen, expected = failing(run, wire, way), baseline(wire, way)
    unexpected = [f"{check} fails: {why}" for check, why in seen.items() if check not in expected]
    return unexpected + [f"{check} does not fail: its entry is stale" for check in expected if check not in seen]


def card(run: Run, wire: Wire, way: Way) -> Card:
    counted = [scenario for scenario in scored(wire) if scenario in held_to(wire, way)]
    failed = {entry.partition(":")[0] for entry in failing(run, wire, way)}
    passed = [scenario for scenario in counted if scenario not in failed]
    return Card(
        passed=len(passed),
        skipped=len(scored(wire)) - len(counted),
        expected=len(failed & set(counted)),
        not_applicable=sum(check["status"] == "SKIPPED" for scenario in passed for check in run.checks[scenario]),
    )


def version() -> str:
    return str(json.loads((_SUITE / "package.json").read_text(encoding="utf-8"))["version"])


def recorded() -> dict[str, Any]:
    record: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return record


def row(made: Card) -> dict[str, int]:
    return asdict(made)
