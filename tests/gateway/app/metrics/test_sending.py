"""Metrics by OTLP: a collector gets what `/metrics` shows, and only the standard variables turn this on."""

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from gateway.app.http_app import wants_metrics
from gateway.app.metrics import families as of
from gateway.app.metrics.figures import MetricsPlace
from gateway.app.metrics.page import MetricsPage
from gateway.app.metrics.recorder import Recorder
from gateway.app.metrics.sending import metrics_sent
from gateway.cli.serve import _sent
from gateway.config.settings import load
from gateway.operations.caller import Call
from gateway.operations.table import Op
from tests.collector import Collector, Point, collecting
from tests.gateway.test_processes import process
from tests.served import raw_call

pytestmark = pytest.mark.not_quick


@pytest.fixture
def place(tmp_path: Path) -> Iterator[MetricsPlace]:
    made = MetricsPlace.new(tmp_path)
    yield made
    made.remove()


def counted(place: MetricsPlace) -> None:
    """Count as a process does that has ended since."""
    recorder = Recorder(place.directory)
    tool = recorder.tool("memory", "memory_search")
    for outcome, seconds in (("ok", 0.001), ("ok", 0.02), ("no_brain", 3.0), ("ok", 1000.0)):
        tool.begin()
        tool.end(None, Call(), outcome, seconds)
    recorder.requested(Op.SEARCH, "2xx", 0.5, 10, 2000, None)
    recorder.close()


def shown(place: MetricsPlace) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The samples that `/metrics` shows, by name and labels."""
    page = MetricsPage(place).render("text/plain")[0].decode()
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    return {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}


def as_shown(sent: dict[tuple[str, frozenset[tuple[str, str]]], Point]) -> dict[object, float]:
    """The points that were sent, in the form in which `/metrics` shows them."""
    said: dict[object, float] = {}
    for (name, labels), point in sent.items():
        if point.kind != "histogram":
            said[name, labels] = point.value
            continue
        said[f"{name}_count", labels], said[f"{name}_sum", labels] = point.value, point.sum
        for n, end in enumerate([*map(str, point.bounds), "+Inf"]):
            said[f"{name}_bucket", labels | {("le", end)}] = sum(point.buckets[: n + 1])
    return said


def test_a_collector_is_sent_what_metrics_shows(place: MetricsPlace) -> None:
    counted(place)
    with collecting() as collector, metrics_sent(place):
        pass
    assert as_shown(collector.metrics) == shown(place)
    called = frozenset({("surface", "memory"), ("tool", "memory_search")})
    assert collector.metrics[f"{of.CALLS}_total", called | {("outcome", "ok")}] == Point("sum", 3)
    seconds = collector.metrics[of.CALL_SECONDS, called]
    assert (seconds.value, seconds.sum, seconds.buckets[-1]) == (4, 1003.021, 1)
    assert collector.metrics["brains_processes", frozenset()].kind == "gauge"
    assert collector.resources[0]["service.name"] == "brains-gateway"


def test_they_are_sent_again_and_again(place: MetricsPlace) -> None:
    with collecting(OTEL_METRIC_EXPORT_INTERVAL="100") as collector, metrics_sent(place):
        collector.wait_for_metrics(times=3)


def test_figures_that_cannot_be_read_once_are_sent_the_next_time(
    place: MetricsPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubles = iter([OSError(errno.ENOSPC, "No space left on device")])
    collect = MetricsPage.collect

    def collect_or_fail(page: MetricsPage) -> Any:
        if (trouble := next(troubles, None)) is not None:
            raise trouble
        return collect(page)

    monkeypatch.setattr(MetricsPage, "collect", collect_or_fail)
    with capture_logs() as lines, collecting(OTEL_METRIC_EXPORT_INTERVAL="100") as collector, metrics_sent(place):
        collector.wait_for_metrics(times=1)
    assert [(line["event"], line["reason"]) for line in lines] == [("metrics.failed", "No space left on device")]


@pytest.mark.parametrize("said", ["inf", "soon", "100000000000000000000"])
def test_an_interval_that_makes_no_sense_does_not_end_the_metrics(place: MetricsPlace, said: str) -> None:
    counted(place)
    with collecting(OTEL_METRIC_EXPORT_INTERVAL=said) as collector, metrics_sent(place):
        pass
    assert as_shown(collector.metrics) == shown(place)


@pytest.mark.parametrize(
    ("variables", "are_sent"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:9"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9"}, False),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_METRICS_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_standard_variables_say_whether(variables: dict[str, str], are_sent: bool) -> None:
    with mock.patch.dict(os.environ, variables):
        assert wants_metrics(load()) == are_sent


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http/protobuf alone"),
        ({}, "pip install 'brains-gateway[otel]'"),
    ],
)
def test_metrics_that_cannot_be_sent_are_told(place: MetricsPlace, variables: dict[str, str], said: str) -> None:
    missing = {} if variables else {"gateway.app.metrics.sending": None}
    with (
        collecting(**variables) as collector,
        mock.patch.dict(sys.modules, missing),
        capture_logs() as lines,
        _sent(place),
    ):
        pass
    (line,) = lines
    assert line["event"] == "metrics.off"
    assert said in line["reason"]
    assert collector.metrics == {}


@pytest.mark.slow
def test_of_two_workers_a_collector_is_sent_all_that_was_counted(tmp_path: Path) -> None:
    with collecting(OTEL_METRIC_EXPORT_INTERVAL="600000") as collector:
        with process(tmp_path, "--workers", "2") as served:
            for _ in range(20):
                # Each call has a connection of its own, so that both workers get some.
                call = raw_call("modern", "memory_list_brains", {})
                assert httpx.post(served.url, **call, trust_env=False).status_code == 200
        assert said(collector, f"{of.CALLS}_total", tool="memory_list_brains", outcome="ok") == 20


def said(collector: Collector, name: str, **labels: str) -> float:
    found = [
        point.value for (known, has), point in collector.metrics.items() if known == name and labels.items() <= has
    ]
    assert found, f"no {name} with {labels}"
    return sum(found)
