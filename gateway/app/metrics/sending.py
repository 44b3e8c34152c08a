"""Sends the metrics that `/metrics` shows to collectors that receive OTLP and do not fetch."""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import structlog
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import export as sdk
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.core import Metric, Sample

from gateway import __version__
from gateway.app import otel
from gateway.app.metrics.figures import MetricsPlace
from gateway.app.metrics.page import MetricsPage

log = structlog.get_logger()

_INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"
_SECONDS: Final = 60.0
_LEAST_SECONDS: Final = 0.1
_MOST_SECONDS: Final = 24 * 60 * 60.0
_CLOSE_SECONDS: Final = 3.0
_SINCE_THE_START: Final = sdk.AggregationTemporality.CUMULATIVE
# The smallest and the largest value. The protocol does not need them, but the SDK's types do.
_NOT_KNOWN: Final[Any] = None


@contextmanager
def metrics_sent(place: MetricsPlace) -> Iterator[None]:
    """Send the figures of all processes every minute, or as often as the environment says, and once at the end."""
    if (trouble := otel.protocol_trouble("metrics")) is not None:
        log.warning("metrics.off", reason=trouble)
        yield
        return
    sender, stop, seconds = _Sender(place), threading.Event(), _interval()

    def send() -> None:
        try:
            sender.send()
        except OSError as error:
            # The figures of a process could not be read now. The next time they may be.
            log.warning("metrics.failed", reason=error.strerror)

    def send_on() -> None:
        while not stop.wait(seconds):
            send()
        send()

    thread = threading.Thread(target=send_on, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_CLOSE_SECONDS)


def _interval() -> float:
    try:
        return min(max(_LEAST_SECONDS, int(os.environ.get(_INTERVAL, "")) / 1000), _MOST_SECONDS)
    except ValueError:
        return _SECONDS


class _Sender:
    """Reads the metrics that the page at `/metrics` is made of, and sends them as OTLP."""

    def __init__(self, place: MetricsPlace) -> None:
        self._exporter, self._page = OTLPMetricExporter(), MetricsPage(place)
        self._resource, self._scope = otel.resource(), InstrumentationScope("brains-gateway", __version__)
        self._began = time.time_ns()

    def send(self) -> None:
        now = time.time_ns()
        metrics = [self._metric(metric, now) for metric in self._page.collect() if metric.samples]
        of_scope = sdk.ScopeMetrics(self._scope, metrics, "")
        self._exporter.export(sdk.MetricsData([sdk.ResourceMetrics(self._resource, [of_scope], "")]))

    def _metric(self, metric: Metric, now: int) -> sdk.Metric:
        """The metric for OTLP, under the name that `/metrics` gives it."""
        if metric.type == "histogram":
            made = sdk.Histogram(self._histograms(metric.samples, now), _SINCE_THE_START)
            return sdk.Metric(metric.name, metric.documentation, "", made)
        points = [sdk.NumberDataPoint(one.labels, self._began, now, one.value) for one in metric.samples]
        is_counter = metric.type == "counter"
        data = sdk.Sum(points, _SINCE_THE_START, is_monotonic=True) if is_counter else sdk.Gauge(points)
        return sdk.Metric(metric.samples[0].name, metric.documentation, "", data)

    def _histograms(self, samples: Sequence[Sample], now: int) -> list[sdk.HistogramDataPoint]:
        """One histogram for each combination of labels. A bucket of Prometheus also counts all smaller values, one of
        OTLP only its own."""
        rows: dict[tuple[tuple[str, str], ...], _Row] = defaultdict(_Row)
        for sample in samples:
            row = rows[tuple(pair for pair in sample.labels.items() if pair[0] != "le")]
            if sample.name.endswith("_bucket"):
                row.ends.append(float(sample.labels["le"]))
                row.up_to.append(int(sample.value))
            elif sample.name.endswith("_sum"):
                row.sum = sample.value
        return [
            sdk.HistogramDataPoint(
                *(dict(labels), self._began, now, row.up_to[-1], row.sum),
                bucket_counts=[count - before for before, count in pairwise([0, *row.up_to])],
                # The last bucket has no upper bound.
                explicit_bounds=row.ends[:-1],
                min=_NOT_KNOWN,
                max=_NOT_KNOWN,
            )
            for labels, row in rows.items()
        ]


@dataclass
class _Row:
    """A histogram while its samples are read."""

    ends: list[float] = field(default_factory=list)
    up_to: list[int] = field(default_factory=list)
    sum: float = 0
