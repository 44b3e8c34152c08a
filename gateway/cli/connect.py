"""`brains-gateway connect` and `disconnect`: enter the gateway into the files of clients, and take it out again."""

import argparse
import difflib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from gateway.app import log
from gateway.app.connecting import clients
from gateway.app.connecting.clients import CLIENTS, Client
from gateway.app.startup import say
from gateway.cli.connecting.config_file import ConfigFile
from gateway.cli.connecting.entry import Refused, entry_of, server_of
from gateway.cli.connecting.journal import Journal
from gateway.cli.connecting.server import Server, addressed, is_passing, started
from gateway.cli.output import confirm, print_json, print_text
from gateway.config.settings import BadSetting, Settings
from gateway.config.unsafe_settings import check_local

State = Literal["connected", "unchanged", "disconnected", "absent", "declined", "left alone", "doubtful"]
_NAME: Final = "brains"
# Outcomes with which the whole command fails.
_FAILED: Final = frozenset({"declined", "left alone", "doubtful"})


@dataclass
class Outcome:
    """The outcome for one client."""

    client: str
    state: State
    message: str
    file: str | None = None
    backup: str | None = None
    tools: int | None = None
    client_says: bool | None = None


def run(settings: Settings, arguments: argparse.Namespace) -> None:
    log.configure("error", settings.log_format)
    desk = _Desk(settings, arguments)
    if arguments.command == "connect" and arguments.print:
        desk.show()
        return
    outcomes = list(desk.connect() if arguments.command == "connect" else desk.disconnect())
    if arguments.json:
        print_json([vars(outcome) for outcome in outcomes])
    sys.exit(1 if any(outcome.state in _FAILED for outcome in outcomes) else 0)


class _Desk:
    """One run of either command."""

    def __init__(self, settings: Settings, arguments: argparse.Namespace) -> None:
        self._settings, self._arguments = settings, arguments
        self._project = Path.cwd() if arguments.scope == "project" else None
        self._journal = Journal(settings.data_dir.absolute() / "connections")
        surface = arguments.surface
        self._listed: list[tuple[Server, int]] = []
        self._name = _NAME if surface in (None, "memory") else f"{_NAME}-{surface}"

    def connect(self) -> Iterator[Outcome]:
        server = self._server()
        if is_passing():
            say("This environment is one of uvx, which deletes it some day: install with `uv tool install` instead.")
        for key, client in self._chosen().items():
            try:
                yield self._told(self._connect(key, client, server))
            except Refused as refused:
                yield self._told(Outcome(key, "left alone", str(refused)))

    def disconnect(self) -> Iterator[Outcome]:
        for key, client in self._chosen().items():
            try:
                yield self._told(self._disconnect(key, client))
            except Refused as refused:
                yield self._told(Outcome(key, "left alone", str(refused)))

    def show(self) -> None:
        """Print what would be written, for a person who does it by hand."""
        server, chosen = self._server(), self._arguments.clients or list(CLIENTS)
        shown: dict[str, Any] = {}
        for key in chosen:
            client = CLIENTS[key]
            file = clients.file_of(client, self._project)
            if file is None:
                continue
            try:
                entry = entry_of(client, server, self._name)
            except Refused as refused:
                say(str(refused))
                continue
            shown[key] = {"file": str(file), "section": client.section, "name": self._name, "entry": entry}
            if not self._arguments.json:
                print_text(f"{client.name}, in {file}", "bold")
                print_text(ConfigFile(client, file, None).with_entry(self._name, entry).decode())
        if self._arguments.json:
            print_json(shown)

    def _server(self) -> Server:
        arguments = self._arguments
        if arguments.http is not None:
            return addressed(self._settings, arguments.http, arguments.surface, arguments.token_variable)
        if arguments.token_variable is not None:
            raise BadSetting("--token-variable is for --http: a command that the client starts needs no token.")
        check_local(self._settings)
        return started(self._settings, arguments.surface, self._project)

    def _chosen(self) -> Mapping[str, Client]:
        """The clients that were named, or all that are on this machine.

        Raises:
            BadSetting: it is not clear which clients are meant.
        """
        arguments = self._arguments
        if arguments.clients:
            return {key: CLIENTS[key] for key in arguments.clients}
        if arguments.yes and not arguments.all:
            raise BadSetting("Name the clients, or say --all: --yes asks nobody.")
        found = {key: client for key, client in CLIENTS.items() if self._is_here(client)}
        if not found:
            say(f"No client was found on this machine. Name one to connect it all the same: {', '.join(CLIENTS)}.")
        return found

    def _is_here(self, client: Client) -> bool:
        return clients.is_installed(client) and clients.file_of(client, self._project) is not None

    def _file(self, client: Client) -> ConfigFile:
        path = clients.file_of(client, self._project)
        if path is None:
            raise Refused(f"{client.name} has no file for one project: connect it with --scope user.")
        file = ConfigFile.look(client, path)
        if self._project is not None and not file.path.is_relative_to(self._project.resolve()):
            # Files of a repository may be links.
            raise Refused(f"{path} leads out of the project, and is left alone.")
        return file

    def _connect(self, key: str, client: Client, server: Server) -> Outcome:
        file, entry = self._file(client), entry_of(client, server, self._name)
        if file.entries().get(self._name) == entry:
            return self._verified(client, file, Outcome(key, "unchanged", "Nothing to write.", str(file.path)))
        after = file.with_entry(self._name, entry)
        if not self._agreed(client, file, after):
            return Outcome(key, "declined", "Nothing was written.", str(file.path))
        backup = self._journal.write(key, file, self._name, after, 0o644 if self._project else 0o600)
        written = Outcome(key, "connected", "", str(file.path), str(backup) if backup else None)
        return self._verified(client, file, written)

    def _verified(self, client: Client, file: ConfigFile, outcome: Outcome) -> Outcome:
        """The outcome, read back from the file."""
        # Imported when used: it takes a second, and most of this command needs nothing of MCP.
        from gateway.cli.connecting.verify import ask_client

        entry = ConfigFile.look(client, file.path).entries()[self._name]
        folder = self._project or Path.home()
        try:
            outcome.tools = self._count_tools(server_of(client, entry), folder)
        except Refused as refused:
            outcome.state, outcome.message = "doubtful", str(refused)
            return outcome
        # In a project, the client is not asked, because it might start other servers that the repository names.
        outcome.client_says = ask_client(client, self._name, folder) if self._project is None else None
        outcome.message += f" {outcome.tools} tools are listed."
        if outcome.client_says is False:
            command = " ".join([client.program, *client.check]).format(name=self._name)
            outcome.state, outcome.message = "doubtful", f"{client.name} does not say that it works: see `{command}`."
        elif outcome.client_says:
            outcome.message += f" {client.name} itself sees it too."
        outcome.message = outcome.message.strip()
        return outcome

    def _count_tools(self, server: Server, folder: Path) -> int:
        """How many tools a client is offered. Clients with the same entry are offered the same tools."""
        from gateway.cli.connecting.verify import list_tools

        for listed, tools in self._listed:
            if listed == server:
                return tools
        self._listed.append((server, len(list_tools(server, folder))))
        return self._listed[-1][1]

    def _disconnect(self, key: str, client: Client) -> Outcome:
        file = self._file(client)
        there, ours = file.entries(), self._journal.names(file.path)
        names = [self._name] if self._arguments.surface else list(dict.fromkeys([*ours, _NAME]))
        if not any(name in there for name in names):
            self._journal.forget(file.path, names)
            return Outcome(key, "absent", "It is not connected.", str(file.path))
        after = self._journal.without(file, names)
        if not self._agreed(client, file, after):
            return Outcome(key, "declined", "Nothing was taken out.", str(file.path))
        file.write(after)
        self._journal.forget(file.path, names)
        said = "The file is gone again." if after is None else "The file is without it."
        return Outcome(key, "disconnected", said, str(file.path))

    def _agreed(self, client: Client, file: ConfigFile, after: bytes | None) -> bool:
        """Show the difference, and ask."""
        if not self._arguments.json:
            print_text(f"{client.name}: {file.path}", "bold")
            for line in _difference(file.before, after):
                print_text(line, {"+": "green", "-": "red"}.get(line[:1], ""))
        if self._arguments.yes or confirm("Write this?"):
            return True
        if not sys.stdin.isatty():
            say("Nobody is there to ask: add --yes to write it.")
        return False

    def _told(self, outcome: Outcome) -> Outcome:
        if not self._arguments.json:
            print_text(f"{CLIENTS[outcome.client].name}: {outcome.state}. {outcome.message}")
            if outcome.backup:
                print_text(f"What was there is kept as {outcome.backup}.")
        return outcome


def _difference(before: bytes | None, after: bytes | None) -> list[str]:
    old, new = ((content or b"").decode("utf-8", "replace").splitlines() for content in (before, after))
    return list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
