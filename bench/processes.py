"""Processes of this run: started on free loopback ports, watched by /proc, ended by their own id."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.result import Unmeasured

ROOT = Path(__file__).resolve().parent.parent
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_START_SECONDS = 30.0
_STOP_SECONDS = 15.0
# What would make a contestant another one than the same command elsewhere.
_FOREIGN_PREFIXES = ("BRAINS_", "JB_", "JBMCP_", "FASTMCP_", "BENCH_", "PYTHON", "UVICORN_")


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN_PREFIXES)}
    return inherited | dict(extra)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True)
class Contestant:
    """A running server."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    stderr: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cpu_seconds(self) -> float:
        """CPU time of the process and all below it so far."""
        return sum(_cpu_seconds(pid) for pid in family(self.process.pid))

    def cpu_of_each_worker(self) -> list[float]:
        return [_cpu_seconds(pid) for pid in family(self.process.pid)[1:]]

    def rss_bytes(self) -> int:
        fields = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()
        return int(fields[1]) * _PAGE

    def check_alive(self) -> None:
        if self.process.poll() is not None:
            raise Unmeasured(f"{self.name} ended with status {self.process.returncode}: {_last_words(self.stderr)}")


@contextmanager
def running(
    name: str, command: Sequence[str], workdir: Path, *, env: Mapping[str, str] | None = None, tree: Path = ROOT
) -> Iterator[Contestant]:
    """A Python module of a tree as a server: `--port` is added to its command. Ended, by id, however this is left."""
    port = free_port()
    stderr = workdir / f"{name.replace(' ', '-')}-{port}.log"
    with stderr.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command, "--port", str(port)],
            cwd=tree,
            env=environment(env or {}),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    contestant = Contestant(name, port, process, stderr)
    try:
        _wait_until_it_listens(contestant)
        yield contestant
    finally:
        _stop(process)


def _wait_until_it_listens(contestant: Contestant) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        contestant.check_alive()
        try:
            socket.create_connection(("127.0.0.1", contestant.port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise Unmeasured(f"{contestant.name} did not listen within {_START_SECONDS:.0f} s.")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_words(stderr: Path) -> str:
    lines = stderr.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "it said nothing"


def family(pid: int) -> list[int]:
    """The process and all its descendants that are alive."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the state on; none when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _cpu_seconds(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


class Machine:
    """How busy the machine was, and how much of that was not this run."""

    def __init__(self) -> None:
        self._busy, self._total = _machine_ticks()
        self._own = _own_ticks()

    def foreign_share(self) -> float:
        """The share of all CPU that others took since this was made."""
        busy, total = _machine_ticks()
        foreign = (busy - self._busy) - (_own_ticks() - self._own)
        return max(0.0, foreign / max(1, total - self._total))


def _machine_ticks() -> tuple[int, int]:
    fields = [int(field) for field in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    total = sum(fields)
    return total - fields[3] - fields[4], total


def _own_ticks() -> int:
    """CPU of this run: those alive, and through their parents those that have ended."""
    return sum(int(tick) for pid in family(os.getpid()) for tick in _stat(pid)[11:15])
