"""The commands of the harness: check a target, or record what fails on it."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from contract import baseline, case, report
from contract.case import Case
from contract.runner import AT_ONCE, Result, Run, run
from contract.targets import HttpTarget, client_for

_EPILOG: Final = (
    "Exit codes: 0 when every must holds but for those of the baseline; 1 when one does not, or an entry of the "
    "baseline is stale; 2 when nothing could be run."
)
# What is told where nobody watches: every tenth part of the way.
_PARTS: Final = 10


class _Wrong(Exception):
    """Nothing can be run; the text is one sentence."""


def main(argv: Sequence[str] | None = None, program: str = "python -m contract") -> int:
    arguments = _parser(program).parse_args(argv)
    try:
        return _check(arguments) if arguments.verb == "check" else _record(arguments)
    except (_Wrong, case.BadCase, baseline.BadBaseline) as error:
        sys.stderr.write(f"contract: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("contract: stopped; brains whose names begin with contract- may be left\n")
        return 130


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        program, description="Hold a brains platform against the contract.", epilog=_EPILOG
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    check = verbs.add_parser("check", help="run the cases, and say what holds", epilog=_EPILOG)
    record = verbs.add_parser("record", help="run the cases, and write a baseline of what fails")
    for verb in (check, record):
        verb.add_argument("--http", required=True, metavar="URL", help="where the platform is, without /v1")
        verb.add_argument("--token", help="bearer token for it")
        verb.add_argument("--page", metavar="URL", help="a page that the platform can fetch, for ingest by URL")
        verb.add_argument(
            "--only", action="append", default=[], metavar="PATTERN", help="ids of cases; may be repeated"
        )
        verb.add_argument("--timeout", type=_positive, default=30.0, metavar="SECONDS", help="for a step (default: 30)")
        verb.add_argument("--at-once", type=_count, default=AT_ONCE, metavar="N", help=f"cases (default: {AT_ONCE})")
    check.add_argument("--baseline", type=Path, metavar="FILE", help="failures that are expected")
    check.add_argument("--json", action="store_true", help="for machines, on standard output")
    check.add_argument("--junit", type=Path, metavar="FILE", help="for CI, beside the card")
    record.add_argument("--output", type=Path, metavar="FILE", help="where to (default: standard output)")
    return parser


def _check(arguments: argparse.Namespace) -> int:
    expected = {} if arguments.baseline is None else baseline.read(arguments.baseline)
    every = case.load()
    made = report.Report(_run(arguments, every), expected, {one.id for one in every})
    if arguments.junit is not None:
        arguments.junit.write_text(made.junit(), encoding="utf-8")
    sys.stdout.write(made.json() + "\n" if arguments.json else made.text())
    return 0 if made.holds else 1


def _record(arguments: argparse.Namespace) -> int:
    done = _run(arguments, case.load())
    text = baseline.written(arguments.http, done.target.dialect, done.results)
    if arguments.output is None:
        sys.stdout.write(text)
    else:
        arguments.output.write_text(text, encoding="utf-8")
    return 0


def _run(arguments: argparse.Namespace, every: list[Case]) -> Run:
    url = _address(arguments.http)
    chosen = case.selected(every, arguments.only)
    if not chosen:
        raise _Wrong(f"no case matches {', '.join(arguments.only)}")

    async def done() -> Run:
        async with client_for(url) as client:
            target = HttpTarget(url, client, arguments.token, arguments.page, arguments.timeout)
            return await run(target, chosen, at_once=arguments.at_once, tell=_progress)

    return asyncio.run(done())


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _Wrong(f"--http should be an http or https URL, not {url!r}")
    return url.rstrip("/").removesuffix("/v1")


def _progress(result: Result, done: int, total: int) -> None:
    if sys.stderr.isatty():
        line = f"{done}/{total} {result.case.id}"[:78]
        sys.stderr.write(f"\r{line:78}" + ("\n" if done == total else ""))
    elif done == total or done * _PARTS // total > (done - 1) * _PARTS // total:
        sys.stderr.write(f"{done} of {total} cases\n")
    sys.stderr.flush()


def _positive(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError("a number of seconds above 0")
    return seconds


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise argparse.ArgumentTypeError("a whole number from 1 to 64")
    return int(text)
