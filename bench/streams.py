"""Answer streams as a client sees them: how late the first token is, and how many notifications come a second."""

import asyncio
import re
import time
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from bench import contestants
from bench.client import Connection
from bench.processes import Contestant
from bench.result import Row, Section, Spread, Unmeasured, percentile, ratios, table, verdict
from bench.sizes import Sizes
from bench.wire import MODERN, WIRES, ToolCall, Wire, result

_STAMP = re.compile(rb"@(\d{19})")
_PROGRESS = b"notifications/progress"
_FIRST_TOKEN_MS = 1.0
_NOTIFICATIONS = 1.5
_STREAM_SECONDS = 60.0
_TOGETHER = 8
_AT_A_TIME = 50


@dataclass(frozen=True, slots=True)
class Streamed:
    """One stream: when notifications arrived, and how old the first was when it did."""

    notifications: int
    seconds: float
    first_delay_ms: float


async def streamed(port: int, call: ToolCall, wire: Wire) -> Streamed:
    """One call on a connection of its own, read as it comes.

    Raises:
        Unmeasured: it did not end with a result.
    """
    connection = await Connection.open(port)
    first = last = 0
    age = float("nan")
    notifications = 0
    body = b""
    try:
        async with asyncio.timeout(_STREAM_SECONDS):
            status, chunks = await connection.stream(call.request(wire))
            async for body in chunks:
                now = time.time_ns()
                if found := body.count(_PROGRESS):
                    notifications, last = notifications + found, now
                    if not first:
                        first, stamp = now, _STAMP.search(body)
                        age = (now - int(stamp[1])) / 1e6 if stamp else age
    finally:
        await connection.close()
    try:
        result(body)
    except ValueError:
        raise Unmeasured(f"A stream answered {status} and ended with no result: {body[:200]!r}") from None
    return Streamed(notifications, (last - first) / 1e9, age)


def first_token(sizes: Sizes, workdir: Path) -> Section:
    """The delay from the platform's send to the notification, one stream at a time."""
    section = Section("First answer token")
    call = contestants.ask(3, pause=0.003)
    with ExitStack() as stack:
        upstream = stack.enter_context(contestants.platform(workdir))
        served = stack.enter_context(contestants.gateway(upstream, workdir))
        run(_delays(served.port, call, MODERN, 20))
        delays = {wire: _all_delays(served, call, wire, sizes) for wire in WIRES}
    lines = []
    for wire, values in delays.items():
        p50, p95 = percentile(values, 0.5), percentile(values, 0.95)
        row = Row(
            f"first answer token, {wire.version} wire",
            f"p50 {p50:.2f} ms, p95 {p95:.2f} ms",
            "",
            f"p50 ≤ {_FIRST_TOKEN_MS:.0f} ms",
            verdict(p50 <= _FIRST_TOKEN_MS),
        )
        section.rows.append(row)
        lines.append([wire.version, str(len(values)), f"{p50:.2f}", f"{p95:.2f}", f"{max(values):.2f}"])
    section.details = [table(["Wire", "Streams", "p50 ms", "p95 ms", "worst ms"], lines)]
    return section


def _all_delays(served: Contestant, call: ToolCall, wire: Wire, sizes: Sizes) -> list[float]:
    delays: list[float] = []
    while len(delays) < sizes.first_token_streams:
        delays += sizes.quiet.take(lambda: run(_delays(served.port, call, wire, _AT_A_TIME)))
    return delays


async def _delays(port: int, call: ToolCall, wire: Wire, streams: int) -> list[float]:
    return [(await streamed(port, call, wire)).first_delay_ms for _ in range(streams)]


def progress(sizes: Sizes, workdir: Path) -> Section:
    """Notifications a second: an answer relayed, against a bare tool that only reports progress."""
    section = Section("Progress notifications")
    lines = []
    with ExitStack() as stack:
        upstream = stack.enter_context(contestants.platform(workdir))
        served = stack.enter_context(contestants.gateway(upstream, workdir))
        bare = stack.enter_context(contestants.bare("progress", workdir))
        for wire in WIRES:
            for together in (1, _TOGETHER):
                deltas = sizes.deltas // together
                ours = _Relay(served, contestants.ask(deltas), wire, together, deltas)
                theirs = _Relay(bare, ToolCall("report", {"times": deltas}, with_progress=True), wire, together, deltas)
                for n in range(sizes.rounds + 1):
                    for relay in (ours, theirs):
                        sizes.quiet.take(relay.run)
                        relay.keep(counts=n > 0)
                section.rows.append(_progress_row(wire, together, ours, theirs))
                lines += [one.line(wire) for one in (ours, theirs)]
    header = ["Wire", "Streams at once", "Notifications each", "Who", "notifications/s", "CPU µs each"]
    section.details = [table(header, lines)]
    return section


class _Relay:
    """One contestant that sends notifications, on one wire, so many streams at once."""

    def __init__(self, contestant: Contestant, call: ToolCall, wire: Wire, together: int, deltas: int) -> None:
        self._contestant = contestant
        self._call = call
        self._wire = wire
        self._together = together
        self._deltas = deltas
        self._last = (0.0, 0.0)
        self.rates: list[float] = []
        self.cpu_us: list[float] = []

    def run(self) -> None:
        before = self._contestant.cpu_seconds()
        rate = run(_rate(self._contestant.port, self._call, self._wire, self._together, self._deltas))
        cpu = (self._contestant.cpu_seconds() - before) * 1e6 / (self._deltas * self._together)
        self._last = rate, cpu

    def keep(self, *, counts: bool) -> None:
        """The last run is a round, or was there to warm up."""
        if counts:
            self.rates.append(self._last[0])
            self.cpu_us.append(self._last[1])

    def line(self, wire: Wire) -> list[str]:
        rates, cpu = Spread.of(self.rates).text(0), f"{Spread.of(self.cpu_us).median:.0f}"
        return [wire.version, str(self._together), f"{self._deltas:,}", f"`{self._call.tool}`", rates, cpu]


async def _rate(port: int, call: ToolCall, wire: Wire, together: int, expected: int) -> float:
    started = time.perf_counter()
    done = await asyncio.gather(*(streamed(port, call, wire) for _ in range(together)))
    wall = time.perf_counter() - started
    if any(one.notifications != expected for one in done):
        raise Unmeasured(f"{expected} notifications were sent, {[one.notifications for one in done]} came.")
    # Of one stream, without what it takes to begin and end; of several, by the clock.
    return done[0].notifications / done[0].seconds if together == 1 else expected * together / wall


def _progress_row(wire: Wire, together: int, ours: _Relay, theirs: _Relay) -> Row:
    ratio = ratios(ours.rates, theirs.rates)
    holds = ratio.median >= _NOTIFICATIONS
    cpu, bare_cpu = Spread.of(ours.cpu_us).median, Spread.of(theirs.cpu_us).median
    blame = (
        f"CPU of one {cpu:.0f} µs, of a bare one {bare_cpu:.0f} µs: each delta is parsed "
        "as an event and as JSON before it is sent on; platform and client take their CPU too"
    )
    return Row(
        f"progress notifications, {wire.version} wire, {together} stream{'s' if together > 1 else ''}",
        f"{Spread.of(ours.rates).median:,.0f}/s",
        ratio.text(),
        f"≥ {_NOTIFICATIONS} × a bare tool that reports",
        verdict(holds),
        "" if holds else blame,
    )


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return uvloop.run(coroutine)
