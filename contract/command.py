"""The commands of the harness: check a target, or record what fails on it."""

import argparse
import asyncio
import os
import re
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from contract import baseline, case, report
from contract.mcp_target import McpTarget
from contract.outcome import Result, Run, Unchecked
from contract.pipe import PipeSession
from contract.rpc import HANDSHAKE, MODERN, HttpSession
from contract.runner import AT_ONCE, run, run_calls
from contract.targets import HttpTarget, client_for

_EPILOG: Final = (
    "Exit codes: 0 when every must holds but for those of the baseline; 1 when one does not, or an entry of the "
    "baseline is stale; 2 when nothing could be run."
)
# What is told where nobody watches: every tenth part of the way.
_PARTS: Final = 10
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
# One vocabulary needs a project to be named: by a header, or by the environment of a command.
PROJECT: Final = "contract"


class _Wrong(Exception):
    """Nothing can be run; the text is one sentence."""


def main(argv: Sequence[str] | None = None, program: str = "python -m contract") -> int:
    arguments = _parser(program).parse_args(argv)
    try:
        _refuse_what_does_nothing(arguments)
        return _check(arguments) if arguments.verb == "check" else _record(arguments)
    except Unchecked as error:
        sys.stdout.write(report.unchecked(_target(arguments), str(error), as_json=getattr(arguments, "json", False)))
        return 2
    except (_Wrong, case.BadCase, baseline.BadBaseline) as error:
        sys.stderr.write(f"contract: {error}\n")
        return 2
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.stderr.write("contract: stopped; brains that the run made may be left, most of them named contract-…\n")
        return 130


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        program, description="Hold a brains platform, or a server of the tools, against the contract.", epilog=_EPILOG
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    check = verbs.add_parser("check", help="run the cases, and say what holds", epilog=_EPILOG)
    record = verbs.add_parser("record", help="run the cases, and write a baseline of what fails")
    for verb in (check, record):
        _add_target(verb)
    check.add_argument("--baseline", type=Path, metavar="FILE", help="failures that are expected")
    check.add_argument("--json", action="store_true", help="for machines, on standard output")
    check.add_argument("--junit", type=_writable, metavar="FILE", help="for CI, beside the card")
    record.add_argument("--output", type=_writable, metavar="FILE", help="where to (default: standard output)")
    return parser


def _add_target(verb: argparse.ArgumentParser) -> None:
    target = verb.add_mutually_exclusive_group(required=True)
    target.add_argument("--http", metavar="URL", help="a platform: where it is, without /v1")
    target.add_argument("--mcp", metavar="URL", help="a server of the tools, over Streamable HTTP")
    target.add_argument("--mcp-command", metavar="CMD", help="a server of the tools, over stdio")
    verb.add_argument("--token", type=_token, help="bearer token for it")
    verb.add_argument("--header", type=_header, action="append", default=[], help="with --mcp, as 'X-Brain: tea'")
    verb.add_argument("--wire", choices=(MODERN, HANDSHAKE), help="revision of MCP (default: the newest it knows)")
    verb.add_argument("--page", metavar="URL", help="a page that the target can fetch, for ingest by URL")
    verb.add_argument("--folder", type=_folder, metavar="DIR", help="a folder that the server can read, for its files")
    verb.add_argument("--only", action="append", default=[], metavar="PATTERN", help="ids of cases; may be repeated")
    verb.add_argument("--timeout", type=_positive, default=30.0, metavar="SECONDS", help="for a step (default: 30)")
    verb.add_argument("--at-once", type=_count, default=AT_ONCE, metavar="N", help=f"cases (default: {AT_ONCE})")


def _check(arguments: argparse.Namespace) -> int:
    expected = {} if arguments.baseline is None else baseline.read(arguments.baseline)
    made = report.Report(_run(arguments), expected, _known(arguments))
    if arguments.junit is not None:
        arguments.junit.write_text(made.junit(), encoding="utf-8")
    sys.stdout.write(made.json() + "\n" if arguments.json else made.text())
    return 0 if made.holds else 1


def _record(arguments: argparse.Namespace) -> int:
    done = _run(arguments)
    text = baseline.written(done.target.told, done.results)
    if arguments.output is None:
        sys.stdout.write(text)
    else:
        arguments.output.write_text(text, encoding="utf-8")
        failed = sum(one.outcome == "failed" for one in done.results)
        sys.stderr.write(f"{failed} failures written to {arguments.output}; say there why each is so\n")
    return 0


def _target(arguments: argparse.Namespace) -> str:
    return str(arguments.http or arguments.mcp or arguments.mcp_command)


def _refuse_what_does_nothing(arguments: argparse.Namespace) -> None:
    """Whoever gives an option believes that it counts."""
    kind = next(name for name in ("http", "mcp", "mcp_command") if getattr(arguments, name) is not None)
    useless = {"http": ("wire", "header", "folder"), "mcp": (), "mcp_command": ("token", "header")}[kind]
    for name in useless:
        if getattr(arguments, name):
            raise _Wrong(f"--{name} means nothing with --{kind.replace('_', '-')}")
    if not _target(arguments).strip():
        raise _Wrong(f"--{kind.replace('_', '-')} is empty")


def _known(arguments: argparse.Namespace) -> set[str]:
    return {one.id for one in (case.load() if arguments.http else case.load_calls())}


def _run(arguments: argparse.Namespace) -> Run[Any]:
    return asyncio.run(_until_told_to_stop(_on_platform(arguments) if arguments.http else _on_server(arguments)))


async def _until_told_to_stop(run: Coroutine[Any, Any, Run[Any]]) -> Run[Any]:
    """A job that is cancelled is told by SIGTERM: what the run made is taken away then too."""
    task = asyncio.current_task()
    assert task is not None
    if os.name == "posix":
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await run


async def _on_platform(arguments: argparse.Namespace) -> Run[Any]:
    url = _address(arguments.http, "--http").rstrip("/").removesuffix("/v1")
    chosen = _chosen(case.load(), arguments)
    async with client_for(url) as client:
        target = HttpTarget(url, client, arguments.token, arguments.page, arguments.timeout)
        return await run(target, chosen, at_once=arguments.at_once, tell=_progress)


async def _on_server(arguments: argparse.Namespace) -> Run[Any]:
    chosen = _chosen(case.load_calls(), arguments)
    async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
        session = _session(arguments, client)
        name = arguments.mcp or arguments.mcp_command
        target = McpTarget(name, session, arguments.page, arguments.folder, arguments.timeout)
        return await run_calls(target, chosen, at_once=arguments.at_once, tell=_progress)


def _session(arguments: argparse.Namespace, client: httpx.AsyncClient) -> HttpSession | PipeSession:
    if arguments.mcp_command:
        return PipeSession(arguments.mcp_command, arguments.wire, {"MEMOAI_PROJECT": PROJECT, **os.environ})
    headers = {"x-memoai-project": PROJECT, **dict(arguments.header)}
    if arguments.token:
        headers["authorization"] = f"Bearer {arguments.token}"
    return HttpSession(_address(arguments.mcp, "--mcp"), client, headers, arguments.wire)


def _chosen(every: list[case.AnyCase], arguments: argparse.Namespace) -> list[case.AnyCase]:
    if chosen := case.selected(every, arguments.only):
        return chosen
    raise _Wrong(f"no case matches {', '.join(arguments.only)}")


def _address(url: str, option: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _Wrong(f"{option} should be an http or https URL, not {url!r}")
    return url


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


def _header(text: str) -> tuple[str, str]:
    name, _, value = text.partition(":")
    if not _HEADER.fullmatch(name) or not value.strip().isascii() or not value.strip().isprintable():
        raise argparse.ArgumentTypeError("a header as 'Name: value'")
    return name.lower(), value.strip()


def _token(text: str) -> str:
    if not text.isascii() or not text.isprintable() or " " in text:
        raise argparse.ArgumentTypeError("one word of ASCII characters")
    return text


def _writable(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError("a file that can be written")
    return path


def _folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError("a folder that is there")
    return Path(text).resolve()
