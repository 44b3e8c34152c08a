"""`python -m bench`: measure the budgets, show the table, write the page."""

import argparse
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bench import calls, chart, listing, machine, memory, report, search, stdio, streams, workers, writes
from bench.processes import Machine
from bench.quiet import Quiet
from bench.report import Ran
from bench.result import Row, Section, Unmeasured, Verdict
from bench.sizes import FULL, QUICK, Sizes

RESULTS = Path(__file__).with_name("RESULTS.md")
SECTIONS: dict[str, Callable[[Sizes, Path], Section]] = {
    "calls": calls.measure,
    "workers": workers.measure,
    "first-token": streams.first_token,
    "progress": streams.progress,
    "stdio": stdio.measure,
    "memory": memory.measure,
    "requests": memory.requests,
    "search": search.measure,
    "writes": writes.measure,
    "listing": listing.measure,
    "definitions": stdio.definitions,
}


def main(argv: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if argv is None else list(argv)
    arguments = _parser().parse_args(given)
    quiet = Quiet(arguments.patience)
    sizes = replace(FULL if arguments.full else QUICK, quiet=quiet)
    facts, sources, started = machine.described(), machine.fingerprint(), time.perf_counter()
    runs = [_ran(name, sizes) for name in SECTIONS if name in arguments.only]
    minutes = (time.perf_counter() - started) / 60
    command = shlex.join(["python", "-m", "bench", *given])
    facts += [
        ("run", f"`{command}`, {sizes.name} size, {minutes:.1f} minutes"),
        ("disturbance", quiet.told()),
    ]
    if machine.fingerprint() != sources:
        facts.append(("**not one version**", "sources changed during the run, so later sections measured other code"))
    page = report.page(facts, runs)
    output = arguments.output or (RESULTS if len(runs) == len(SECTIONS) else None)
    sys.stdout.write(page if output is None else report.table_of_budgets(runs) + "\n")
    if output is not None:
        output.write_text(page, encoding="utf-8")
        groups = [group for ran in runs for group in ran.section.chart]
        under = "; ".join(dict(facts)[name] for name in ("machine", "Python", "date"))
        output.with_suffix(".svg").write_text(chart.svg(groups, "Calls a second", under), encoding="utf-8")
        _say(f"Written to {output} and {output.with_suffix('.svg').name}.")
    return 0


def _ran(name: str, sizes: Sizes) -> Ran:
    """One section in a directory of its own. Its failure is a row of the table, and the others go on."""
    _say(f"{name} …")
    watch, started = Machine(), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="brains-bench-") as workdir:
        try:
            section = SECTIONS[name](sizes, Path(workdir))
        except (Unmeasured, OSError, EOFError, subprocess.SubprocessError) as error:
            reason = str(error) or type(error).__name__
            section = Section(name, [Row(name, "failed", "", "", Verdict.NOT_MEASURED, reason)])
    ran = Ran(name, section, time.perf_counter() - started, watch.foreign_share())
    _say(f"{name}: {ran.seconds:.0f} s, others took {ran.foreign:.0%} of the CPU")
    return ran


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench", description="Measure the budgets of the design, in one run.")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="within a quarter of an hour or so on two cores (default)")
    size.add_argument("--full", action="store_true", help="longer slices, 100,000 calls and 10,000 streams")
    parser.add_argument(
        "--only",
        type=_names,
        default=list(SECTIONS),
        metavar="NAME[,NAME]",
        help=f"some of {', '.join(SECTIONS)}; shows the page and leaves {RESULTS.name} as it is",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="on a machine others use: how long to go on measuring again what they disturbed (default: 0)",
    )
    parser.add_argument("--output", type=Path, help=f"write the page here (default: {RESULTS.name}, of a whole run)")
    return parser


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in SECTIONS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(SECTIONS)}")
    return names


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
