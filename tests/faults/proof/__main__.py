"""`python -m tests.faults.proof [--small] [part ...]`: run the proof, show it, and write its page."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from gateway.app import log
from tests.faults.proof import report
from tests.faults.proof.part import Part
from tests.faults.proof.progress import say

PAGE = Path(__file__).parents[1] / "PROOF.md"
# In the order of the page. A part's module is imported when it is run.
PARTS = {
    "writes": "tests.faults.proof.writes",
    "kills": "tests.faults.proof.kills",
    "providers": "tests.faults.proof.providers",
    "overload": "tests.faults.overload",
    "streams": "tests.faults.streams",
    "crowd": "tests.faults.crowd",
    "rolling": "tests.faults.proof.rolling",
}


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    wanted = [name for name in PARTS if name in (arguments.parts or PARTS)]
    # A small run is to see that all is well: it must not stand where the full one is to be read.
    output = arguments.output or (None if arguments.small else PAGE)
    failed = 0
    for name in wanted:
        say(f"{name} …")
        facts, sources = report.facts("small" if arguments.small else "full"), report.fingerprint()
        part = _ran(name, full=not arguments.small)
        if report.fingerprint() != sources:
            facts += ", **not one version**: sources changed during the run"
        failed += bool(part.failures)
        section = report.section(part, facts)
        sys.stdout.write(section + "\n")
        # After each: what was measured is kept, whatever becomes of the next.
        if output is not None:
            _merge(output, name, section)
    return 1 if failed else 0


def _ran(name: str, *, full: bool) -> Part:
    part: Part = importlib.import_module(PARTS[name]).run(full)
    say(f"{name}: {len(part.failures)} failures, {part.seconds:.0f} s")
    return part


def _merge(output: Path, name: str, section: str) -> None:
    before = report.sections(output.read_text(encoding="utf-8")) if output.exists() else {}
    now = {**before, name: section}
    output.write_text(report.page({part: now[part] for part in PARTS if part in now}), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.faults.proof", description="Run the proof and write its page.")
    parser.add_argument("parts", nargs="*", metavar="PART", choices=[[], *PARTS], help=f"of {', '.join(PARTS)}")
    parser.add_argument("--small", action="store_true", help="every part in a small size; the page is not written")
    parser.add_argument("--output", type=Path, help="the page to write (default: tests/faults/PROOF.md, if full)")
    return parser


if __name__ == "__main__":
    # Some parts run the gateway in this process, and what it logs is not what is to be read here.
    log.configure("error", "text")
    sys.exit(main())
