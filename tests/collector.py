"""A collector of traces and metrics, which takes OTLP over HTTP and reads it."""

import gzip
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.types import Receive, Scope, Send

from tests.served import listening


@dataclass(frozen=True)
class Span:
    """One span, as it came."""

    name: str
    kind: int
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    failed: bool
    events: tuple[str, ...]


@dataclass(frozen=True)
class Point:
    """A figure as it was sent. The value of a histogram is how many values it counted."""

    kind: str
    value: float
    sum: float = 0
    buckets: tuple[int, ...] = ()
    bounds: tuple[float, ...] = ()


class Collector:
    """Keeps every span, and the last value of each metric."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.metrics: dict[tuple[str, frozenset[tuple[str, str]]], Point] = {}
        self._of_metrics = threading.Semaphore(0)
        self.resources: list[dict[str, Any]] = []
        self.raw = b""
        self.headers: list[dict[bytes, bytes]] = []
        """Those of each request with spans."""
        self.batches: list[int] = []
        """How many spans came together."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while (told := (await receive())["type"]) != "lifespan.shutdown":
                await send({"type": f"{told}.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        assert scope["method"] == "POST"
        read = {"/v1/traces": self._read, "/v1/metrics": self._read_metrics}[scope["path"]]
        if scope["path"] == "/v1/traces":
            self.headers.append(dict(scope["headers"]))
        packed = dict(scope["headers"]).get(b"content-encoding") == b"gzip"
        read(gzip.decompress(body) if packed else body)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def _read(self, body: bytes) -> None:
        self.raw += body
        before = len(self.spans)
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(_plain(of_resource.resource.attributes))
            self.spans += [
                Span(
                    span.name,
                    span.kind,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    _plain(span.attributes),
                    span.status.code == 2,
                    tuple(event.name for event in span.events),
                )
                for of_scope in of_resource.scope_spans
                for span in of_scope.spans
            ]
        self.batches.append(len(self.spans) - before)

    def wait_for_metrics(self, times: int) -> None:
        """Wait until metrics have come this many times."""
        for _ in range(times):
            assert self._of_metrics.acquire(timeout=60), "no metrics came"

    def _read_metrics(self, body: bytes) -> None:
        self.raw += body
        for of_resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            self.resources.append(_plain(of_resource.resource.attributes))
            for metric in (metric for of_scope in of_resource.scope_metrics for metric in of_scope.metrics):
                kind = metric.WhichOneof("data")
                for point in getattr(metric, kind).data_points:
                    self.metrics[metric.name, frozenset(_plain(point.attributes).items())] = _point(kind, point)
        self._of_metrics.release()


def _point(kind: str, point: Any) -> Point:
    if kind != "histogram":
        return Point(kind, getattr(point, point.WhichOneof("value")))
    return Point(kind, point.count, point.sum, tuple(point.bucket_counts), tuple(point.explicit_bounds))


def _plain(attributes: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in attributes}


@contextmanager
def collecting(**variables: str) -> Iterator[Collector]:
    """While the standard variables name this collector, and these besides. Spans are there once a gateway has ended."""
    collector = Collector()
    with listening(collector) as url:
        named = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, **variables}
        with mock.patch.dict(os.environ, named):
            yield collector
