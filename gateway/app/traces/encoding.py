"""Writes spans in OTLP's protobuf, quickly: most of a span is the same in many, and was encoded by OpenTelemetry once.

A message of protobuf may be written in parts, one after the other, with its fields in any order. So only the ids, the
times and the id of the request are written here, and are put before what is known already.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind
from opentelemetry.trace.status import Status, StatusCode

from gateway.app.traces.attributes import FAILURE, REQUEST_ID, Attributes

# trace_id, span_id, start_time_unix_nano, end_time_unix_nano, each behind its number and type (and length). Below
# another span also parent_span_id.
_TOP: Final = struct.Struct("<2s16s2s8scQcQ")
_BELOW: Final = struct.Struct("<2s16s2s8scQcQ2s8s")
_TRACE_ID, _SPAN_ID, _PARENT_ID, _STARTED, _ENDED = b"\x0a\x10", b"\x12\x08", b"\x22\x08", b"\x39", b"\x41"
# The numbers of fields.
_SPANS, _SCOPE_SPANS, _RESOURCE_SPANS = 2, 2, 1
_ATTRIBUTES, _KEY, _VALUE, _STRING = 9, 1, 2, 1
# Of one span. They stand one behind the other.
Parts = tuple[bytes, ...]
_SOME: Final = SpanContext(1, 1, is_remote=False)
_SOME_REMOTE: Final = SpanContext(1, 1, is_remote=True)


def beginning_of(trace: bytes, span: bytes, parent: bytes, started: int, ended: int) -> bytes:
    """The first part of a span. `parent` is b"" at the top of a trace."""
    if parent:
        return _BELOW.pack(_TRACE_ID, trace, _SPAN_ID, span, _STARTED, started, _ENDED, ended, _PARENT_ID, parent)
    return _TOP.pack(_TRACE_ID, trace, _SPAN_ID, span, _STARTED, started, _ENDED, ended)


def rest_of(name: str, kind: SpanKind, attributes: Attributes, *, is_below_client: bool = False) -> bytes:
    """What is the same in many spans."""
    status = Status(StatusCode.ERROR if FAILURE in attributes else StatusCode.UNSET)
    parent = _SOME_REMOTE if is_below_client else _SOME
    span = _encoded(ReadableSpan(name, _SOME, parent, attributes=attributes, kind=kind, status=status))
    for variable in ("trace_id", "span_id", "parent_span_id"):
        span.ClearField(variable)
    return _bytes_of(span)


def request_id(value: str) -> bytes:
    """A part of a span: the attribute that is another one in each."""
    said = value.encode("utf-8", "replace")
    return _before_request_id(len(said)) + said


@lru_cache
def _before_request_id(length: int) -> bytes:
    text = _head(_STRING, length)
    value = _head(_VALUE, len(text) + length) + text
    pair = _field(_KEY, REQUEST_ID.encode()) + value
    return _head(_ATTRIBUTES, len(pair) + length) + pair


def trace_state(value: str) -> bytes:
    return _bytes_of(Span(trace_state=value))


def event(name: str, at: int) -> bytes:
    only = _encoded(ReadableSpan("", _SOME, events=[Event(name, timestamp=at)]))
    return _bytes_of(Span(events=only.events))


class Envelope:
    """What is around the spans of one request to a collector: who sends them."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        some = ReadableSpan("", _SOME, resource=resource, instrumentation_scope=scope)
        (of_resource,) = encode_spans([some]).resource_spans
        (of_scope,) = of_resource.scope_spans
        of_scope.ClearField("spans")
        self._scope = _bytes_of(of_scope)
        of_resource.ClearField("scope_spans")
        self._resource = _bytes_of(of_resource)

    def around(self, spans: Iterable[Parts]) -> bytes:
        of_scope = self._scope + b"".join([_field(_SPANS, b"".join(span)) for span in spans])
        return _field(_RESOURCE_SPANS, self._resource + _field(_SCOPE_SPANS, of_scope))


def _encoded(span: ReadableSpan) -> Any:
    return encode_spans([span]).resource_spans[0].scope_spans[0].spans[0]


def _bytes_of(message: Any) -> bytes:
    encoded: bytes = message.SerializeToString()
    return encoded


def _field(number: int, body: bytes) -> bytes:
    """A field with a length."""
    return _head(number, len(body)) + body


@lru_cache(maxsize=8192)
def _head(number: int, length: int) -> bytes:
    """The number of a field, its type, and its length: seven bits in each byte, the lowest first."""
    head = bytearray([number << 3 | 2])
    while length > 127:
        head.append(length & 127 | 128)
        length >>= 7
    head.append(length)
    return bytes(head)
