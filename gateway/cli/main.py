"""The `brains-gateway` command. It imports what a command needs when the command is known."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from gateway import __version__
from gateway.cli.arguments import AT_DESK, add_commands, add_connecting
from gateway.surfaces.catalog import SURFACES

if TYPE_CHECKING:
    from gateway.config.settings import Settings

_DESCRIPTION = "One MCP endpoint for the brain you already run. With no platform configured, an embedded brain is used."
# Variables for FastMCP, set before it is imported, unless they are set already.
_FASTMCP_SETTINGS = {
    # Its own logging and its update check are not wanted here.
    "FASTMCP_LOG_ENABLED": "false",
    "FASTMCP_CHECK_FOR_UPDATES": "off",
    # Spans cost a twentieth of a call, and accept any trace that a caller claims. An operator who wants them sets this.
    "FASTMCP_TELEMETRY_MODE": "off",
}
# Commands that do not serve MCP -> the module of each.
_ADMINISTRATION = {
    "token": "token",
    "user": "user",
    "key": "key",
    "backup": "backup",
    "restore": "backup",
    "connect": "connect",
    "disconnect": "connect",
}
_EPILOG = (
    "Settings are environment variables that begin with BRAINS_, or keys of the TOML file that BRAINS_CONFIG names; "
    "docs/settings.md lists them."
)


def main(argv: Sequence[str] | None = None) -> None:
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["contract"]:
        # The contract's harness has its own arguments and exit codes, and does not import the gateway.
        from contract.command import main as judge

        sys.exit(judge(given[1:], "brains-gateway contract"))
    parser, commands = _parsers()
    arguments = parser.parse_args(given)
    if arguments.command == "completion":
        from gateway.cli.completion import script

        sys.stdout.write(script(commands, arguments.shell))
        return
    for name, value in _FASTMCP_SETTINGS.items():
        os.environ.setdefault(name, value)
    from gateway.app.startup import CannotStart
    from gateway.config.settings import BadSetting

    try:
        _run(arguments)
    except BadSetting as error:
        _exit(str(error), 2)
    except CannotStart as error:
        _exit(str(error), error.exit_code)
    except KeyboardInterrupt:
        # Ctrl-C is how a person stops a server: nothing went wrong.
        sys.exit(0)


def _run(arguments: argparse.Namespace) -> None:
    from gateway.config.settings import load

    if arguments.command in AT_DESK:
        import_module("gateway.cli.at_desk").run(load(), arguments)
        return
    if arguments.command in _ADMINISTRATION:
        _administrate(load(), arguments)
        return
    if arguments.command == "settings":
        import_module("gateway.cli.settings").show(load(), as_json=arguments.json)
        return
    if arguments.command == "platform":
        # This command is a platform itself, so it ignores the token for another platform.
        for name in ("BRAINS_UPSTREAM_TOKEN", "BRAINS_UPSTREAM_TOKEN_FILE", "JB_TOKEN"):
            os.environ.pop(name, None)
        settings = load(data_dir=arguments.data_dir, upstream_url=None)
    elif arguments.command == "serve":
        settings = load(host=arguments.host, port=arguments.port)
    elif arguments.command == "stdio":
        # Settings for HTTP have no effect here.
        chosen = arguments.surface
        settings = load(surface=chosen, surfaces=(chosen,) if chosen else None)
    else:
        settings = load()
    from gateway.app.startup import fast_import

    with fast_import():
        command = import_module(f"gateway.cli.{arguments.command}")
    match arguments.command:
        case "serve":
            command.serve(settings, arguments.workers)
        case "stdio":
            command.stdio(settings, _FASTMCP_SETTINGS)
        case "doctor":
            sys.exit(0 if command.doctor(settings, as_json=arguments.json) else 1)
        case "platform":
            command.platform(settings, arguments.host, arguments.port, arguments.token)


def _administrate(settings: "Settings", arguments: argparse.Namespace) -> None:
    from gateway.app.startup import CannotStart, say
    from gateway.config.sources import warnings

    say(*warnings(type(settings).model_fields))
    if settings.audit_log is not None:
        import_module("gateway.app.audit_log").keep_audit(settings, of_command=True)
    try:
        import_module(f"gateway.cli.{_ADMINISTRATION[arguments.command]}").run(settings, arguments)
    except OSError as error:
        raise CannotStart(f"{error.filename} cannot be read or written: {error.strerror}.") from None
    except ValueError:
        raise CannotStart("The file does not hold what it should: move it away and make a new one.") from None


def _parsers() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser of all arguments, and the parsers of each command."""
    parser = argparse.ArgumentParser("brains-gateway", description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("--version", action="version", version=f"brains-gateway {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="serve MCP over Streamable HTTP", epilog=_EPILOG)
    serve.add_argument("--host", help="address to listen on (default: BRAINS_HOST, or 127.0.0.1)")
    serve.add_argument("--port", type=_port, help="port to listen on (default: BRAINS_PORT, or 8787)")
    serve.add_argument("--workers", type=_workers, default=1, help="processes that share the port (default: 1)")

    stdio = commands.add_parser("stdio", help="serve MCP over standard input and output", epilog=_EPILOG)
    stdio.add_argument(
        "--surface",
        choices=list(SURFACES),
        help="vocabulary of tools (default: BRAINS_SURFACE, or memory)",
    )

    doctor = commands.add_parser("doctor", help="say what can be done with the configured platform", epilog=_EPILOG)
    doctor.add_argument("--json", action="store_true", help="for machines")

    settings = commands.add_parser("settings", help="say which settings hold, and who says so", epilog=_EPILOG)
    settings.add_argument("--json", action="store_true", help="for machines")

    platform = commands.add_parser("platform", help="run the embedded brain alone, as a platform", epilog=_EPILOG)
    platform.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    platform.add_argument("--port", type=_port, default=8788, help="port to listen on (default: 8788)")
    platform.add_argument("--token", type=_token, help="bearer token to require (default: none)")
    platform.add_argument("--data-dir", type=Path, help="where data is kept (default: BRAINS_DATA_DIR)")
    _add_token(commands)
    _add_user(commands)
    _add_key(commands)
    _add_backup(commands)
    add_connecting(commands, _EPILOG)
    add_commands(commands, _EPILOG)
    completion = commands.add_parser("completion", help="print what makes a shell complete commands and options")
    completion.add_argument("shell", choices=["bash", "zsh", "fish"])
    commands.add_parser("contract", help="hold a platform against the contract")
    return parser, commands.choices


def _add_token(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    token = commands.add_parser(
        "token", help="make, import, list and revoke tokens for BRAINS_AUTH=tokens", epilog=_EPILOG
    )
    verbs = token.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    create = verbs.add_parser("create", help="make a token and print it, once")
    _add_what_a_token_is(create, ["read", "write", "admin"])
    create.set_defaults(expires=None)
    brought = verbs.add_parser("import", help="let in a bto_ or brt_ token of elsewhere, read from standard input")
    how_long = _add_what_a_token_is(brought, ["read", "read-only", "write", "admin"])
    how_long.add_argument("--expires", type=_moment, help="when it expires, as in 2027-01-31 (UTC)")
    brought.add_argument("--sha256", type=_sha256, help="its SHA-256 in hexadecimal, instead of the token itself")
    verbs.add_parser("list", help="all tokens, without their secrets")
    verbs.add_parser("revoke", help="end a token now").add_argument("id", help="as `token list` shows it")


def _add_user(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    user = commands.add_parser("user", help="add, list and remove users for BRAINS_AUTH=password", epilog=_EPILOG)
    verbs = user.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    add = verbs.add_parser("add", help="add somebody; the password is asked for, or read from standard input")
    add.add_argument("name", help="by which they log in")
    add.add_argument("--brain", help="the one brain they may use (default: every brain of theirs)")
    _add_who_it_is(add, ["read", "write", "admin"], "write")
    verbs.add_parser("list", help="all users, without their passwords")
    for verb, told in (("remove", "take somebody out, and end their logins"), ("password", "change a password")):
        verbs.add_parser(verb, help=told).add_argument("name", help="as `user list` shows it")


def _add_what_a_token_is(verb: argparse.ArgumentParser, scopes: Sequence[str]) -> "argparse._MutuallyExclusiveGroup":
    """The arguments that say for what a token is valid. How long it is valid can be said in several ways."""
    verb.add_argument("name", help="what it is for, in a word or two")
    verb.add_argument("--brain", help="the one brain it is for (default: the one in the URL, /mcp/{brain})")
    _add_who_it_is(verb, scopes, "read")
    how_long = verb.add_mutually_exclusive_group()
    how_long.add_argument("--days", type=_days, help="days until it expires (default: never)")
    return how_long


def _add_who_it_is(verb: argparse.ArgumentParser, scopes: Sequence[str], scope: str) -> None:
    verb.add_argument("--anyway", action="store_true", help="take it though the platform does not list that brain")
    verb.add_argument("--scope", choices=scopes, default=scope, help=f"default: {scope}")
    verb.add_argument("--subject", help="whose private notes it has (default: the name, and the organization)")
    verb.add_argument("--org", help="organization it acts for")
    verb.add_argument("--project", action="append", default=[], help="project it may choose; may be repeated")


def _add_key(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    key = commands.add_parser("key", help="make and rotate keys for BRAINS_UPSTREAM_AUTH=internal", epilog=_EPILOG)
    verbs = key.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    for verb, told in (("create", "make the file with a first key"), ("rotate", "sign with the next key from now on")):
        made = verbs.add_parser(verb, help=told)
        made.add_argument("--algorithm", choices=["ES256", "Ed25519"], default="ES256", help="default: ES256")
    verbs.add_parser("list", help="all keys, without their secrets")


def _add_backup(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    backup = commands.add_parser("backup", help="copy the embedded brain while it is in use", epilog=_EPILOG)
    backup.add_argument("file", type=Path, metavar="FILE", help="the copy, or a directory for it; it replaces no file")
    backup.add_argument("--with-secrets", action="store_true", help="put the files of tokens and keys in it too")
    restore = commands.add_parser("restore", help="put a backup in the place of the embedded brain", epilog=_EPILOG)
    restore.add_argument("file", type=Path, metavar="FILE", help="a file that `backup` made")
    restore.add_argument("--with-secrets", action="store_true", help="put back the tokens and keys in it too")


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError("a port is a whole number from 1 to 65535")
    return int(text)


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = 0
    if not 0 < days <= 36_500:
        raise argparse.ArgumentTypeError("days is a number above 0")
    return days


def _moment(text: str) -> datetime:
    try:
        said = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError("a time is written as in 2027-01-31 or 2027-01-31T12:00:00+00:00") from None
    return said if said.tzinfo is not None else said.replace(tzinfo=UTC)


def _sha256(text: str) -> str:
    if len(text) != 64 or not set(text.lower()) <= set("0123456789abcdef"):
        raise argparse.ArgumentTypeError("a SHA-256 is 64 hexadecimal digits")
    return text.lower()


def _workers(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise argparse.ArgumentTypeError("workers is a whole number from 1 to 64")
    return int(text)


def _token(text: str) -> str:
    """Refuse an empty word: it comes from an unset variable of a shell, and anybody could guess such a token."""
    if not text or any(not "!" <= c <= "~" for c in text):
        raise argparse.ArgumentTypeError("a token is one word of ASCII characters")
    return text


def _exit(sentence: str, code: int) -> NoReturn:
    sys.stderr.write(f"brains-gateway: {sentence}\n")
    sys.exit(code)
