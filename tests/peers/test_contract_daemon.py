"""The contract against the published daemon: what fails is what its baseline says, and nothing else."""

import json
from pathlib import Path

import pytest

from contract.command import main
from tests.daemons.real import running_daemon

BASELINE = Path(__file__).parents[2] / "contract" / "baselines" / "daemon.yaml"


def test_the_baseline_of_the_published_daemon_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running_daemon(tmp_path, token="a-test-token") as url:
        options = ["--http", url, "--token", "a-test-token", "--json", "--baseline", str(BASELINE)]
        code = main(["check", *options])
    told = json.loads(capsys.readouterr().out)
    unexpected = {one["id"]: one["seen"] for one in told["cases"] if one["outcome"] == "failed"}
    assert {name: seen for name, seen in unexpected.items() if name not in BASELINE.read_text("utf-8")} == {}
    assert told["stale"] == []
    assert told["dialect"] == "daemon"
    assert told["brains_left"] == []
    assert code == 0
