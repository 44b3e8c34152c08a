"""Every case holds on the reference platform, over a real connection."""

from pathlib import Path

from contract import baseline, case
from contract.report import Report
from tests.contract.platform.serving import served
from tests.contract.targets import check, failures, reference_app

BASELINES = Path(__file__).parents[2] / "contract" / "baselines"


def test_every_case_holds_on_the_reference_platform() -> None:
    every = case.load()
    with reference_app() as app, served(app) as url:
        done = check(url, every)
    assert failures(done) == {}
    assert done.target.dialect == "platform"
    assert done.target.left == []
    assert {result.outcome for result in done.results} == {"passed"}
    assert len(done.results) == len([one for one in every if one.dialect != "daemon"])
    expected = baseline.read(BASELINES / "platform.yaml")
    assert expected == {}
    assert Report(done, expected, {one.id for one in every}).holds
