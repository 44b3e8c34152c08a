"""The options of the harness, and what is wrong with them before anything is sent."""

import argparse
import os
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from contract.masking import secrets_in
from contract.rpc import HANDSHAKE, MODERN
from contract.runner import AT_ONCE

TOKEN: Final = "CONTRACT_TOKEN"
_EPILOG: Final = (
    "Exit codes: 0 when every must holds but for those of the baseline, and nothing is critical; 1 when that is not "
    "so, or an entry of the baseline is stale; 2 when nothing could be run."
)
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_WORDS: Final = "ids, folders or patterns of cases, or must, should, critical, traversal, injection, sizes; repeatable"


class Wrong(Exception):
    """Nothing can be run; the text is one sentence."""


def parser(program: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        program, description="Hold a brains platform, or a server of the tools, against the contract.", epilog=_EPILOG
    )
    verbs = made.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    check = verbs.add_parser("check", help="run the cases, and say what holds", epilog=_EPILOG)
    record = verbs.add_parser("record", help="run the cases, and write a baseline of what fails")
    clean = verbs.add_parser("clean", help="delete the brains that runs left at a platform or a server")
    for verb in (check, record):
        _add_target(verb)
        _add_choice(verb)
    check.add_argument("--baseline", type=Path, metavar="FILE", help="failures that are expected")
    check.add_argument("--json", action="store_true", help="for machines, on standard output")
    check.add_argument("--report", type=_writable, metavar="FILE", help="the same JSON into a file, beside the card")
    check.add_argument("--junit", type=_writable, metavar="FILE", help="for CI, beside the card")
    check.add_argument("--html", type=_writable, metavar="FILE", help="a page that needs nothing else, beside the card")
    record.add_argument("--output", type=_writable, metavar="FILE", help="where to (default: standard output)")
    _add_target(clean)
    clean.add_argument("--run", metavar="ID", help="of this run alone (default: of every run)")
    clean.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    clean.add_argument("--timeout", type=_positive, default=30.0, metavar="SECONDS", help="for a step (default: 30)")
    listed = verbs.add_parser("list", help="the cases: id, requirement, what holds")
    listed.add_argument("--only", action="append", default=[], metavar="PATTERN", help=_WORDS)
    listed.add_argument("--skip", action="append", default=[], metavar="PATTERN", help="all but these")
    explained = verbs.add_parser("explain", help="what a case demands, why, and what it sends")
    explained.add_argument("case", metavar="CASE", help="its id")
    compared = verbs.add_parser("compare", help="what got better and worse between two runs (files of check --json)")
    compared.add_argument("before", type=Path, metavar="A.json")
    compared.add_argument("after", type=Path, metavar="B.json")
    return made


def _add_target(verb: argparse.ArgumentParser) -> None:
    target = verb.add_mutually_exclusive_group(required=True)
    target.add_argument("--http", metavar="URL", help="a platform: where it is, without /v1")
    target.add_argument("--mcp", metavar="URL", help="a server of the tools, over Streamable HTTP")
    target.add_argument("--mcp-command", metavar="CMD", help="a server of the tools, over stdio")
    _add_token(verb)
    verb.add_argument("--header", type=_header, action="append", default=[], help="with --mcp, as 'X-Brain: tea'")
    verb.add_argument("--wire", choices=(MODERN, HANDSHAKE), help="revision of MCP (default: the newest it knows)")
    verb.add_argument("--brain", metavar="NAME", help="play in this brain of yours, and make none; clean this one")
    verb.add_argument("--anywhere", action="store_true", help="write into whichever brain the server takes")


def _add_token(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--token", type=_token, help=f"bearer token for it (better: in {TOKEN})")
    verb.add_argument("--token-file", type=Path, metavar="FILE", help="where the token is")


def _add_choice(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--page", metavar="URL", help="a page that the target can fetch, for ingest by URL")
    verb.add_argument("--folder", type=_folder, metavar="DIR", help="a folder that the server can read, for its files")
    verb.add_argument("--query", metavar="WORDS", help="what finds a document, for search and fetch (default: the)")
    verb.add_argument("--only", action="append", default=[], metavar="PATTERN", help=_WORDS)
    verb.add_argument("--skip", action="append", default=[], metavar="PATTERN", help="all but these")
    verb.add_argument("--timeout", type=_positive, default=30.0, metavar="SECONDS", help="for a step (default: 30)")
    verb.add_argument("--at-once", type=_count, default=AT_ONCE, metavar="N", help=f"cases (default: {AT_ONCE})")


def refuse_what_does_nothing(arguments: argparse.Namespace) -> None:
    """Refuse options that have no effect here, because the caller expects one.

    Raises: Wrong.
    """
    if arguments.verb == "clean" and (arguments.anywhere or (arguments.brain and not arguments.http)):
        raise Wrong("clean takes --brain with --http alone, and never --anywhere: no tool lists documents of a run")
    kind = next(name for name in ("http", "mcp", "mcp_command") if getattr(arguments, name) is not None)
    useless = {
        "http": ("wire", "header", "folder", "anywhere", "query"),
        "mcp": (),
        "mcp_command": ("token", "token_file", "header"),
    }
    for name in useless[kind]:
        if getattr(arguments, name, None):
            raise Wrong(f"--{name.replace('_', '-')} means nothing with --{kind.replace('_', '-')}")
    if arguments.brain is not None and arguments.anywhere:
        raise Wrong("--brain and --anywhere cannot both be: the first names a brain, the second says that none matters")
    if not target_of(arguments).strip():
        raise Wrong(f"--{kind.replace('_', '-')} is empty")


def target_of(arguments: argparse.Namespace) -> str:
    """The name of the target in reports. For a command it is the first word, because the others may be secret."""
    named: Any = arguments.http or getattr(arguments, "mcp", None)
    return str(named or next(iter((getattr(arguments, "mcp_command", None) or "").split()), ""))


def secrets_of(arguments: argparse.Namespace) -> list[str]:
    """The secrets that no report may show."""
    try:
        token = token_of(arguments)
    except Wrong:
        # A command gets no token from us, but it has the same environment.
        token = os.environ.get(TOKEN)
    return secrets_in(token, getattr(arguments, "header", ()))


def token_of(arguments: argparse.Namespace) -> str | None:
    """The token of the option, the file or the environment, in this order.

    Raises: Wrong.
    """
    if arguments.token:
        return str(arguments.token)
    written = os.environ.get(TOKEN)
    if arguments.token_file is not None:
        try:
            written = arguments.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Wrong(f"{arguments.token_file} cannot be read: {error}") from error
    try:
        return _token(written) if written else None
    except argparse.ArgumentTypeError as error:
        raise Wrong(f"the token should be {error}") from error


def address(url: str, option: str) -> str:
    """Raises: Wrong."""
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise Wrong(f"{option} should have no name and password in it, which reports would show: give a token instead")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Wrong(f"{option} should be an http or https URL, not {url!r}")
    return url


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
