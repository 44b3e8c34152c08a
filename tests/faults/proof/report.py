"""The page of the proof: a section for each part, with the commit, date and machine it was run on."""

import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from tests.faults.proof.part import Part

_INTRODUCTION = """# Proof

Written by `make proof`: real gateways in front of real platforms, with faults in between. A part that was not run again
keeps its figures, with the commit and the date they are of.
"""
_ROOT = Path(__file__).parents[3]
_SECTION = re.compile(r"<!-- part (\w+) -->\n(.*?)<!-- end of part -->\n", re.DOTALL)
# Enough to look into it; the rest is more of the same.
_FAILURES_SHOWN = 20


def sections(page: str) -> dict[str, str]:
    """The sections of a page that was written before, by the names of their parts."""
    return dict(_SECTION.findall(page))


def page(written: Mapping[str, str]) -> str:
    framed = (f"<!-- part {name} -->\n{text}<!-- end of part -->\n" for name, text in written.items())
    return "\n".join([_INTRODUCTION, *framed])


def section(part: Part, facts: str) -> str:
    """One part as it stands in the page."""
    verdict = "Held." if not part.failures else f"**Did not hold: {len(part.failures)} failures.**"
    blocks = [f"## {part.title}", f"{part.claim} {verdict}", _table(part), *part.notes]
    if part.failures:
        shown = [f"- {_plain(failure)}" for failure in part.failures[:_FAILURES_SHOWN]]
        blocks.append("\n".join(shown))
    blocks.append(f"{facts}, {part.seconds:.0f} s.")
    return "\n\n".join(blocks) + "\n"


def facts(size: str) -> str:
    """Where and when: the commit, the date, the machine, and how large the run was."""
    moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    return f"Commit {commit()}, {moment}, {machine}, {size} size"


def fingerprint() -> str:
    """What the sources are now: a gateway is what they were when it was started."""
    sources = sorted(path for folder in ("gateway", "contract") for path in (_ROOT / folder).rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def commit() -> str:

    def git(*arguments: str) -> str:
        ran = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False)
        return ran.stdout.strip() if ran.returncode == 0 else ""

    # The page itself is always being changed.
    changed = git("status", "--porcelain", "--", ".", ":!tests/faults/PROOF.md")
    name = git("rev-parse", "--short", "HEAD") or "unknown"
    return f"{name} + changes" if changed else name


def _table(part: Part) -> str:
    lines = [part.headers, tuple("---" for _ in part.headers), *part.rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _plain(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|")
