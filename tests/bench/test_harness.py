"""The bench measures what it says: its client, its instant platform, its arithmetic, and how it shows failures."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import __main__ as command
from bench import calls, canned, chart, contestants, report, wrk
from bench.before import Side, told
from bench.client import checked
from bench.corpus import CHUNKS_PER_DOCUMENT, WORDS_PER_CHUNK, Corpus
from bench.login import login
from bench.race import Figures, Key
from bench.report import Ran
from bench.result import Group, Row, Section, Spread, Unmeasured, Verdict, percentile, ratios
from bench.sizes import QUICK, Sizes
from bench.streams import run, streamed
from bench.wire import LEGACY, MODERN, WIRES, Wire, get, result
from bench.wrk import Slice


def test_a_ratio_is_taken_round_by_round() -> None:
    assert ratios([100, 90, 50], [200, 100, 100]) == Spread(0.5, 0.5, 0.9)


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(n) for n in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.95), percentile([7.0], 0.95)) == (51.0, 96.0, 7.0)


def test_a_result_is_found_in_json_and_in_an_event_stream() -> None:
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"content": []}})
    progress = json.dumps({"jsonrpc": "2.0", "method": "notifications/progress"})
    stream = f"event: message\r\ndata: {progress}\r\n\r\nevent: message\r\ndata: {message}\r\n\r\n"

    assert result(message.encode()) == result(stream.encode()) == {"content": []}


def test_an_error_is_no_result() -> None:
    with pytest.raises(ValueError, match="error"):
        result(b'{"jsonrpc": "2.0", "id": 1, "result": {"isError": true}}')


def test_only_the_modern_wire_names_its_method_in_the_headers() -> None:
    modern, legacy = (contestants.SEARCH.headers(wire) for wire in (MODERN, LEGACY))
    assert modern.keys() - legacy.keys() == {"mcp-method", "mcp-name"}


def test_the_instant_platform_answers_and_counts(tmp_path: Path) -> None:
    with contestants.platform(tmp_path) as platform:
        contestants.check_platform(platform)

        assert contestants.counts(platform) == {"search": 1, "ask": 0, "list": 0, "other": 0}
        with pytest.raises(Unmeasured, match="404"):
            run(checked(platform.port, get("/v1/nothing")))


@pytest.mark.slow
def test_the_gateway_is_called_on_both_wires_and_streams(tmp_path: Path) -> None:
    with contestants.platform(tmp_path) as platform, contestants.gateway(platform, tmp_path) as gateway:
        for wire in (MODERN, LEGACY):
            contestants.check(gateway, contestants.SEARCH, wire)
            stream = run(streamed(gateway.port, contestants.ask(5), wire))

            assert stream.notifications == 5
            assert stream.first_delay_ms > 0


@pytest.mark.slow
def test_a_contestant_that_does_not_start_is_a_failure_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(Unmeasured, match="invalid choice"), contestants.bare("no-such-kind", tmp_path):
        raise AssertionError("it started")


def test_documents_of_the_corpus_are_chunks_of_150_words_below_a_heading() -> None:
    (_, text), *_ = Corpus(CHUNKS_PER_DOCUMENT).documents()
    heading, *paragraphs = text.split("\n\n")

    assert heading.startswith("# ")
    assert [len(paragraph.split()) for paragraph in paragraphs] == [WORDS_PER_CHUNK] * CHUNKS_PER_DOCUMENT


def test_queries_of_every_kind_are_of_the_number_asked_for() -> None:
    assert {kind: len(queries) for kind, queries in Corpus(10).queries(12).items()} == {
        "one rare word": 12,
        "two or three words": 12,
        "a whole question": 12,
    }


def test_a_missing_wrk_is_said_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Unmeasured, match="apt-get install wrk"):
        wrk.require_wrk()


def test_a_section_that_fails_is_shown_as_failed_and_not_as_a_figure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_sizes: Sizes, _workdir: Path) -> Section:
        raise Unmeasured("It fell over.")

    monkeypatch.setitem(command.SECTIONS, "calls", fails)
    assert command.main(["--only", "calls"]) == 0
    assert "| calls | failed |  |  | not measured | It fell over. |" in capsys.readouterr().out


def test_an_unknown_section_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--only", "everything"])
    assert "'everything' is none of calls" in capsys.readouterr().err


def test_the_page_says_who_disturbed_the_run() -> None:
    row = Row("a", "1", "", "2", Verdict.MET)
    quiet, disturbed = (Ran("calls", Section("Calls", [row]), 1.0, foreign) for foreign in (0.01, 0.3))

    assert "Nothing else ran" in report.page([], [quiet])
    assert "calls 30%" in report.page([], [disturbed])


def test_the_chart_has_a_bar_for_every_figure_as_long_as_it_is() -> None:
    groups = [Group("1 client", {"bare": 200, "gateway": 400}), Group("16 clients", {"bare": 300})]
    drawn = ElementTree.fromstring(chart.svg(groups, "Calls & answers", "a machine"))
    bars = {rect.findtext("{*}title"): float(rect.get("width", "")) for rect in drawn.findall(".//{*}rect")}
    assert list(bars) == [
        "bare, 1 client: 200 calls a second",
        "gateway, 1 client: 400 calls a second",
        "bare, 16 clients: 300 calls a second",
    ]
    low, high, middle = bars.values()
    assert low * 2 == pytest.approx(high)
    assert middle == pytest.approx((low + high) / 2)


def slices(per_second: float, cpu_ms: float, p99_ms: float, rounds: int = 3) -> list[Slice]:
    return [Slice(100, per_second, p99_ms / 2, p99_ms, cpu_ms, 0.1)] * rounds


@pytest.mark.parametrize(
    ("wire", "rate", "expected"),
    [(MODERN, 500.0, Verdict.MET), (MODERN, 499.0, Verdict.NOT_MET), (LEGACY, 749.0, Verdict.NOT_MET)],
)
def test_a_rate_must_reach_its_budget(wire: Wire, rate: float, expected: Verdict) -> None:
    gateway, sdk = Key(calls.GATEWAY, wire, 16), Key(calls.LOW_LEVEL, wire, 16)
    figures = Figures({gateway: slices(rate, 2, 50), sdk: slices(500, 1, 40)})
    row = calls.row(figures, calls.BUDGETS[0], wire)
    assert (row.verdict, row.measured) == (expected, f"{rate:.0f} calls/s")
    assert ("low-level SDK, echo: 500 calls/s" in row.remark) is (expected is Verdict.NOT_MET)


@pytest.mark.parametrize(("cpu", "expected"), [(2.5, Verdict.MET), (2.6, Verdict.NOT_MET)])
def test_cpu_must_stay_within_its_budget(cpu: float, expected: Verdict) -> None:
    gateway, floor = Key(calls.GATEWAY, MODERN, 16), Key(calls.FLOOR, MODERN, 16)
    figures = Figures({gateway: slices(400, cpu, 50), floor: slices(1000, 1, 9)})
    row = calls.row(figures, calls.BUDGETS[1], MODERN)
    assert (row.verdict, row.budget) == (expected, "≤ 2.5 × floor")


def test_a_budget_whose_reference_failed_is_not_measured() -> None:
    figures = Figures({Key(calls.GATEWAY, MODERN, 16): slices(400, 2, 50)})
    assert calls.row(figures, calls.BUDGETS[0], MODERN).verdict is Verdict.NOT_MEASURED
    figures.failures[Key(calls.LOW_LEVEL, MODERN, 16)] = "It fell over."
    assert calls.row(figures, calls.BUDGETS[0], MODERN).remark == "It fell over."


def test_contestants_stand_side_by_side_and_who_did_not_answer_is_shown_as_such() -> None:
    figures = Figures(
        {Key(calls.GATEWAY, MODERN, 1): slices(1321, 0.71, 7), Key(calls.PROXY, LEGACY, 1): slices(19, 47.2, 1065)},
        {Key(calls.PROXY, MODERN, 16): "no answer of 0 answers.", Key(calls.FLOOR, MODERN, 64): "It fell over."},
    )
    told = calls.side_by_side(figures).splitlines()
    assert told[0].startswith("| Who | 2026-07-28: 1 | 2026-07-28: 16 | 2026-07-28: 64 | 2025-11-25: 1 |")
    assert "| gateway | 1,321 (0.71; 7.00) | – | – | – | – | – |" in told
    assert "| proxy, echo | – | no answer | – | 19 (47.2; 1,065) | – | – |" in told
    assert "| floor | – | – | failed | – | – | – |" in told


@pytest.mark.slow
def test_the_floor_answers_as_the_gateway_does(tmp_path: Path) -> None:
    with (
        contestants.platform(tmp_path) as platform,
        contestants.gateway(platform, tmp_path) as gateway,
        contestants.floor(platform, tmp_path) as floor,
    ):
        for wire in WIRES:
            request = contestants.SEARCH.request(wire)
            theirs, ours = (result(run(checked(one.port, request))) for one in (floor, gateway))
            assert theirs | {"_meta": None} == ours | {"_meta": None}


@pytest.mark.slow
def test_what_people_would_write_instead_answers_on_both_wires(tmp_path: Path) -> None:
    with contestants.platform(tmp_path) as platform, contestants.bare("echo", tmp_path) as echo:
        for kind, behind, call in (
            ("ten-lines", platform, contestants.SEARCH),
            ("openapi", platform, contestants.OPERATION),
            ("proxy", echo, contestants.ECHO),
        ):
            with contestants.peer(kind, behind, tmp_path) as peer:
                for wire in WIRES:
                    contestants.check(peer, call, wire)
        assert contestants.counts(platform)["search"] == 4


@pytest.mark.slow
def test_callers_with_a_token_are_let_in_and_others_are_not(tmp_path: Path) -> None:
    with (
        login(tmp_path) as caller,
        contestants.platform(tmp_path) as platform,
        contestants.gateway(platform, tmp_path, login=caller) as gateway,
        contestants.bare("guarded", tmp_path, login=caller) as bare,
    ):
        for contestant, call in ((gateway, contestants.SEARCH), (bare, contestants.ECHO)):
            contestants.check(contestant, replace(call, token=caller.token), MODERN)
            with pytest.raises(Unmeasured, match="401"):
                contestants.check(contestant, call, MODERN)


def test_the_canned_search_has_ten_hits_of_the_size_of_a_chunk() -> None:
    hits = canned.search_result()["hits"]
    assert [len(hit["content"].split()) for hit in hits] == [150] * 10
    assert QUICK.chunks == 100_000


def test_a_profile_says_what_each_package_took_before_and_after() -> None:
    before = Side(Path(), Counter({"send (httpx/_client.py:9)": 3, "run (mcp/server/runner.py:2)": 1}), [4.0, 9.0, 3.0])
    after = Side(Path(), Counter({"run (mcp/server/runner.py:2)": 1, "run (mcp/server/runner.py:5)": 1}), [1.0])
    page = told("`memory_search`", "one call", before, after)
    assert "| httpx | 3,000 | 0 |" in page
    assert "| mcp | 1,000 | 1,000 |" in page
    assert "| **all** | 4,000 | 1,000 |" in page
    assert "| `run (mcp/server/runner.py)` | 1000 |" in page
