"""What a figure depends on besides the code: commit, machine, versions."""

import hashlib
import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.processes import ROOT

_PACKAGES = (
    "fastmcp",
    "mcp",
    "httpx",
    "httpcore",
    "aiohttp",
    "uvicorn",
    "uvloop",
    "httptools",
    "pydantic",
    "structlog",
)


def fingerprint() -> str:
    """What the sources are now: a contestant is what it was when it was started."""
    sources = sorted(path for folder in ("gateway", "contract", "bench") for path in (ROOT / folder).rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def described() -> list[tuple[str, str]]:
    return [
        ("date", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("commit", _commit()),
        ("machine", f"{os.cpu_count()} cores, {_cpu()}, {_memory()}, {platform.system()} {platform.release()}"),
        ("Python", f"{platform.python_implementation()} {platform.python_version()}"),
        ("packages", ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)),
        ("load", _said(["wrk", "-v"]).partition(" Copyright")[0] or "wrk is missing"),
    ]


def _commit() -> str:
    commit = _said(["git", "rev-parse", "--short=12", "HEAD"])
    if not commit:
        return "none"
    changed = len(_said(["git", "status", "--porcelain", "--", "gateway", "contract", "bench/*.py"]).splitlines())
    return f"{commit}, with {changed} changed files" if changed else commit


def _said(command: list[str]) -> str:
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=10, check=False)
    # wrk tells its version with a failure.
    return done.stdout.strip() if done.returncode == 0 or command[0] == "wrk" else ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory() -> str:
    kib = int(Path("/proc/meminfo").read_text(encoding="ascii").split()[1])
    return f"{kib / 1024 / 1024:.0f} GiB"
