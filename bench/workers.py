"""Two workers against one: how much of a second core becomes calls."""

import os
from contextlib import ExitStack
from pathlib import Path

from bench import contestants, wrk
from bench.processes import Contestant
from bench.result import Row, Section, Spread, ratios, table, verdict
from bench.sizes import Sizes
from bench.wire import MODERN, ToolCall
from bench.wrk import Load, Slice

_CLIENTS = (16, 64)
_WORKERS = 2
_BUDGET = 0.85


def measure(sizes: Sizes, workdir: Path) -> Section:
    wrk.require_wrk()
    section = Section("Workers")
    lines = []
    with ExitStack() as stack:
        upstream = stack.enter_context(contestants.platform(workdir))
        ours = [stack.enter_context(contestants.gateway(upstream, workdir, n)) for n in (1, _WORKERS)]
        bare = [stack.enter_context(contestants.bare("echo", workdir, n)) for n in (1, _WORKERS)]
        for clients in _CLIENTS:
            race = _Race(sizes, workdir, clients)
            race.run([(one, contestants.SEARCH) for one in ours] + [(one, contestants.ECHO) for one in bare])
            section.rows.append(_row(race, clients))
            lines += race.lines()
    cores = os.cpu_count() or 1
    section.details = [
        table(["Clients", "Who", "Workers", "calls/s", "CPU ms a call", "wrk cores", "busiest worker's share"], lines),
        f"This machine has {cores} cores, and wrk and the instant platform run on them too. What they take is not "
        "there for the second worker, so the ratio of bare FastMCP in the same run is the ceiling to compare with.",
    ]
    return section


class _Race:
    """One number of clients, every contestant in turn, round after round."""

    def __init__(self, sizes: Sizes, workdir: Path, clients: int) -> None:
        self._sizes = sizes
        self._workdir = workdir
        self._clients = clients
        self.slices: list[list[Slice]] = []
        self._names: list[str] = []
        self._busiest: list[float] = []

    def run(self, entries: list[tuple[Contestant, ToolCall]]) -> None:
        self._names = [contestant.name for contestant, _ in entries]
        self.slices = [[] for _ in entries]
        before = [contestant.cpu_of_each_worker() for contestant, _ in entries]
        for contestant, call in entries:
            self._slice(contestant, call, 1)
        for _ in range(self._sizes.rounds):
            for (contestant, call), slices in zip(entries, self.slices, strict=True):
                slices.append(self._slice(contestant, call, self._sizes.slice_seconds))
        self._busiest = [_busiest(old, one.cpu_of_each_worker()) for old, (one, _) in zip(before, entries, strict=True)]

    def _slice(self, contestant: Contestant, call: ToolCall, seconds: int) -> Slice:
        contestants.check(contestant, call, MODERN)
        load = Load.of_call(call, MODERN, self._workdir)
        measured = self._sizes.quiet.take(lambda: wrk.measure(contestant, load, self._clients, seconds))
        contestants.check(contestant, call, MODERN)
        return measured

    def rates(self, entry: int) -> list[float]:
        return [one.per_second for one in self.slices[entry]]

    def lines(self) -> list[list[str]]:
        return [
            [
                str(self._clients),
                name,
                str(1 if n % 2 == 0 else _WORKERS),
                Spread.of(self.rates(n)).text(0),
                f"{Spread.of([one.cpu_ms for one in self.slices[n]]).median:.2f}",
                f"{Spread.of([one.load_cores for one in self.slices[n]]).median:.2f}",
                f"{self._busiest[n]:.0%}" if n % 2 else "",
            ]
            for n, name in enumerate(self._names)
        ]


def _busiest(before: list[float], after: list[float]) -> float:
    """The share of the busiest process below the supervisor: one half is fair, one is a worker that idles."""
    taken = [new - old for old, new in zip(before, after, strict=False)]
    return max(taken, default=0.0) / (sum(taken) or 1.0)


def _row(race: _Race, clients: int) -> Row:
    ratio, ceiling = ratios(race.rates(1), race.rates(0)), ratios(race.rates(3), race.rates(2))
    budget = _BUDGET * min(_WORKERS, os.cpu_count() or 1)
    holds = ratio.median >= budget
    return Row(
        f"`--workers {_WORKERS}`, {clients} clients",
        f"{Spread.of(race.rates(1)).median:,.0f} calls/s",
        ratio.text(),
        f"≥ {budget:.2f} × one worker",
        verdict(holds),
        "" if holds else f"bare FastMCP gets {ceiling.text()} here: load and platform share the cores",
    )
