"""Load by wrk: a Lua script for the request, one line of figures back, and no figure when anything failed."""

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from bench.processes import Contestant
from bench.result import Unmeasured
from bench.wire import PATH, ToolCall, Wire

_MARK = "bench-figures"
_DONE = f"""
done = function(summary, latency, requests)
  local e = summary.errors
  io.stderr:write(string.format("{_MARK} %d %d %d %d %d %d %d %d %d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), e.connect, e.read, e.write, e.status, e.timeout))
end
"""
_KINDS_OF_ERROR = ("connect", "read", "write", "status", "timeout")
NO_ANSWER = "no answer"
INSTALL = "wrk is missing: install it with `apt-get install wrk` (Debian and Ubuntu)."


@dataclass(frozen=True, slots=True)
class Load:
    """What to ask for, written down as a wrk script."""

    path: str
    script: Path

    @classmethod
    def of_call(cls, call: ToolCall, wire: Wire, workdir: Path) -> "Load":
        lines = ['wrk.method = "POST"', f"wrk.body = {_quoted(call.body(wire).decode())}"]
        lines += [f"wrk.headers[{_quoted(name)}] = {_quoted(value)}" for name, value in call.headers(wire).items()]
        return cls(PATH, _written(workdir / f"{call.tool}-{wire.version}{'-token' if call.token else ''}.lua", lines))

    @classmethod
    def of_get(cls, path: str, workdir: Path) -> "Load":
        return cls(path, _written(workdir / "get.lua", []))


@dataclass(frozen=True, slots=True)
class Slice:
    """The figures of one run of wrk."""

    requests: int
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    """CPU of the contestant for one call."""
    load_cores: float
    """How many cores wrk itself took."""


def require_wrk() -> None:
    if shutil.which("wrk") is None:
        raise Unmeasured(INSTALL)


def measure(contestant: Contestant, load: Load, clients: int, seconds: int) -> Slice:
    """Load a contestant with so many clients, each waiting for its answer before it asks again.

    Raises:
        Unmeasured: wrk failed, or any answer did.
    """
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "10s", "-s", str(load.script)]
    before, load_before = contestant.cpu_seconds(), os.times()
    done = subprocess.run(
        [*command, f"http://127.0.0.1:{contestant.port}{load.path}"],
        capture_output=True,
        text=True,
        timeout=seconds + 30,
        check=False,
    )
    cpu, load_after = contestant.cpu_seconds() - before, os.times()
    contestant.check_alive()
    line = next((line for line in done.stderr.splitlines() if line.startswith(_MARK)), None)
    if line is None:
        raise Unmeasured(f"wrk failed on {contestant.name}: {done.stderr.strip()[:200]}")
    requests, duration, p50, p99, *errors = (int(word) for word in line.split()[1:])
    if any(errors) or not requests:
        counted = ", ".join(f"{n} {kind}" for kind, n in zip(_KINDS_OF_ERROR, errors, strict=True) if n)
        raise Unmeasured(f"{contestant.name} at {clients} clients: {counted or NO_ANSWER} of {requests} answers.")
    taken = (load_after.children_user + load_after.children_system) - (
        load_before.children_user + load_before.children_system
    )
    # What was in flight when wrk left is cancelled now, not during the next slice.
    time.sleep(0.25)
    wall = duration / 1e6
    return Slice(requests, requests / wall, p50 / 1e3, p99 / 1e3, cpu * 1e3 / requests, taken / wall)


def _written(script: Path, lines: list[str]) -> Path:
    script.write_text("\n".join([*lines, _DONE]), encoding="utf-8")
    return script


def _quoted(text: str) -> str:
    """A Lua string: JSON's escapes are Lua's as well, for text that is ASCII."""
    return json.dumps(text)
