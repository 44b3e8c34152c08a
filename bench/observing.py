"""`python -m bench.observing [--before TREE]`: what metrics and traces cost a memory_search, in calls a second and CPU.

It measures gateways in turn, round after round: with everything off, with metrics, and with metrics and traces, where
either the usual share of traces is collected or all are. `--before` adds the gateway of another checkout, with
everything off. `--spans` measures only OpenTelemetry's own library: the CPU time to make a span of four attributes, and
to encode it.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import uvloop
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from bench import contestants
from bench.processes import ROOT, Contestant, free_port, running
from bench.result import table
from bench.wire import MODERN
from bench.wrk import Load, Slice, measure, require_wrk

_CLIENTS: Final = 16
_SHARE: Final = "0.1"
_BUDGET: Final = 0.05
_OK: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_ATTRIBUTES: Final = {f"attribute.{n}": "value" for n in range(4)}
_HEAD_END: Final = b"\r\n\r\n"


class _Sink(asyncio.Protocol):
    """Takes spans as fast as they come, and says so."""

    def __init__(self) -> None:
        self._came = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._came += data
        while (end := self._came.find(_HEAD_END)) >= 0:
            named = (line.partition(b":") for line in self._came[:end].lower().split(b"\r\n"))
            length = next((int(value) for name, _, value in named if name == b"content-length"), 0)
            if len(self._came) < end + len(_HEAD_END) + length:
                return
            self._came = self._came[end + len(_HEAD_END) + length :]
            self._transport.write(_OK)


async def _collect(port: int) -> None:
    await (await asyncio.get_running_loop().create_server(_Sink, "127.0.0.1", port)).serve_forever()


def _ways(collector: Contestant) -> dict[str, Mapping[str, str]]:
    metrics = {"BRAINS_METRICS_PORT": str(free_port())}
    traced = {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/v1/traces",
        "BRAINS_METRICS_PORT": str(free_port()),
    }
    some = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": _SHARE}
    return {
        "all off": {},
        "metrics": metrics,
        f"metrics, {float(_SHARE):.0%} of traces": {**traced, **some},
        "metrics, all traces": {**traced, "BRAINS_METRICS_PORT": str(free_port())},
    }


def _rows(slices: Mapping[str, list[Slice]]) -> list[list[str]]:
    """Each round is compared with the same round of what is off: others use the machine too."""
    off, rows = slices["all off"], []
    for name, made in slices.items():
        speed = statistics.median(one.per_second / base.per_second for one, base in zip(made, off, strict=True)) - 1
        cpu = statistics.median(one.cpu_ms / base.cpu_ms for one, base in zip(made, off, strict=True)) - 1
        medians = (statistics.median(getattr(one, figure) for one in made) for figure in ("per_second", "cpu_ms"))
        rows.append([name, *(f"{median:,.3f}" for median in medians), f"{speed:+.1%}", f"{cpu:+.1%}"])
    return rows


def spans() -> None:
    """Prints what a span costs in OpenTelemetry's library alone."""
    made: list[ReadableSpan] = []

    class Kept(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            made.append(span)

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Kept())
    tracer, count = provider.get_tracer("bench"), 3000

    def make() -> None:
        made.clear()
        for _ in range(count):
            tracer.start_span("span", attributes=_ATTRIBUTES).end()

    def encode() -> None:
        encode_spans(made).SerializeToString()

    print(table(["what", "CPU us a span"], [[of.__name__, f"{_cpu_us(of, count):.1f}"] for of in (make, encode)]))  # noqa: T201


def _cpu_us(work: Callable[[], None], count: int) -> float:
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
        collector = stack.enter_context(running("collector", ["bench.observing", "--collect"], workdir))
        load = Load.of_call(contestants.SEARCH, MODERN, workdir)
        started: dict[str, Contestant] = {}
        trees: dict[str, tuple[Path | None, Mapping[str, str]]] = {"before, all off": (before, {})} if before else {}
        for name, (tree, env) in {**trees, **{name: (ROOT, env) for name, env in _ways(collector).items()}}.items():
            gateway = contestants.gateway(upstream, workdir, tree=tree or ROOT, more=env)
            started[name] = stack.enter_context(gateway)
            contestants.check(started[name], contestants.SEARCH, MODERN)
            measure(started[name], load, _CLIENTS, 1)
        slices: dict[str, list[Slice]] = {name: [] for name in started}
        for n in range(rounds):
            for name in sorted(started, reverse=bool(n % 2)):
                slices[name].append(measure(started[name], load, _CLIENTS, seconds))
    print(f"{rounds} rounds of {seconds} s, {_CLIENTS} clients; at most {_BUDGET:.0%} of calls a second is wanted.\n")  # noqa: T201
    print(table(["what", "calls/s", "CPU ms a call", "calls/s to off", "CPU to off"], _rows(slices)))  # noqa: T201


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", type=Path)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--collect", action="store_true")
    parser.add_argument("--spans", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    told = parser.parse_args()
    if told.collect:
        uvloop.run(_collect(told.port))
    elif told.spans:
        spans()
    else:
        main(told.rounds, told.seconds, told.before)
