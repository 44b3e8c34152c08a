"""Where a call's CPU goes by package, as py-spy sees it; nothing where py-spy is not installed."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from bench import contestants, wrk
from bench.result import table
from bench.wire import MODERN
from bench.wrk import Load

_SECONDS = 6
_CLIENTS = 16
_LEAST_SHARE = 0.015
_FILE = re.compile(r"\((.+?):\d+\)$")
ABSENT = "By package: not measured, py-spy is not installed (`pip install py-spy` to see it here)."


def by_package(workdir: Path) -> str:
    """The packages whose code ran when a sample was taken, during memory_search at 16 clients."""
    spy = shutil.which("py-spy", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if spy is None:
        return ABSENT
    samples = workdir / "samples.txt"
    with contestants.platform(workdir) as upstream, contestants.gateway(upstream, workdir) as served:
        contestants.check(served, contestants.SEARCH, MODERN)
        load = Load.of_call(contestants.SEARCH, MODERN, workdir)
        wrk.measure(served, load, _CLIENTS, 1)
        command = [spy, "record", "-p", str(served.process.pid), "-d", str(_SECONDS - 2), "-r", "250", "-f", "raw"]
        with subprocess.Popen(
            [*command, "-o", str(samples)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as recording:
            wrk.measure(served, load, _CLIENTS, _SECONDS)
            recording.wait(60)
    if not samples.exists():
        return "By package: not measured, py-spy may not look at other processes here."
    return _told(samples.read_text(encoding="utf-8"))


def _told(samples: str) -> str:
    taken: Counter[str] = Counter()
    for line in samples.splitlines():
        stack, _, count = line.rpartition(" ")
        taken[_package(stack.rsplit(";", 1)[-1])] += int(count)
    total = sum(taken.values()) or 1
    lines = [[name, f"{n / total:.0%}"] for name, n in taken.most_common() if n / total >= _LEAST_SHARE]
    head = f"By package: whose code ran, in {total:,} samples of `memory_search` at {_CLIENTS} clients."
    return head + "\n\n" + table(["Package", "share of samples"], lines)


def _package(frame: str) -> str:
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
