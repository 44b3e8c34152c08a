"""The arguments of the commands on what a brain holds, and on the files of clients."""

import argparse
from pathlib import Path
from typing import Protocol

from gateway.surfaces.catalog import SURFACES

# Commands on what a brain holds.
AT_DESK = frozenset(
    {
        "brains",
        "list",
        "show",
        "search",
        "ask",
        "add",
        "edit",
        "rm",
        "mv",
        "history",
        "undo",
        "export",
        "import",
        "migrate",
        "who",
    }
)


class _Command(Protocol):
    """Makes the parser of a command from its description."""

    def __call__(self, name: str, told: str, *, json: bool = True) -> argparse.ArgumentParser: ...


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", epilog: str) -> None:
    """Add the parsers of all of them."""
    common = _common()
    machines = argparse.ArgumentParser(add_help=False)
    machines.add_argument("--json", action="store_true", help="for machines")

    def command(name: str, told: str, *, json: bool = True) -> argparse.ArgumentParser:
        parents = [common, machines] if json else [common]
        return commands.add_parser(name, help=told, description=told, parents=parents, epilog=epilog)

    brains = command("brains", "list the brains there are, create one, or delete one with all it holds")
    brains.add_argument("verb", nargs="?", choices=["list", "create", "delete"], default="list")
    brains.add_argument("name", nargs="?", default="", help="of a new brain; or the slug or id of one to delete")
    brains.add_argument("--slug", help="how it is named in URLs and commands (default: derived from its name)")
    brains.add_argument("--visibility", choices=["private", "tenant", "public"], default="private")
    brains.add_argument("--yes", "-y", action="store_true", help="delete without asking")

    told = "list what is kept for one caller: notes, sessions, tokens, memberships"
    who = commands.add_parser("who", help=told, description=told, parents=[machines], epilog=epilog)
    who.add_argument("whose", nargs="?", metavar="ME", help="id or subject of a token (default: the local user)")
    who.add_argument("--brain", help="only in this one (default: in all that they may see)")
    who.add_argument("--paths", action="store_true", help="every path, and not how many there are in each folder")

    listed = command("list", "list notes, the newest first")
    listed.add_argument("folder", nargs="?", default="", help="a folder of the brain (default: all of it)")
    listed.add_argument("--limit", type=_count, help="how many at most (default: all)")

    shown = command("show", "print a note")
    shown.add_argument("note", metavar="NOTE", help="its path, as `list` shows it")
    shown.add_argument("--raw", action="store_true", help="its bytes as they are stored")

    search = command("search", "find notes")
    search.add_argument("query")
    search.add_argument("--limit", type=_count, default=10, help="how many at most (default: 10)")
    search.add_argument("--scope", choices=["all", "global", "project", "agent"])
    search.add_argument("--newest", action="store_true", help="the newest first, not the best")

    ask = command("ask", "ask a question, and print the answer as it comes")
    ask.add_argument("question")
    ask.add_argument("--limit", type=_count, default=8, help="how many notes it may draw on (default: 8)")
    _add_changes(command)


def _add_changes(command: _Command) -> None:
    add = command("add", "store a text, a file, a page, or what comes on standard input")
    add.add_argument("text", nargs="?", metavar="TEXT", help="the text; without it, or as `-`, standard input")
    source = add.add_mutually_exclusive_group()
    source.add_argument("--file", type=Path, help="a file: markdown, text, PDF, HTML or JSON")
    source.add_argument("--url", help="a page of the web")
    add.add_argument("--title", help="default: its first heading, or its first line")
    add.add_argument("--tag", action="append", default=[], help="may be repeated")
    add.add_argument("--path", help="where in the brain (default: derived from title and content)")

    edit = command("edit", "open a note in $EDITOR; what changed meanwhile is not overwritten", json=False)
    edit.add_argument("note", metavar="NOTE")
    remove = command("rm", "put notes away, so that nothing finds them; `undo` brings them back", json=False)
    remove.add_argument("notes", metavar="NOTE", nargs="+")
    remove.add_argument("--yes", "-y", action="store_true", help="do not ask")
    remove.add_argument(
        "--purge", action="store_true", help="erase them for good, with all versions; also those put away"
    )
    move = command("mv", "give a note another path; it replaces none", json=False)
    move.add_argument("note", metavar="NOTE")
    move.add_argument("to", metavar="TO")
    history = command("history", "list what a note was before it was changed or put away")
    history.add_argument("note", metavar="NOTE")
    undo = command("undo", "make a note what it was before; what it is now becomes a version too", json=False)
    undo.add_argument("note", metavar="NOTE")
    undo.add_argument("version", metavar="VERSION", nargs="?", help="as `history` shows it (default: the newest)")
    _add_transfers(command)


def _add_transfers(command: _Command) -> None:
    export = command("export", "write all notes to a folder of markdown, or to one file of JSON lines", json=False)
    export.add_argument("to", metavar="TO", help="a folder, a new file that ends in .jsonl, or `-`")
    export.add_argument("--folder", default="", help="only what is in this folder of the brain")
    imported = command("import", "store what was exported; what is there already stays as it is", json=False)
    imported.add_argument("source", metavar="FROM", help="a folder or a file that `export` wrote, or `-`")
    imported.add_argument("--replace", action="store_true", help="take the place of other notes, which become versions")
    migrate = command("migrate", "store what another program kept", json=False)
    migrate.add_argument("--from", dest="kind", required=True, choices=["markdown", "mem0", "memory-json"])
    migrate.add_argument("source", type=Path, metavar="PATH", help="a folder of markdown, or a file of JSON")
    migrate.add_argument("--dry-run", action="store_true", help="only say what would be stored, and what would not")


def add_connecting(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", epilog: str) -> None:
    """Add the parsers of the commands on the files of clients."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("clients", nargs="*", type=_client, metavar="CLIENT", help="such as claude-code or cursor")
    common.add_argument("--all", action="store_true", help="every client that is on this machine")
    common.add_argument("--surface", choices=list(SURFACES), help="vocabulary of tools (default: memory)")
    told = "the file of this user, or of the project in this directory (default: user)"
    common.add_argument("--scope", choices=["user", "project"], default="user", help=told)
    common.add_argument("--yes", "-y", action="store_true", help="do not ask")
    common.add_argument("--json", action="store_true", help="for machines")
    told = "enter the gateway into the settings of clients, and see that it works"
    connect = commands.add_parser("connect", help=told, description=told, parents=[common], epilog=epilog)
    connect.add_argument("--print", action="store_true", help="only print what would be written")
    connect.add_argument("--http", metavar="URL", help="a gateway that runs (default: clients start one themselves)")
    told = "with --http: the variable in which the client finds its token (default: BRAINS_TOKEN, if that is set)"
    connect.add_argument("--token-variable", type=_variable, metavar="NAME", help=told)
    told = "take the gateway out of the settings of clients again"
    commands.add_parser("disconnect", help=told, description=told, parents=[common], epilog=epilog)


def _client(text: str) -> str:
    # Imported when used: over stdio a client waits.
    from gateway.app.connecting.clients import CLIENTS

    if text not in CLIENTS:
        raise argparse.ArgumentTypeError(f"there is no client {text!r}; there are {', '.join(CLIENTS)}")
    return text


def _variable(text: str) -> str:
    if not text.isidentifier() or not text.isascii():
        raise argparse.ArgumentTypeError("a variable is letters, digits and _; the token itself is never given here")
    return text


def _common() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--brain", help="id or slug (default: BRAINS_DEFAULT_BRAIN, or the first one)")
    told = "act as somebody with a token, by its id or subject (default: the local user, or the operator)"
    common.add_argument("--as", dest="whose", metavar="WHO", help=told)
    return common


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError("it is a whole number above 0")
    return int(text)
