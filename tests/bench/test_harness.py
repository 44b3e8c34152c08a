"""The bench measures what it says: its client, its instant platform, its arithmetic, and how it shows failures."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import __main__ as command
from bench import canned, chart, contestants, report, wrk
from bench.before import Side, told
from bench.client import checked
from bench.corpus import CHUNKS_PER_DOCUMENT, WORDS_PER_CHUNK, Corpus
from bench.login import login
from bench.report import Ran
from bench.result import Group, Row, Section, Spread, Unmeasured, Verdict, percentile, ratios
from bench.sizes import QUICK, Sizes
from bench.streams import run, streamed
from bench.wire import LEGACY, MODERN, get, result


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


def test_the_chart_has_a_bar_for_every_figure_as_high_as_it_is() -> None:
    groups = [Group("1 client", "a wire", {"bare": 200, "gateway": 400}), Group("16 clients", "a wire", {"bare": 300})]
    drawn = ElementTree.fromstring(chart.svg(groups, "Calls & answers", "a machine"))
    titled = [(rect.findtext("{*}title"), rect.get("height", "")) for rect in drawn.findall(".//{*}rect")]
    bars = {title: float(height) for title, height in titled if title}
    assert list(bars) == [
        "bare, 1 client, a wire: 200 calls a second",
        "gateway, 1 client, a wire: 400 calls a second",
        "bare, 16 clients, a wire: 300 calls a second",
    ]
    low, high, middle = bars.values()
    assert low * 2 == pytest.approx(high)
    assert middle == pytest.approx((low + high) / 2)


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
