"""Calls a second and latency: a whole memory_search against an echo on bare FastMCP, on both wires."""

import json
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench import contestants, profile, wrk
from bench.login import login
from bench.processes import ROOT, Contestant, environment
from bench.quiet import Quiet
from bench.result import Group, Row, Section, Spread, Unmeasured, Verdict, ratios, table, verdict
from bench.sizes import Sizes
from bench.wire import LEGACY, MODERN, WIRES, ToolCall, Wire
from bench.wrk import Load, Slice

CLIENTS = (1, 16, 64)
_LADDER_CLIENTS = 16
_PROBES = 3
_FIGURES = ("per_second", "p50_ms", "p99_ms", "cpu_ms", "load_cores")
_BUDGETS = {(MODERN, 1): 0.9, (MODERN, 16): 1.0, (MODERN, 64): 1.0} | {(LEGACY, clients): 0.8 for clients in CLIENTS}
BARE, GATEWAY, PLATFORM = "bare FastMCP", "gateway", "platform, directly"
BARE_JWT, GATEWAY_JWT = "bare FastMCP, JWT", "gateway, JWT"
_LOW_LEVEL, _TUNED, _PAYLOAD = "low-level SDK", "tuned FastMCP", "tuned FastMCP, answer of a search"
# Contestants that each do a little more than the one before: what they are, the wires and the numbers of clients.
_LADDER = {
    _LOW_LEVEL: ("low-level", WIRES, CLIENTS),
    _TUNED: ("tuned", (MODERN,), (_LADDER_CLIENTS,)),
    _PAYLOAD: ("payload", (MODERN,), (_LADDER_CLIENTS,)),
}


@dataclass(frozen=True, slots=True)
class Lane:
    """One contestant on one wire at one number of clients, measured once a round."""

    name: str
    contestant: Contestant
    call: ToolCall | None
    wire: Wire | None
    clients: int
    load: Load
    slices: list[Slice] = field(default_factory=list)

    def check(self) -> None:
        if self.call is None or self.wire is None:
            contestants.check_platform(self.contestant)
        else:
            contestants.check(self.contestant, self.call, self.wire)

    def figures(self, name: str) -> list[float]:
        return [float(getattr(one, name)) for one in self.slices]


class Field:
    """All lanes of a run, and the failures of those that have none."""

    def __init__(self, upstream: Contestant, workdir: Path, quiet: Quiet) -> None:
        self.quiet = quiet
        self._upstream = upstream
        self._workdir = workdir
        self.lanes: list[Lane] = []
        self.failures: dict[tuple[str, Wire | None, int], str] = {}

    def add(self, name: str, contestant: Contestant, call: ToolCall, wire: Wire, clients: int) -> None:
        load = Load.of_call(call, wire, self._workdir)
        self.lanes.append(Lane(name, contestant, call, wire, clients, load))

    def add_platform(self, clients: int) -> None:
        load = Load.of_get(contestants.SEARCH_PATH, self._workdir)
        self.lanes.append(Lane(PLATFORM, self._upstream, None, None, clients, load))

    def race(self, sizes: Sizes) -> None:
        """Round after round, every lane in turn; each round begins with another one."""
        for lane in self.lanes:
            if lane.clients == _LADDER_CLIENTS:
                self._guarded(lane, 1)
                lane.slices.clear()
        for n in range(sizes.rounds):
            shift = n * len(self.lanes) // sizes.rounds
            for lane in self.lanes[shift:] + self.lanes[:shift]:
                # The platform answers so often that a second is plenty.
                self._guarded(lane, 1 if lane.name == PLATFORM else sizes.slice_seconds)

    def of(self, name: str, wire: Wire | None, clients: int) -> Lane:
        key = (name, wire, clients)
        if key in self.failures:
            raise Unmeasured(self.failures[key])
        return next(lane for lane in self.lanes if (lane.name, lane.wire, lane.clients) == key)

    def _guarded(self, lane: Lane, seconds: int) -> None:
        key = (lane.name, lane.wire, lane.clients)
        if key in self.failures:
            return
        try:
            lane.check()
            lane.slices.append(self.quiet.take(lambda: self._measured(lane, seconds)))
            lane.check()
        except (Unmeasured, OSError, EOFError, subprocess.SubprocessError) as error:
            self.failures[key] = str(error) or type(error).__name__

    def _measured(self, lane: Lane, seconds: int) -> Slice:
        before = contestants.counts(self._upstream)["search"]
        measured = wrk.measure(lane.contestant, lane.load, lane.clients, seconds)
        if lane.call is not None and lane.call.tool == contestants.SEARCH.tool:
            # Every answer must have come from the platform: what was cancelled in flight may come on top.
            asked = contestants.counts(self._upstream)["search"] - before
            if not measured.requests <= asked <= measured.requests + lane.clients:
                raise Unmeasured(f"{measured.requests} answers came from {asked} searches on the platform.")
        return measured


def measure(sizes: Sizes, workdir: Path) -> Section:
    wrk.require_wrk()
    with ExitStack() as stack:
        upstream = stack.enter_context(contestants.platform(workdir))
        served = stack.enter_context(contestants.gateway(upstream, workdir))
        echo = stack.enter_context(contestants.bare("echo", workdir))
        caller = stack.enter_context(login(workdir))
        served_jwt = stack.enter_context(contestants.gateway(upstream, workdir, login=caller))
        echo_jwt = stack.enter_context(contestants.bare("guarded", workdir, login=caller))
        race = Field(upstream, workdir, sizes.quiet)
        for clients in CLIENTS:
            for wire in WIRES:
                race.add(BARE, echo, contestants.ECHO, wire, clients)
                race.add(GATEWAY, served, contestants.SEARCH, wire, clients)
                race.add(BARE_JWT, echo_jwt, replace(contestants.ECHO, token=caller.token), wire, clients)
                race.add(GATEWAY_JWT, served_jwt, replace(contestants.SEARCH, token=caller.token), wire, clients)
            race.add_platform(clients)
        for name, (kind, wires, crowds) in _LADDER.items():
            try:
                contestant = stack.enter_context(contestants.bare(kind, workdir))
            except Unmeasured as error:
                race.failures |= {(name, wire, clients): str(error) for wire in wires for clients in crowds}
                continue
            for wire in wires:
                for clients in crowds:
                    race.add(name, contestant, contestants.ECHO, wire, clients)
        race.race(sizes)
        ladder = _ladder(race, upstream)
    section = Section("Calls a second and latency")
    for pair in ((GATEWAY, BARE), (GATEWAY_JWT, BARE_JWT)):
        section.rows += [_row(race, pair, wire, clients) for wire in WIRES for clients in CLIENTS]
    section.chart = _bars(race)
    section.details = [_figures(race)]
    section.causes = [ladder, _profile(workdir)]
    return section


def _profile(workdir: Path) -> str:
    try:
        return profile.by_package(workdir)
    except (Unmeasured, OSError, subprocess.SubprocessError) as error:
        return f"By package: not measured. {error}"


def _row(race: Field, pair: tuple[str, str], wire: Wire, clients: int) -> Row:
    auth = ", JWT" if pair[0] == GATEWAY_JWT else ""
    what = f"`memory_search`{auth}, {wire.version} wire, {clients} client{'s' if clients > 1 else ''}"
    budget = _BUDGETS[wire, clients]
    try:
        ours, bare = (race.of(name, wire, clients) for name in pair)
    except Unmeasured as error:
        return Row(what, "failed", "", f"≥ {budget} × bare FastMCP", Verdict.NOT_MEASURED, str(error))
    ratio = ratios(ours.figures("per_second"), bare.figures("per_second"))
    holds = ratio.median >= budget
    measured = f"{Spread.of(ours.figures('per_second')).median:,.0f} calls/s"
    remark = "" if holds else _blame(ours, bare)
    return Row(what, measured, ratio.text(), f"≥ {budget} × bare FastMCP", verdict(holds), remark)


def _bars(race: Field) -> list[Group]:
    """Calls a second side by side, as the chart shows them; nothing where a lane failed."""
    groups = []
    for wire in WIRES:
        for clients in CLIENTS:
            try:
                lanes = [race.of(name, wire, clients) for name in (BARE, GATEWAY, BARE_JWT, GATEWAY_JWT)]
            except Unmeasured:
                continue
            bars = {lane.name: Spread.of(lane.figures("per_second")).median for lane in lanes}
            groups.append(Group(f"{clients} client{'s' if clients > 1 else ''}", wire.version, bars))
    return groups


def _blame(ours: Lane, bare: Lane) -> str:
    cpu, bare_cpu = Spread.of(ours.figures("cpu_ms")).median, Spread.of(bare.figures("cpu_ms")).median
    return f"CPU of one call {cpu:.2f} ms, bare {bare_cpu:.2f} ms; see *Where the time goes*"


def _figures(race: Field) -> str:
    lines = []
    for lane in sorted(race.lanes, key=lambda lane: (lane.wire is not MODERN, lane.wire is not LEGACY, lane.clients)):
        wire = lane.wire.version if lane.wire else "HTTP"
        failure = race.failures.get((lane.name, lane.wire, lane.clients))
        if failure is not None:
            lines.append([wire, str(lane.clients), lane.name, f"failed: {failure}", "", "", "", ""])
            continue
        of = {
            name: Spread.of(lane.figures(name)) for name in ("per_second", "p50_ms", "p99_ms", "cpu_ms", "load_cores")
        }
        lines.append(
            [
                wire,
                str(lane.clients),
                lane.name,
                of["per_second"].text(0),
                f"{of['p50_ms'].median:.2f}",
                f"{of['p99_ms'].median:.2f}",
                f"{of['cpu_ms'].median:.3f}",
                f"{of['load_cores'].median:.2f}",
            ]
        )
    return table(["Wire", "Clients", "Who", "calls/s", "p50 ms", "p99 ms", "CPU ms a call", "cores wrk took"], lines)


def _ladder(race: Field, upstream: Contestant) -> str:
    """Where the time goes, as differences between contestants that each do a little more."""
    try:
        cpu = {
            name: Spread.of(race.of(name, MODERN, _LADDER_CLIENTS).figures("cpu_ms")).median
            for name in (_LOW_LEVEL, BARE, _TUNED, _PAYLOAD, GATEWAY)
        }
        brain = Spread.of([race.quiet.take(lambda: _brain_alone(upstream)) for _ in range(_PROBES)]).median
    except Unmeasured as error:
        return f"CPU of one call by part: not measured. {error}"
    rest = cpu[GATEWAY] - cpu[_PAYLOAD] - brain
    shares = [
        ("MCP, as the low-level SDK does it for an echo", cpu[_LOW_LEVEL]),
        ("what FastMCP adds, without its hidden `tools/list` and with a frozen heap", cpu[_TUNED] - cpu[_LOW_LEVEL]),
        ("the answer of a search instead of an echo's, in FastMCP and the SDK", cpu[_PAYLOAD] - cpu[_TUNED]),
        ("the gateway's brain: chain, request, JSON, as measured alone", brain),
        (
            "the rest of the gateway: arguments, words, log line; and what parts cost more together than apart",
            rest,
        ),
    ]
    total = cpu[GATEWAY]
    lines = [[what, f"{ms:.2f}", f"{ms / total:.0%}"] for what, ms in shares]
    lines.append(["**one `memory_search`**", f"**{total:.2f}**", ""])
    lines.append(["for comparison: an echo on bare FastMCP, hidden `tools/list` and all", f"{cpu[BARE]:.2f}", ""])
    head = f"CPU of one call by part, at {_LADDER_CLIENTS} clients, {MODERN.version} wire."
    return head + "\n\n" + table(["Part", "ms", "share"], lines)


def _brain_alone(upstream: Contestant) -> float:
    url = f"http://127.0.0.1:{upstream.port}"
    command = ["bench.probe", "--url", url, "--clients", str(_LADDER_CLIENTS), "--seconds", "2"]
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=environment({"FASTMCP_LOG_ENABLED": "false"}),
        capture_output=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        raise Unmeasured(f"The gateway's brain failed alone: {done.stderr.decode().strip().splitlines()[-1:]}")
    return float(json.loads(done.stdout)["cpu_ms"])
