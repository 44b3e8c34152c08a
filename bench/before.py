"""`python -m bench.before TREE`: one memory_search and one memory_ask in another checkout, and in this one, by package.

Both gateways run with the packages of this environment, one after the other, several times.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench import contestants, machine, wrk
from bench.processes import ROOT, Contestant
from bench.profile import package, packages, sampled
from bench.result import table
from bench.streams import run, streamed
from bench.wire import MODERN
from bench.wrk import Load

PAGE = Path(__file__).with_name("PROFILE.md")
_ROUNDS = 3
_SECONDS = 6
_CLIENTS = 16
_DELTAS = 1000
_LEAST_SHARE = 0.01
_FUNCTIONS = 15
# What is ours, or was our choice: the rest is MCP's and FastMCP's way of serving a request, and Python's of running it.
_OURS = frozenset({"gateway", "httpx", "httpx_sse", "httpcore", "h11", "aiohttp", "yarl", "tenacity", "structlog"})

Work = Callable[[Contestant, Path], float]
"""Loads a server for some seconds. The CPU of one of what it did, in milliseconds."""


@dataclass(slots=True)
class Side:
    """One of the two trees."""

    tree: Path
    frames: Counter[str] = field(default_factory=Counter)
    cpu_ms: list[float] = field(default_factory=list)

    def microseconds(self, count: int) -> float:
        return count / (self.frames.total() or 1) * statistics.median(self.cpu_ms) * 1e3


def search(served: Contestant, workdir: Path) -> float:
    return wrk.measure(served, Load.of_call(contestants.SEARCH, MODERN, workdir), _CLIENTS, _SECONDS).cpu_ms


def ask(served: Contestant, _workdir: Path) -> float:
    """By the word: an answer may have any number of them."""

    async def asked() -> int:
        until, words = time.monotonic() + _SECONDS, 0
        while time.monotonic() < until:
            answers = (streamed(served.port, contestants.ask(_DELTAS), MODERN) for _ in range(2))
            words += sum(one.notifications for one in await asyncio.gather(*answers))
        return words

    before = served.cpu_seconds()
    words: int = run(asked())
    return (served.cpu_seconds() - before) * 1e3 / words


_WORK: dict[str, tuple[Work, str]] = {
    "`memory_search`": (search, f"one call, {_CLIENTS} clients, 2026-07-28 wire"),
    "`memory_ask`": (ask, f"one word of an answer of {_DELTAS:,}, two answers at once, 2026-07-28 wire"),
}


def compared(work: Work, before: Path) -> tuple[Side, Side]:
    sides = Side(before), Side(ROOT)
    for _ in range(_ROUNDS):
        for side in sides:
            with tempfile.TemporaryDirectory(prefix="brains-bench-") as folder, ExitStack() as stack:
                workdir = Path(folder)
                upstream = stack.enter_context(contestants.platform(workdir))
                served = stack.enter_context(contestants.gateway(upstream, workdir, tree=side.tree))
                contestants.check(served, contestants.SEARCH, MODERN)
                # Measured apart: whoever looks takes time, too.
                side.cpu_ms.append(work(served, workdir))
                side.frames += sampled(served, workdir, lambda: work(served, workdir))[0]  # noqa: B023  # used at once
    return sides


def told(name: str, what: str, before: Side, after: Side) -> str:
    was, now = packages(before.frames), packages(after.frames)
    shares = {one: (was[one] / before.frames.total(), now[one] / after.frames.total()) for one in was | now}
    shown = sorted((one for one in shares if max(shares[one]) >= _LEAST_SHARE), key=lambda one: -max(shares[one]))
    others = [one for one in shares if one not in shown]
    lines = [[one, *_microseconds(before, was[one], after, now[one])] for one in shown]
    lines.append(["others", *_microseconds(before, sum(was[o] for o in others), after, sum(now[o] for o in others))])
    lines.append(["**all**", *_microseconds(before, was.total(), after, now.total())])
    functions: Counter[str] = Counter()
    for frame, count in after.frames.items():
        if package(frame) not in _OURS:
            functions[frame.rpartition(":")[0] + ")"] += count
    left = [[f"`{frame}`", f"{after.microseconds(n):.0f}"] for frame, n in functions.most_common(_FUNCTIONS)]
    ours = after.microseconds(sum(n for one, n in now.items() if one in _OURS))
    return "\n\n".join(
        [
            f"## {name}",
            f"CPU in µs: {what}.",
            table(["Package", "before", "after"], lines),
            f"Of what is left, {ours:,.0f} µs are in the gateway and the libraries it chose; the rest only FastMCP, the"
            " SDK and what they stand on could give. Their functions that took most:",
            table(["Function", "µs"], left),
        ]
    )


def _microseconds(before: Side, was: int, after: Side, now: int) -> list[str]:
    return [f"{before.microseconds(was):,.0f}", f"{after.microseconds(now):,.0f}"]


def main() -> int:
    parser = argparse.ArgumentParser("python -m bench.before", description=__doc__)
    parser.add_argument("tree", type=Path, help="a checkout of another commit")
    tree: Path = parser.parse_args().tree.resolve()
    commit = subprocess.run(
        ["git", "-C", str(tree), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
    )
    facts = dict(machine.described())
    parts = [
        "# Before and after",
        f"Written by `python -m bench.before`, {facts['date']}, on {facts['machine']}, {facts['Python']}. Before is "
        f"commit {commit.stdout.strip()}, after is {facts['commit']}; both with {facts['packages']}. The samples of "
        "py-spy, taken without stopping the gateway, are spread over its CPU time, which is the median of "
        f"{_ROUNDS} rounds.",
        *(told(name, what, *compared(work, tree)) for name, (work, what) in _WORK.items()),
    ]
    PAGE.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    sys.stderr.write(f"Written to {PAGE.name}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
