"""The sampler decides as that of OpenTelemetry's library does, for the same variables."""

import os
import random
from unittest import mock

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import sampling
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context
from structlog.testing import capture_logs

from gateway.app.traces.context import Above
from gateway.app.traces.sampling import sampler_of

EDGES = [1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, (1 << 128) - 1]
NUMBERS = EDGES + [random.Random(7).getrandbits(128) for _ in range(200)]
SHARES = ["0", "1", "0.5", "1e-3"]
PARENTS = [None, 0, 1, 2, 3]


def variables(name: str | None, argument: str | None) -> dict[str, str]:
    said = {"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": argument}
    return {name: value for name, value in said.items() if value is not None}


def id_of(number: int) -> bytes:
    return number.to_bytes(16, "big")


def by_library(number: int, flags: int | None) -> bool:
    above = None
    if flags is not None:
        span = NonRecordingSpan(SpanContext(number, 1, is_remote=True, trace_flags=TraceFlags(flags)))
        above = set_span_in_context(span, Context())
    asked = sampling._get_from_env_or_default().should_sample(above or Context(), number, "a call")
    return asked.decision is sampling.Decision.RECORD_AND_SAMPLE


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        (None, None),
        ("always_on", None),
        ("always_off", None),
        ("Always_Off", "0.7"),
        ("parentbased_always_on", "0"),
        ("parentbased_always_off", None),
        ("traceidratio", None),
        *(
            (name, ratio)
            for name in ("traceidratio", "parentbased_traceidratio")
            for ratio in ("0", "1", "0.5", "1e-3")
        ),
    ],
)
def test_it_decides_as_the_library_does(name: str | None, argument: str | None) -> None:
    with mock.patch.dict(os.environ, variables(name, argument)), capture_logs() as lines:
        sampler = sampler_of()
        for number in NUMBERS:
            for flags in PARENTS:
                above = None if flags is None else Above(id_of(number), bytes(8), flags, "")
                assert sampler.samples(id_of(number), above) == by_library(number, flags), (number, flags)
    assert lines == []


@pytest.mark.parametrize(
    ("name", "argument", "said"),
    [
        (
            "sometimes",
            None,
            "OTEL_TRACES_SAMPLER is 'sometimes', which is none of always_on, always_off, ",
        ),
        ("jaeger_remote", None, "parentbased_always_on is used instead."),
        ("traceidratio", "10%", "OTEL_TRACES_SAMPLER_ARG is '10%', which is no number from 0 to 1. 1 is used instead."),
        ("traceidratio", "1.5", "is '1.5', which is no number from 0 to 1."),
        ("parentbased_traceidratio", "-1", "is '-1', which is no number from 0 to 1."),
        ("traceidratio", "nan", "is 'nan', which is no number from 0 to 1."),
        ("traceidratio", "9" * 5000, "which is no number from 0 to 1. 1 is used instead."),
    ],
)
def test_a_value_that_makes_no_sense_is_told_and_counts_as_not_set(name: str, argument: str | None, said: str) -> None:
    with capture_logs() as lines:
        sampler = sampler_of(variables(name, argument))
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("traces.doubtful", "warning")
    assert said in line["reason"]
    assert len(line["reason"]) < 250
    assert all(sampler.samples(id_of(number), None) for number in NUMBERS)
