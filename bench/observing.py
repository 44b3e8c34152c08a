"""`python -m bench.observing [--before TREE]`: what metrics and traces cost a memory_search, in calls a second and CPU.

It measures gateways in turn, round after round: with everything off, with metrics, and with metrics and traces, where
either a tenth of the traces is collected or all are. The collector keeps what comes, and counts its spans after each
round, so that nobody measures traces that are lost. `--before` measures the gateway of another checkout the same way.
`--spans` measures what one span costs: by OpenTelemetry's own library, and by ours.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from bench import contestants
from bench.collector import spans_at
from bench.processes import ROOT, Contestant, running
from bench.result import table
from bench.wire import MODERN
from bench.wrk import Load, Slice, measure, require_wrk
from gateway.app.traces.encoding import Envelope, Parts
from gateway.app.traces.recorder import RecordedTraces
from gateway.app.traces.sampling import sampler_of
from gateway.operations.caller import Call

_CLIENTS: Final = 16
_SHARE: Final = "0.1"
_BUDGET: Final = 0.05
_ATTRIBUTES: Final = {f"attribute.{n}": "value" for n in range(4)}
_OFF: Final = "all off"


def _ways(collector: Contestant) -> dict[str, Mapping[str, str]]:
    metrics = {"BRAINS_METRICS_TOKEN": "the-token-of-an-operator"}
    # Sent at least this often, so that all spans of a round come before the next.
    traced = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/v1/traces", "OTEL_BSP_SCHEDULE_DELAY": "1000"}
    some = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": _SHARE}
    return {
        _OFF: {},
        "metrics": metrics,
        f"metrics, {float(_SHARE):.0%} of traces": {**metrics, **traced, **some},
        "metrics, all traces": {**metrics, **traced},
    }


@dataclass(frozen=True, slots=True)
class _Round:
    """One slice, and how many spans of it came."""

    slice: Slice
    spans: int


def _rows(rounds: Mapping[str, list[_Round]]) -> list[list[str]]:
    """Each round is compared with the same round of what is off: others use the machine too."""
    rows = []
    off = [one.slice for one in rounds[_OFF]]
    for name, made in rounds.items():
        slices = [one.slice for one in made]
        speed = statistics.median(one.per_second / base.per_second for one, base in zip(slices, off, strict=True)) - 1
        cpu = statistics.median(one.cpu_ms / base.cpu_ms for one, base in zip(slices, off, strict=True)) - 1
        medians = (statistics.median(getattr(one, figure) for one in slices) for figure in ("per_second", "cpu_ms"))
        spans = sum(one.spans for one in made) / sum(one.requests for one in slices)
        rows.append([name, *(f"{median:,.3f}" for median in medians), f"{speed:+.1%}", f"{cpu:+.1%}", f"{spans:.2f}"])
    return rows


def spans() -> None:
    """Prints what one span costs: by OpenTelemetry's own library, and by ours."""
    made: list[ReadableSpan] = []

    class Kept(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            made.append(span)

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Kept())
    tracer, count = provider.get_tracer("bench"), 3000
    ours: list[Parts] = []
    traces, call = RecordedTraces(sampler_of({}), ours.append, ours.clear), Call()
    envelope = Envelope(Resource({}), InstrumentationScope("bench"))

    def make() -> None:
        made.clear()
        for _ in range(count):
            tracer.start_span("span", attributes=_ATTRIBUTES).end()

    def make_ours() -> None:
        traces.close()
        for _ in range(count):
            traces.end_call(traces.begin_call("tool"), call, "surface", "tool", "ok")

    figures: dict[str, tuple[float, float]] = {
        "the library": (_cpu_us(make, count), _cpu_us(lambda: encode_spans(made).SerializeToString(), count)),
        "ours": (_cpu_us(make_ours, count), _cpu_us(lambda: envelope.around(ours), count)),
    }
    rows = [[who, *(f"{us:.1f}" for us in costs)] for who, costs in figures.items()]
    print(table(["span by", "CPU us to make", "to encode"], rows))  # noqa: T201


def _cpu_us(work: Callable[[], object], count: int) -> float:
    """The shortest of some rounds, because other programs can only make a round longer."""
    taken = []
    for _ in range(9):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken) / count * 1_000_000


def main(rounds: int, seconds: int, before: Path | None) -> None:
    require_wrk()
    with ExitStack() as stack:
        workdir = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = stack.enter_context(contestants.platform(workdir))
        collector = stack.enter_context(running("collector", ["bench.collector"], workdir))
        load = Load.of_call(contestants.SEARCH, MODERN, workdir)
        started: dict[str, Contestant] = {}
        trees = {"": ROOT, **({"before: ": before} if before else {})}
        for tree, (name, env) in product(trees, _ways(collector).items()):
            gateway = contestants.gateway(upstream, workdir, tree=trees[tree], more=env)
            started[tree + name] = stack.enter_context(gateway)
            contestants.check(started[tree + name], contestants.SEARCH, MODERN)
            measure(started[tree + name], load, _CLIENTS, 1)
        made: dict[str, list[_Round]] = {name: [] for name in started}
        for n in range(rounds):
            for name in sorted(started, reverse=bool(n % 2)):
                earlier = spans_at(collector)
                of_round = measure(started[name], load, _CLIENTS, seconds)
                made[name].append(_Round(of_round, spans_at(collector) - earlier))
    print(f"{rounds} rounds of {seconds} s, {_CLIENTS} clients; at most {_BUDGET:.0%} of calls a second is wanted.\n")  # noqa: T201
    print(table(["what", "calls/s", "CPU ms a call", "calls/s to off", "CPU to off", "spans a call"], _rows(made)))  # noqa: T201


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", type=Path)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--spans", action="store_true")
    told = parser.parse_args()
    if told.spans:
        spans()
    else:
        main(told.rounds, told.seconds, told.before)
