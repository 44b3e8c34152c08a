"""The card, the forms for machines, baselines and exit codes."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as xml

import httpx
import pytest

from contract import baseline, command
from contract.baseline import BadBaseline
from contract.machines import as_json, as_junit
from contract.outcome import Failure, Result, Run
from contract.report import Report
from contract.targets import HttpTarget
from gateway.cli.main import main as gateway_main
from tests.broken.wrapping import problem, refuses, wrapped
from tests.contract.platform.serving import served
from tests.contract.targets import TOKEN, case_of, reference_app

STEPS = "[{request: {method: GET, path: /healthz}, expect: {status: 200}}]"
FAILURE = Failure("GET /healthz", "the status should be 200, not 500", "500 text/plain \x1b oh & <no>")


def result(name: str, outcome: str, requirement: str = "must", area: str = "service") -> Result:
    one = case_of(STEPS, id=f"http/{area}/{name}", requirement=requirement, area=area)
    match outcome:
        case "passed":
            return Result(one, "passed")
        case "failed":
            return Result(one, "failed", FAILURE)
    return Result(one, "not supported", why="there is no route")


def run_of(*results: Result) -> Run[HttpTarget]:
    return Run(
        HttpTarget("http://platform.test", httpx.AsyncClient()), list(results), left_out={"of the daemon dialect": 3}
    )


def report_of(*results: Result, expected: tuple[str, ...] = ()) -> Report:
    known = {one.case.id for one in results} | {"http/service/elsewhere"}
    return Report(run_of(*results), dict.fromkeys(expected, "a reason"), known)


def test_the_card_counts_by_area() -> None:
    text = report_of(
        result("a", "passed"), result("b", "failed"), result("c", "not supported"), result("d", "passed", area="ask")
    ).text()
    assert "request   GET /healthz\n  expected  the status should be 200, not 500\n  seen      500 text/plain" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["service", "1", "1", "0", "1"] in lines
    assert ["ask", "1", "0", "0", "0"] in lines
    assert ["all", "2", "1", "0", "1"] in lines
    assert "3 cases do not apply to it: 3 of the daemon dialect." in text
    assert text.endswith("The contract is not kept. Findings: 1 must.\n")


def test_only_musts_decide() -> None:
    assert report_of(result("a", "passed")).holds
    assert report_of(result("a", "failed", "should")).holds
    assert report_of(result("a", "not supported")).holds
    assert not report_of(result("a", "failed")).holds


def test_an_expected_failure_is_no_failure_and_a_stale_entry_is_one() -> None:
    assert report_of(result("a", "failed"), expected=("http/service/a",)).holds
    stale = report_of(result("a", "passed"), expected=("http/service/a",))
    assert not stale.holds
    assert stale.stale == ["http/service/a"]
    assert "STALE  http/service/a" in stale.text()
    assert report_of(result("a", "passed"), expected=("http/no/such/case",)).stale == ["http/no/such/case"]


def test_an_entry_of_a_case_that_was_not_run_is_not_stale() -> None:
    assert report_of(result("a", "passed"), expected=("http/service/elsewhere",)).holds


def test_json_tells_all() -> None:
    told = json.loads(as_json(report_of(result("a", "failed"), result("b", "passed"))))
    assert told["holds"] is False
    assert told["counts"] == {"passed": 1, "failed": 1, "not tested": 0, "not supported": 0}
    assert told["cases"][0]["request"] == "GET /healthz"
    assert told["cases"][0]["expected_failure"] is False


def test_junit_can_be_read_whatever_was_seen() -> None:
    text = as_junit(
        report_of(
            result("a", "failed"), result("b", "failed", "should"), result("c", "passed"), expected=("http/gone",)
        )
    )
    root = xml.fromstring(text)
    suite = root.find("testsuite[@name='service']")
    assert suite is not None
    counts = {"name": "service", "tests": "3", "failures": "1", "errors": "0", "skipped": "1"}
    assert suite.attrib == {**counts, "time": "0.000"}
    assert [one.get("name") for one in root.findall("testsuite[@name='baseline']/testcase")] == ["http/gone"]


def test_what_is_recorded_is_the_baseline_that_holds(tmp_path: Path) -> None:
    done = run_of(result("a", "failed"), result("b", "passed"))
    path = tmp_path / "baseline.yaml"
    path.write_text(baseline.written(done.target.told, done.results), encoding="utf-8")
    assert baseline.read(path) == {"http/service/a": FAILURE.expected}
    assert Report(done, baseline.read(path), {"http/service/a", "http/service/b"}).holds


@pytest.mark.parametrize("text", ["", "[]", "failures: [a]", "failures: {a: 1}", "failures: ["])
def test_a_bad_baseline_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "baseline.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadBaseline) as told:
        baseline.read(path)
    assert "\n" not in str(told.value)


@pytest.mark.slow
def test_the_command_checks_and_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    junit, recorded = tmp_path / "junit.xml", tmp_path / "baseline.yaml"
    with reference_app() as app, served(app) as url:
        target = ["--http", f"{url}/v1/", "--token", TOKEN, "--only", "http/service"]
        assert command.main(["check", *target, "--junit", str(junit)]) == 0
        told = capsys.readouterr()
        assert told.out.endswith("All musts hold.\n")
        assert "14 of 14 cases" in told.err
        assert xml.fromstring(junit.read_text(encoding="utf-8")).tag == "testsuites"
        assert command.main(["record", *target, "--output", str(recorded)]) == 0
        assert baseline.read(recorded) == {}
        # What fails can be written down, until it is repaired.
        broken = wrapped(app, refuses("GET {b}/search", lambda _asked: True, problem(500, "internal_error")))
        some = ["--token", TOKEN, "--only", "http/search"]
        with served(broken) as other:
            assert command.main(["check", "--http", other, *some]) == 1
            assert command.main(["record", "--http", other, *some, "--output", str(recorded)]) == 0
            assert command.main(["check", "--http", other, *some, "--baseline", str(recorded)]) == 0
            assert re.search(r"All musts hold, but for \d+ of the baseline\.\n$", capsys.readouterr().out)
        with pytest.raises(SystemExit) as left:
            gateway_main(["contract", "check", "--http", url, *some, "--baseline", str(recorded)])
        assert left.value.code == 1
    told = capsys.readouterr()
    assert "stale entries of the baseline" in told.out
    assert TOKEN not in told.out + told.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--http", "platform.test"], "--http should be an http or https URL, not 'platform.test'"),
        (["--http", "http://127.0.0.1:9", "--only", "http/nothing"], "no case for platforms matches http/nothing"),
        (["--http", "http://127.0.0.1:9", "--baseline", "no-such-file"], "no-such-file cannot be read: No such file"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["check", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"contract: {sentence}")
