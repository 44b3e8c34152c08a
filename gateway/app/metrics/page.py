"""The page of metrics: the figures of all processes, in Prometheus's text format or in OpenMetrics."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    Exemplar,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from gateway import __version__
from gateway.app.database_file import sizes_of
from gateway.app.metrics import families as of
from gateway.app.metrics import figures
from gateway.app.metrics.figures import Family, Layout, MetricsPlace, Totals

_Bucket = tuple[str, float] | tuple[str, float, Exemplar]


class MetricsPage(Collector):
    """The figures in a directory, and those of the embedded brain in another, if there is one."""

    def __init__(self, place: MetricsPlace) -> None:
        self._directory, self._embedded = place
        self._layout = Layout(of.FAMILIES)
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def describe(self) -> list[Metric]:
        """Nothing, because we know already that no two metrics have the same name."""
        return []

    def render(self, accept: str) -> tuple[bytes, str]:
        """The page in the format that is asked for, and its media type."""
        if "application/openmetrics-text" in accept:
            body: bytes = openmetrics.generate_latest(self._registry)  # type: ignore[no-untyped-call]
            return body, openmetrics.CONTENT_TYPE_LATEST
        return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4

    def collect(self) -> Iterator[Metric]:
        totals = figures.read_all(self._directory, self._layout)
        for family in self._layout.families:
            yield _metric(family, totals)
        yield InfoMetricFamily("brains_build", of.AT_SCRAPE["brains_build_info"], {"version": __version__})
        yield _gauge("brains_processes", totals.alive)
        if self._embedded is not None:
            yield from _embedded(self._embedded)


def _metric(family: Family, totals: Totals) -> Metric:
    if family.kind == "histogram":
        return _histogram(family, totals)
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    made = kind(family.name, family.help, labels=family.labels)
    for labels, (value,), _ in totals.rows(family):
        made.add_metric(labels, value)
    return made


def _histogram(family: Family, totals: Totals) -> Metric:
    made = HistogramMetricFamily(family.name, family.help, labels=family.labels)
    for labels, (*counts, total), examples in totals.rows(family):
        made.add_metric(labels, _cumulative(family.buckets, counts, examples), total)
    return made


def _cumulative(
    ends: Sequence[float], counts: Sequence[float], examples: Sequence[figures.Exemplar | None]
) -> list[_Bucket]:
    so_far, made = 0.0, list[_Bucket]()
    for end, count, example in zip([*map(str, map(float, ends)), "+Inf"], counts, examples, strict=False):
        so_far += count
        if example is None:
            made.append((end, so_far))
        else:
            shown = Exemplar({"trace_id": example.trace_id}, example.value, example.timestamp)
            made.append((end, so_far, shown))
    return made


def _gauge(name: str, value: float) -> Metric:
    return GaugeMetricFamily(name, of.AT_SCRAPE[name], value=value)


def _embedded(data_dir: Path) -> Iterator[Metric]:
    for what, size in sizes_of(data_dir).items():
        yield _gauge(f"brains_embedded_{what}", size)
