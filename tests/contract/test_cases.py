"""Every case holds on the reference platform, over a real connection."""

from pathlib import Path

from contract import baseline, case
from contract.report import Report
from tests.contract.platform.serving import served
from tests.contract.targets import TOKEN, check, failures, reference_app
from tests.daemons.fake import FakeDaemon, T
from tests.tiers import nth

BASELINES = Path(__file__).parents[2] / "contract" / "baselines"


def test_the_change_stream_of_the_fake_daemon_is_as_the_cases_say() -> None:
    """As that of the published daemon is, by its baseline."""
    cases = [one for one in case.selected(case.load(), ["http/events"]) if one.dialect == "both"]
    with served(FakeDaemon(T, token=TOKEN).app()) as url:
        done = check(url, cases)
    assert (done.target.dialect, failures(done), len(done.results)) == ("daemon", {}, len(cases))


def test_every_case_holds_on_the_reference_platform() -> None:
    every = nth(case.load(), 3)
    with reference_app() as app, served(app) as url:
        done = check(url, every)
    assert failures(done) == {}
    assert done.target.dialect == "platform"
    assert done.target.left == []
    # A platform with a model is that of test_derive_cases.py.
    with_a_model = {one.id for one in every if one.needs == "model"}
    assert {result.case.id for result in done.results if result.outcome != "passed"} == with_a_model
    assert len(done.results) == len([one for one in every if one.dialect != "daemon"])
    expected = baseline.read(BASELINES / "platform.yaml")
    assert expected == {}
    assert Report(done, expected, {one.id for one in every}).holds
