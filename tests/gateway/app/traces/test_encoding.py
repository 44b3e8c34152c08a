"""Spans are encoded as OpenTelemetry's own library encodes them."""

from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceState
from opentelemetry.trace.status import Status, StatusCode

from gateway.app.traces import encoding
from gateway.app.traces.attributes import FAILURE, REQUEST_ID
from gateway.app.traces.encoding import Envelope, beginning_of

TRACE, SPAN, ABOVE = 0xFEDCBA9876543210_0123456789ABCDEF, 0x8000000000000001, 0x00000000000000AB
BEGAN, ENDED = 1_790_000_000_123_456_789, 1_790_000_000_987_654_321
RESOURCE = Resource({"service.name": "x" * 300, "service.version": "1"})
SCOPE = InstrumentationScope("brains-gateway", "1.2.3")


def by_library(state: TraceState | None = None, **what: Any) -> ReadableSpan:
    context = SpanContext(TRACE, SPAN, is_remote=False, trace_state=state)
    return ReadableSpan(
        "a span", context, resource=RESOURCE, instrumentation_scope=SCOPE, start_time=BEGAN, end_time=ENDED, **what
    )


def sorted_request(request: Any) -> Any:
    """The order of attributes means nothing."""
    for span in request.resource_spans[0].scope_spans[0].spans:
        attributes = sorted(span.attributes, key=lambda pair: str(pair.key))
        del span.attributes[:]
        span.attributes.extend(attributes)
    return request


def ours(*rest: bytes, parent: int = ABOVE, count: int = 1) -> Any:
    above = parent.to_bytes(8, "big") if parent else b""
    beginning = beginning_of(TRACE.to_bytes(16, "big"), SPAN.to_bytes(8, "big"), above, BEGAN, ENDED)
    request = Envelope(RESOURCE, SCOPE).around([(beginning, *rest)] * count)
    return sorted_request(ExportTraceServiceRequest.FromString(request))


@pytest.mark.parametrize("attributes", [{}, {"a": "b", "n": 200}, {FAILURE: "timeout"}, {"long": "ü" * 20_000}])
@pytest.mark.parametrize("is_below_client", [True, False])
def test_a_span_is_what_the_library_makes_of_it(attributes: dict[str, str | int], is_below_client: bool) -> None:
    status = Status(StatusCode.ERROR if FAILURE in attributes else StatusCode.UNSET)
    parent = SpanContext(TRACE, ABOVE, is_remote=is_below_client)
    expected = by_library(parent=parent, kind=SpanKind.SERVER, attributes=attributes, status=status)
    rest = encoding.rest_of("a span", SpanKind.SERVER, attributes, is_below_client=is_below_client)
    assert ours(rest) == sorted_request(encode_spans([expected]))


@pytest.mark.parametrize("length", [0, 1, 16, 100, 110, 111, 126, 127, 128, 5000])
def test_the_id_of_a_request_is_an_attribute_like_others(length: int) -> None:
    expected = by_library(attributes={"a": "b", REQUEST_ID: "é" * length})
    rest = encoding.rest_of("a span", SpanKind.INTERNAL, {"a": "b"})
    assert ours(rest, encoding.request_id("é" * length), parent=0) == sorted_request(encode_spans([expected]))


def test_what_few_spans_have_is_added_to_them() -> None:
    expected = by_library(events=[Event("first piece", timestamp=BEGAN + 1)], state=TraceState([("vendor", "1")]))
    rest = encoding.rest_of("a span", SpanKind.INTERNAL, {})
    made = ours(rest, encoding.event("first piece", BEGAN + 1), encoding.trace_state("vendor=1"), parent=0)
    assert made == encode_spans([expected])


def test_many_spans_are_one_request() -> None:
    made = ours(encoding.rest_of("a span", SpanKind.INTERNAL, {"a": "b"}), parent=0, count=513)
    assert made == encode_spans([by_library(attributes={"a": "b"})] * 513)
