"""The commands of the harness."""

import argparse
import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

import httpx

from contract import baseline, case, cleaning, comparing, listing, machines, page, report
from contract.masking import mask, masked
from contract.mcp_target import McpTarget
from contract.options import Wrong, address, parser, refuse_what_does_nothing, secrets_of, target_of, token_of
from contract.outcome import Result, Run, Unchecked
from contract.parts import Head
from contract.pipe import PipeSession
from contract.rpc import HttpSession
from contract.runner import run, run_calls
from contract.targets import HttpTarget, client_for

# How often progress is printed if the output is not a terminal: after every tenth of the cases.
_PARTS: Final = 10
# One vocabulary needs a project to be named: by a header, or by the environment of a command.
PROJECT: Final = "contract"
_TRIES: Final = {
    "traversal": "paths and names that climb out of a brain",
    "injection": "texts that inject",
    "sizes": "bodies of up to 26 MB",
}
Made = TypeVar("Made")


def main(argv: Sequence[str] | None = None, program: str = "python -m contract") -> int:
    arguments = parser(program).parse_args(argv)
    try:
        return _VERBS[arguments.verb](arguments)
    except Unchecked as error:
        if arguments.verb == "clean":
            sys.stdout.write(f"{masked(str(error), secrets_of(arguments))}.\nNothing was deleted.\n")
            return 2
        as_json = getattr(arguments, "json", False)
        problem = masked(str(error), secrets_of(arguments))
        sys.stdout.write(machines.unchecked(target_of(arguments), problem, as_json=as_json))
        return 2
    except (Wrong, case.BadCase, baseline.BadBaseline) as error:
        sys.stderr.write(f"contract: {error}\n")
        return 2
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.stderr.write("contract: stopped; what the run made may be left, under names that begin with contract-\n")
        return 130


def _check(arguments: argparse.Namespace) -> int:
    refuse_what_does_nothing(arguments)
    expected = {} if arguments.baseline is None else baseline.read(arguments.baseline)
    known = {one.id for one in (case.load() if arguments.http else case.load_calls())}
    made = report.Report(_run(arguments), expected, known)
    if arguments.report is not None:
        arguments.report.write_text(machines.as_json(made) + "\n", encoding="utf-8")
    if arguments.junit is not None:
        arguments.junit.write_text(machines.as_junit(made), encoding="utf-8")
    if arguments.html is not None:
        arguments.html.write_text(page.as_html(made), encoding="utf-8")
    sys.stdout.write(machines.as_json(made) + "\n" if arguments.json else made.text())
    return 0 if made.holds else 1


def _record(arguments: argparse.Namespace) -> int:
    refuse_what_does_nothing(arguments)
    done = _run(arguments)
    text = baseline.written(done.target.told, done.results)
    if arguments.output is None:
        sys.stdout.write(text)
    else:
        arguments.output.write_text(text, encoding="utf-8")
        failed = sum(one.is_wrong for one in done.results)
        sys.stderr.write(f"{failed} failures written to {arguments.output}; say there why each is so\n")
    return 0


def _clean(arguments: argparse.Namespace) -> int:
    refuse_what_does_nothing(arguments)
    told, left = asyncio.run(_until_told_to_stop(_cleaned(arguments)))
    sys.stdout.write("".join(f"{line}\n" for line in told))
    return 1 if left else 0


async def _cleaned(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Sentences about what was deleted, and about what stays."""
    if arguments.http:
        url = _platform(arguments)
        async with client_for(url) as client:
            target = HttpTarget(url, client, token_of(arguments), seconds=arguments.timeout)
            told = await cleaning.clean(target, arguments.run, arguments.brain, for_real=not arguments.dry_run)
        return told, target.left
    if arguments.mcp:
        address(arguments.mcp, "--mcp")
    async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
        session = _session(arguments, client)
        server = McpTarget(target_of(arguments), session, seconds=arguments.timeout)
        try:
            told = await cleaning.clean_calls(server, arguments.run, for_real=not arguments.dry_run)
        finally:
            await session.close()
    return told, server.left


def _list(arguments: argparse.Namespace) -> int:
    chosen = case.selected([*case.load(), *case.load_calls()], arguments.only, arguments.skip)
    sys.stdout.write(listing.table_of(chosen))
    return 0 if chosen else 2


def _explain(arguments: argparse.Namespace) -> int:
    every = {one.id: one for one in [*case.load(), *case.load_calls()]}
    if arguments.case not in every:
        near = listing.near(arguments.case, list(every))
        hint = f"do you mean {' or '.join(near)}?" if near else "`contract list` names them"
        raise Wrong(f"there is no case {arguments.case}: {hint}")
    sys.stdout.write(listing.explained(every[arguments.case]))
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    try:
        compared = comparing.compare(comparing.read(arguments.before), comparing.read(arguments.after))
    except comparing.Unreadable as error:
        raise Wrong(str(error)) from error
    sys.stdout.write(compared.text())
    return 1 if compared.worse else 0


_VERBS: Final = {
    "check": _check,
    "record": _record,
    "clean": _clean,
    "list": _list,
    "explain": _explain,
    "compare": _compare,
}


def _run(arguments: argparse.Namespace) -> Run[Any]:
    done = asyncio.run(_until_told_to_stop(_on_platform(arguments) if arguments.http else _on_server(arguments)))
    mask(done, secrets_of(arguments))
    return done


async def _until_told_to_stop(run: Coroutine[Any, Any, Made]) -> Made:
    """A job that is cancelled gets SIGTERM. Then, too, the run deletes what it made."""
    task = asyncio.current_task()
    assert task is not None
    if os.name == "posix":
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await run


def _platform(arguments: argparse.Namespace) -> str:
    return address(arguments.http, "--http").rstrip("/").removesuffix("/v1")


async def _on_platform(arguments: argparse.Namespace) -> Run[Any]:
    url, token = _platform(arguments), token_of(arguments)
    chosen = _chosen(case.load(), arguments)
    async with client_for(url) as client:
        target = HttpTarget(url, client, token, arguments.page, arguments.timeout, arguments.brain)
        return await run(target, chosen, at_once=arguments.at_once, tell=_progress)


async def _on_server(arguments: argparse.Namespace) -> Run[Any]:
    if arguments.mcp:
        address(arguments.mcp, "--mcp")
    chosen = _chosen(case.load_calls(), arguments)
    async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
        session = _session(arguments, client)
        play = {"brain": arguments.brain, "anywhere": arguments.anywhere, "query": arguments.query or "the"}
        target = McpTarget(target_of(arguments), session, arguments.page, arguments.folder, arguments.timeout, **play)
        return await run_calls(target, chosen, at_once=arguments.at_once, tell=_progress)


def _session(arguments: argparse.Namespace, client: httpx.AsyncClient) -> HttpSession | PipeSession:
    if arguments.mcp_command:
        return PipeSession(arguments.mcp_command, arguments.wire, {"MEMOAI_PROJECT": PROJECT, **os.environ})
    headers = {"x-memoai-project": PROJECT, **dict(arguments.header)}
    if token := token_of(arguments):
        headers["authorization"] = f"Bearer {token}"
    return HttpSession(arguments.mcp, client, headers, arguments.wire)


def _chosen(every: list[case.AnyCase], arguments: argparse.Namespace) -> list[case.AnyCase]:
    chosen = case.selected(every, arguments.only, arguments.skip)
    if not chosen:
        kind = "platforms" if arguments.http else "servers of the tools"
        raise Wrong(f"no case for {kind} matches {', '.join(arguments.only) or 'what is left'}: see `contract list`")
    _warn(chosen)
    return chosen


def _warn(chosen: Sequence[Head]) -> None:
    """Say what will be tried before anything is sent, because the owner of the server should know."""
    counts: Counter[str] = Counter(one.tries for one in chosen if one.tries)
    if counts:
        tried = ", ".join(f"{what} ({counts[name]} cases)" for name, what in _TRIES.items() if counts[name])
        words = " ".join(f"--skip {name}" for name in _TRIES if counts[name])
        sys.stderr.write(f"This run tries {tried}. Leave them out with {words}.\n")


def _progress(result: Result, done: int, total: int) -> None:
    if sys.stderr.isatty():
        line = f"{done}/{total} {result.case.id}"[:78]
        sys.stderr.write(f"\r{line:78}" + ("\n" if done == total else ""))
    elif done == total or done * _PARTS // total > (done - 1) * _PARTS // total:
        sys.stderr.write(f"{done} of {total} cases\n")
    sys.stderr.flush()
