"""What a client says of its trace is read as OpenTelemetry's library reads it."""

import pytest
from opentelemetry.trace import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway.app.traces.context import Above, parse

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PLAIN = f"00-{TRACE}-{SPAN}-01"


def by_library(traceparent: str, tracestate: str | None) -> Above | None:
    carrier = {"traceparent": traceparent, **({} if tracestate is None else {"tracestate": tracestate})}
    known = get_current_span(TraceContextTextMapPropagator().extract(carrier)).get_span_context()
    if not known.is_valid:
        return None
    ids = known.trace_id.to_bytes(16, "big"), known.span_id.to_bytes(8, "big")
    return Above(*ids, known.trace_flags & 3, known.trace_state.to_header())


@pytest.mark.parametrize(
    "traceparent",
    [
        PLAIN,
        f" \t{PLAIN} ",
        f"00-{TRACE}-{SPAN}-00",
        f"00-{TRACE}-{SPAN}-ff",
        f"01-{TRACE}-{SPAN}-03-more",
        f"01-{TRACE}-{SPAN}-03",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01-",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}{SPAN}-01",
        f"{PLAIN}\r\nx: y",
        "",
        "-",
        f"01-{TRACE}-{SPAN}-01-" + "x" * 600,
    ],
)
def test_a_traceparent_is_read_as_by_the_library(traceparent: str) -> None:
    assert parse(traceparent) == by_library(traceparent, None)


@pytest.mark.parametrize(
    "tracestate",
    [
        "",
        "a=1",
        "a=1, b=2",
        "a=1,a=2",
        " a=1 ",
        "a",
        "a=é",
        "a=1\r\nx: y",
        "A=1",
        "a=1,,b=2",
        "x" * 600,
        "a=" + "1" * 300,
    ],
)
def test_a_tracestate_is_read_and_written_anew(tracestate: str) -> None:
    found = parse(PLAIN, tracestate)
    assert found == by_library(PLAIN, tracestate)
    assert found is not None
    assert found.state.isprintable()


@pytest.mark.parametrize("piece", [" ", "\t", "0", "-", "00-", "0-", "a=", ","])
def test_no_header_is_too_long_to_be_read(piece: str) -> None:
    assert parse(piece * 1_000_000) is None
    assert parse(PLAIN, piece * 1_000_000) == parse(PLAIN)
    # As long as it may be.
    almost = f"01-{TRACE}-{SPAN}-01{piece * 400}"[:512]
    assert parse(almost) == by_library(almost, None)
