"""Calls a second, CPU and latency: a whole memory_search beside what people would compare it with, on both wires."""

import subprocess
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from bench import parts, profile, wrk
from bench.contestants import ECHO, OPERATION, SEARCH, bare, floor, gateway, peer, platform
from bench.login import Login, login
from bench.processes import Contestant
from bench.race import CLIENTS, MANY, ORDER, Entry, Figures, Key, Race
from bench.result import Group, Row, Section, Spread, Unmeasured, Verdict, ratios, table, verdict
from bench.sizes import Sizes
from bench.wire import LEGACY, MODERN, WIRES, Wire

GATEWAY, GATEWAY_JWT = "gateway", "gateway, JWT"
FLOOR, LOW_LEVEL = "floor", "low-level SDK, echo"
BARE, BARE_JWT = "bare FastMCP, echo", "bare FastMCP, echo, JWT"
TEN_LINES, OPENAPI, PROXY = "ten lines", "OpenAPI", "proxy, echo"
PLATFORM = "platform, directly"
_SIDE_BY_SIDE = (FLOOR, GATEWAY, GATEWAY_JWT, LOW_LEVEL, BARE, BARE_JWT, TEN_LINES, OPENAPI, PROXY)
# Where a call takes many milliseconds, more clients would only wait longer.
_FEW_CLIENTS = (1, MANY)
_LEGEND = (
    "Calls a second (CPU ms of one call; p99 ms), by the number of clients. Whole searches, each with its request to "
    "the platform: *floor* is bare ASGI with aiohttp and a JSON library in native code, which checks nothing; *ten "
    "lines* is a tool with FastMCP and httpx; *OpenAPI* is `FastMCP.from_openapi` of the contract. An *echo* returns "
    "its argument: on package `mcp` alone, on FastMCP, and on FastMCP behind FastMCP's proxy."
)


@dataclass(frozen=True, slots=True)
class Budget:
    """One figure of a contestant as a ratio to that of another, on each wire."""

    what: str
    figure: str
    whose: str
    reference: str
    clients: int
    limits: dict[Wire, float]

    def holds(self, ratio: float, wire: Wire) -> bool:
        return ratio >= self.limits[wire] if self._is_rate() else ratio <= self.limits[wire]

    def limit(self, wire: Wire) -> str:
        return f"{'≥' if self._is_rate() else '≤'} {self.limits[wire]} × {self.reference}"

    def value(self, median: float) -> str:
        return f"{median:,.0f} calls/s" if self._is_rate() else f"{brief(median)} ms"

    def _is_rate(self) -> bool:
        return self.figure == "per_second"


BUDGETS = (
    Budget("`memory_search`", "per_second", GATEWAY, LOW_LEVEL, MANY, {MODERN: 1.0, LEGACY: 1.5}),
    Budget("CPU of one `memory_search`", "cpu_ms", GATEWAY, FLOOR, MANY, dict.fromkeys(WIRES, 2.5)),
    Budget("CPU of one `memory_search`, JWT", "cpu_ms", GATEWAY_JWT, GATEWAY, MANY, dict.fromkeys(WIRES, 1.15)),
    Budget("p99 of `memory_search`", "p99_ms", GATEWAY, BARE, 64, dict.fromkeys(WIRES, 1.0)),
)


def measure(sizes: Sizes, workdir: Path) -> Section:
    wrk.require_wrk()
    with ExitStack() as stack:
        upstream = stack.enter_context(platform(workdir))
        echo = stack.enter_context(bare("echo", workdir))
        caller = stack.enter_context(login(workdir))
        race = Race(upstream, workdir, sizes)
        race.enter(_entries(upstream, echo, caller, workdir), stack)
        race.run()
        figures = race.figures
        by_part = parts.by_part(figures, (FLOOR, GATEWAY), upstream, sizes.quiet)
    return Section(
        "Side by side",
        rows=[row(figures, budget, wire) for budget in BUDGETS for wire in WIRES],
        details=[_LEGEND, side_by_side(figures), _all(figures)],
        causes=[by_part, _profile(workdir)],
        chart=_bars(figures),
    )


def _entries(upstream: Contestant, echo: Contestant, caller: Login, workdir: Path) -> list[Entry]:
    token = caller.token
    return [
        Entry(FLOOR, floor(upstream, workdir), SEARCH),
        Entry(GATEWAY, gateway(upstream, workdir), SEARCH),
        Entry(GATEWAY_JWT, gateway(upstream, workdir, login=caller), replace(SEARCH, token=token)),
        Entry(LOW_LEVEL, bare("low-level", workdir), ECHO),
        Entry(BARE, nullcontext(echo), ECHO),
        Entry(BARE_JWT, bare("guarded", workdir, login=caller), replace(ECHO, token=token)),
        Entry(TEN_LINES, peer("ten-lines", upstream, workdir), SEARCH),
        Entry(OPENAPI, peer("openapi", upstream, workdir), OPERATION, clients=_FEW_CLIENTS, is_slow=True),
        Entry(PROXY, peer("proxy", echo, workdir), ECHO, clients=_FEW_CLIENTS, is_slow=True),
        Entry(PLATFORM, nullcontext(upstream), None, wires=(None,)),
    ]


def _profile(workdir: Path) -> str:
    try:
        return profile.by_package(workdir)
    except (Unmeasured, OSError, subprocess.SubprocessError) as error:
        return f"By package: not measured. {error}"


def row(figures: Figures, budget: Budget, wire: Wire) -> Row:
    what = f"{budget.what}, {wire.version} wire, {budget.clients} clients"
    ours, theirs = (Key(name, wire, budget.clients) for name in (budget.whose, budget.reference))
    try:
        ratio = ratios(figures.each(ours, budget.figure), figures.each(theirs, budget.figure))
    except Unmeasured as error:
        return Row(what, "failed", "", budget.limit(wire), Verdict.NOT_MEASURED, str(error))
    measured, reference = (budget.value(figures.median(key, budget.figure)) for key in (ours, theirs))
    holds = budget.holds(ratio.median, wire)
    remark = "" if holds else f"{budget.reference}: {reference}; see *Where the time goes*"
    return Row(what, measured, ratio.text(), budget.limit(wire), verdict(holds), remark)


def side_by_side(figures: Figures) -> str:
    columns = [(wire, clients) for wire in WIRES for clients in CLIENTS]
    header = ["Who", *(f"{wire.version}: {clients}" for wire, clients in columns)]
    lines = [[name, *(_cell(figures, name, *column) for column in columns)] for name in _SIDE_BY_SIDE]
    return table(header, lines)


def _cell(figures: Figures, name: str, wire: Wire, clients: int) -> str:
    key = Key(name, wire, clients)
    if key in figures.failures:
        return wrk.NO_ANSWER if wrk.NO_ANSWER in figures.failures[key] else "failed"
    if key not in figures.slices:
        return "–"
    rate, cpu, p99 = (figures.median(key, figure) for figure in ("per_second", "cpu_ms", "p99_ms"))
    return f"{rate:,.0f} ({brief(cpu)}; {brief(p99)})"


def brief(value: float) -> str:
    """About three digits."""
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _bars(figures: Figures) -> list[Group]:
    """Calls a second side by side, as the chart shows them; no bar for who failed."""
    groups = []
    for wire in WIRES:
        keys = [Key(name, wire, MANY) for name in _SIDE_BY_SIDE]
        measured = [key for key in keys if key in figures.slices and key not in figures.failures]
        bars = {key.who: figures.median(key, "per_second") for key in measured}
        groups.append(Group(f"{MANY} clients, {wire.version} wire", bars))
    return groups


def _all(figures: Figures) -> str:
    lines = []
    for key in sorted(figures.slices | figures.failures, key=lambda key: (ORDER.index(key.wire), key.clients)):
        who = [key.wire.version if key.wire else "HTTP", str(key.clients), key.who]
        if key in figures.failures:
            lines.append([*who, f"failed: {figures.failures[key]}", "", "", "", ""])
            continue
        rest = [figures.median(key, figure) for figure in ("p50_ms", "p99_ms", "cpu_ms", "load_cores")]
        told = [f"{value:.{digits}f}" for value, digits in zip(rest, (2, 2, 3, 2), strict=True)]
        lines.append([*who, Spread.of(figures.each(key, "per_second")).text(0), *told])
    return table(["Wire", "Clients", "Who", "calls/s", "p50 ms", "p99 ms", "CPU ms a call", "cores wrk took"], lines)
