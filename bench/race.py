"""Contestants in turn, round after round, each checked before and after it is measured."""

import subprocess
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bench import contestants, wrk
from bench.processes import Contestant
from bench.result import Spread, Unmeasured
from bench.sizes import Sizes
from bench.wire import WIRES, ToolCall, Wire
from bench.wrk import Load, Slice

CLIENTS = (1, 16, 64)
ORDER = (*WIRES, None)
# At so many clients, parts are compared and the rest is judged.
MANY = 16
_SLOW_ROUNDS = 2


class Key(NamedTuple):
    """Whose figures: a contestant on a wire, or on none, with so many clients."""

    who: str
    wire: Wire | None
    clients: int


@dataclass(frozen=True, slots=True)
class Entry:
    """Who takes part, and in what. Without a call it is the platform, asked directly."""

    name: str
    started: AbstractContextManager[Contestant]
    call: ToolCall | None
    wires: Sequence[Wire | None] = WIRES
    clients: Sequence[int] = CLIENTS
    is_slow: bool = False
    """It answers so seldom that a slice must be longer, and rounds fewer."""

    def races(self) -> list[Key]:
        return [Key(self.name, wire, clients) for clients in self.clients for wire in self.wires]


@dataclass(slots=True)
class Figures:
    """What came of it: the slices of each contestant, or why there are none."""

    slices: dict[Key, list[Slice]] = field(default_factory=dict)
    failures: dict[Key, str] = field(default_factory=dict)

    def each(self, key: Key, figure: str) -> list[float]:
        """One figure, round by round.

        Raises:
            Unmeasured: the contestant failed, or did not take part.
        """
        if key in self.failures or key not in self.slices:
            raise Unmeasured(self.failures.get(key, f"{key.who} did not take part."))
        return [float(getattr(one, figure)) for one in self.slices[key]]

    def median(self, key: Key, figure: str) -> float:
        return Spread.of(self.each(key, figure)).median


@dataclass(frozen=True, slots=True)
class _Lane:
    """One contestant on one wire at one number of clients, measured once a round."""

    key: Key
    entry: Entry
    contestant: Contestant
    load: Load

    def check(self) -> None:
        if self.entry.call is None or self.key.wire is None:
            contestants.check_platform(self.contestant)
        else:
            contestants.check(self.contestant, self.entry.call, self.key.wire)

    def seconds(self, sizes: Sizes) -> int:
        if self.entry.call is None:
            # The platform answers so often that a second is plenty.
            return 1
        return sizes.slice_seconds * (2 if self.entry.is_slow else 1)


class Race:
    def __init__(self, upstream: Contestant, workdir: Path, sizes: Sizes) -> None:
        self._upstream = upstream
        self._workdir = workdir
        self._sizes = sizes
        self._lanes: list[_Lane] = []
        self.figures = Figures()

    def enter(self, entries: Iterable[Entry], stack: ExitStack) -> None:
        """Start everybody. Who does not start has failed, and the others go on."""
        for entry in entries:
            try:
                contestant = stack.enter_context(entry.started)
            except Unmeasured as error:
                self.figures.failures |= dict.fromkeys(entry.races(), str(error))
                continue
            self._lanes += [_Lane(key, entry, contestant, self._load(entry, key)) for key in entry.races()]
        # Who is compared with whom is measured one after the other.
        self._lanes.sort(key=lambda lane: (lane.key.clients, ORDER.index(lane.key.wire)))

    def _load(self, entry: Entry, key: Key) -> Load:
        if entry.call is None or key.wire is None:
            return Load.of_get(contestants.SEARCH_PATH, self._workdir)
        return Load.of_call(entry.call, key.wire, self._workdir)

    def run(self) -> None:
        """Round after round, every lane in turn; each round begins with another one."""
        for lane in self._lanes:
            if lane.key.clients == MANY and not lane.entry.is_slow:
                self._guarded(lane, 1)
        self.figures.slices.clear()
        rounds = self._sizes.rounds
        for n in range(rounds):
            shift = n * len(self._lanes) // rounds
            for lane in self._lanes[shift:] + self._lanes[:shift]:
                if n < _SLOW_ROUNDS or not lane.entry.is_slow:
                    self._guarded(lane, lane.seconds(self._sizes))

    def _guarded(self, lane: _Lane, seconds: int) -> None:
        if lane.key in self.figures.failures:
            return
        try:
            lane.check()
            measured = self._sizes.quiet.take(lambda: self._measured(lane, seconds))
            lane.check()
        except (TimeoutError, subprocess.TimeoutExpired):
            self.figures.failures[lane.key] = wrk.NO_ANSWER
        except (Unmeasured, OSError, EOFError, subprocess.SubprocessError) as error:
            self.figures.failures[lane.key] = str(error) or type(error).__name__
        else:
            self.figures.slices.setdefault(lane.key, []).append(measured)

    def _measured(self, lane: _Lane, seconds: int) -> Slice:
        clients = lane.key.clients
        before = contestants.counts(self._upstream)["search"]
        measured = wrk.measure(lane.contestant, lane.load, clients, seconds)
        if lane.entry.call is not None and contestants.is_search(lane.entry.call):
            # Every answer must have come from the platform: what was cancelled in flight may come on top.
            asked = contestants.counts(self._upstream)["search"] - before
            if not measured.requests <= asked <= measured.requests + clients:
                raise Unmeasured(f"{measured.requests} answers came from {asked} searches on the platform.")
        return measured
