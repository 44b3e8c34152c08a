"""Where the CPU of a call goes: the brain by itself, and what is around it."""

import json
import subprocess
import sys

from bench.processes import ROOT, Contestant, environment
from bench.quiet import Quiet
from bench.race import MANY, Figures, Key
from bench.result import Spread, Unmeasured, table
from bench.wire import MODERN

_PROBES = 3


def by_part(figures: Figures, names: tuple[str, str], upstream: Contestant, quiet: Quiet) -> str:
    """One call in parts, by the floor and the gateway, in this order."""
    try:
        least, total = (figures.median(Key(name, MODERN, MANY), "cpu_ms") for name in names)
        brain = Spread.of([quiet.take(lambda: _brain_alone(upstream)) for _ in range(_PROBES)]).median
    except Unmeasured as error:
        return f"CPU of one call by part: not measured. {error}"
    shares = [
        ("the brain: chain, retries, what the caller may see, request to the platform, JSON; measured alone", brain),
        ("the rest: HTTP, who calls, limits, MCP, arguments, words for people, log line", total - brain),
    ]
    lines = [[what, f"{ms:.2f}", f"{ms / total:.0%}"] for what, ms in shares]
    lines.append(["**one `memory_search`**", f"**{total:.2f}**", ""])
    lines.append([f"for comparison: the {names[0]}, which does only what cannot be left out", f"{least:.2f}", ""])
    head = f"CPU of one call by part, at {MANY} clients, {MODERN.version} wire."
    return head + "\n\n" + table(["Part", "ms", "share"], lines)


def _brain_alone(upstream: Contestant) -> float:
    command = ["bench.probe", "--url", upstream.url, "--clients", str(MANY), "--seconds", "2"]
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
