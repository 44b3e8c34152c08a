"""Where a call's CPU goes by package, as py-spy sees it; nothing where py-spy is not installed."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from bench import contestants, wrk
from bench.processes import Contestant
from bench.result import Unmeasured, table
from bench.wire import MODERN
from bench.wrk import Load

T = TypeVar("T")
_SECONDS = 6
_CLIENTS = 16
_LEAST_SHARE = 0.015
_FILE = re.compile(r"\((.+?):\d+\)$")


def by_package(workdir: Path) -> str:
    """The packages whose code ran when a sample was taken, during memory_search at 16 clients."""
    with contestants.platform(workdir) as upstream, contestants.gateway(upstream, workdir) as served:
        contestants.check(served, contestants.SEARCH, MODERN)
        load = Load.of_call(contestants.SEARCH, MODERN, workdir)
        wrk.measure(served, load, _CLIENTS, 1)
        frames, _ = sampled(served, workdir, lambda: wrk.measure(served, load, _CLIENTS, _SECONDS))
    taken = packages(frames)
    total = taken.total() or 1
    lines = [[name, f"{n / total:.0%}"] for name, n in taken.most_common() if n / total >= _LEAST_SHARE]
    head = f"By package: whose code ran, in {total:,} samples of `memory_search` at {_CLIENTS} clients."
    return head + "\n\n" + table(["Package", "share of samples"], lines)


def sampled(served: Contestant, workdir: Path, work: Callable[[], T]) -> tuple[Counter[str], T]:
    """Where a server was each time it was looked at during some work, and what came of that.

    It is not stopped for it: stopped, it is found in system calls far more often than it is there.

    Raises:
        Unmeasured: py-spy is missing, or may not look.
    """
    spy = shutil.which("py-spy", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if spy is None:
        raise Unmeasured("py-spy is not installed (`pip install py-spy` to see it here).")
    samples = workdir / "samples.txt"
    samples.unlink(missing_ok=True)
    looks = ["-d", str(_SECONDS - 2), "-r", "250", "-f", "raw", "--nonblocking", "-o", str(samples)]
    with subprocess.Popen(
        [spy, "record", "-p", str(served.process.pid), *looks], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as recording:
        done = work()
        recording.wait(60)
    if not samples.exists():
        raise Unmeasured("py-spy may not look at other processes here.")
    frames: Counter[str] = Counter()
    for line in samples.read_text(encoding="utf-8").splitlines():
        stack, _, count = line.rpartition(" ")
        # Looked at while it goes on, it is sometimes misread.
        if _FILE.search(frame := stack.rsplit(";", 1)[-1]):
            frames[frame] += int(count)
    return frames, done


def packages(frames: Counter[str]) -> Counter[str]:
    taken: Counter[str] = Counter()
    for frame, count in frames.items():
        taken[package(frame)] += count
    return taken


def package(frame: str) -> str:
    """The top-level package of a frame such as `send (httpx/_client.py:1629)`; of Python itself, the module too."""
    matched = _FILE.search(frame)
    path = matched[1] if matched else frame
    if "importlib" in path:
        return "Python: import"
    path = path.rpartition("site-packages/")[2]
    head, slash, _ = path.lstrip("/").partition("/")
    if not slash:
        return f"Python: {head.removesuffix('.py')}"
    return f"Python: {head}" if head in {"asyncio", "json", "logging", "encodings", "http", "email"} else head
