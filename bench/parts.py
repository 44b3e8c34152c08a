"""Where the CPU of a call goes: contestants that each do a little more than the one before."""

import json
import subprocess
import sys

from bench.processes import ROOT, Contestant, environment
from bench.quiet import Quiet
from bench.race import MANY, Figures, Key
from bench.result import Spread, Unmeasured, table
from bench.wire import MODERN

TUNED, PAYLOAD = "tuned FastMCP, echo", "tuned FastMCP, answer of a search"
_PROBES = 3


def by_part(figures: Figures, names: tuple[str, str, str], upstream: Contestant, quiet: Quiet) -> str:
    """One call of the gateway in parts, by the low-level SDK, bare FastMCP and the gateway, in this order."""
    low_level, bare, gateway = names
    try:
        cpu = {name: figures.median(Key(name, MODERN, MANY), "cpu_ms") for name in (*names, TUNED, PAYLOAD)}
        brain = Spread.of([quiet.take(lambda: _brain_alone(upstream)) for _ in range(_PROBES)]).median
    except Unmeasured as error:
        return f"CPU of one call by part: not measured. {error}"
    shares = [
        ("MCP, as the low-level SDK does it for an echo", cpu[low_level]),
        ("what FastMCP adds, without its hidden `tools/list` and with a frozen heap", cpu[TUNED] - cpu[low_level]),
        ("the answer of a search instead of an echo's, in FastMCP and the SDK", cpu[PAYLOAD] - cpu[TUNED]),
        ("the gateway's brain: chain, request, JSON, as measured alone", brain),
        (
            "the rest of the gateway: arguments, words, log line; and what parts cost more together than apart",
            cpu[gateway] - cpu[PAYLOAD] - brain,
        ),
    ]
    total = cpu[gateway]
    lines = [[what, f"{ms:.2f}", f"{ms / total:.0%}"] for what, ms in shares]
    lines.append(["**one `memory_search`**", f"**{total:.2f}**", ""])
    lines.append(["for comparison: an echo on bare FastMCP, hidden `tools/list` and all", f"{cpu[bare]:.2f}", ""])
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
