"""The entry of one client: made from the shape that it wants, and read back as the client would read it."""

import os
from typing import Any

from gateway.app.connecting.clients import Client, Shape, Slot, fill
from gateway.cli.connecting.server import Server

Entry = dict[str, Any]


class Refused(Exception):
    """Why one client cannot be connected, in one sentence."""


def entry_of(client: Client, server: Server, name: str) -> Entry:
    """The entry for a client.

    Raises:
        Refused: it would have to keep a secret in plain sight.
    """
    shape = client.http if server.url else client.stdio
    _check_secrets(client, server, shape)
    named = [*server.secrets, *([server.token_variable] if server.token_variable else [])]
    references = {variable: client.reference % variable for variable in named} if client.reference else {}
    referred = {} if Slot.SECRETS in shape.values() or server.url else references
    bearer = {"Authorization": f"Bearer {references[server.token_variable]}"} if server.url and references else {}
    program, *arguments = server.command or ("",)
    values = {
        Slot.PROGRAM: program,
        Slot.ARGUMENTS: arguments,
        Slot.COMMAND: list(server.command),
        Slot.ENVIRONMENT: {**server.environment, **referred},
        Slot.SECRETS: named,
        Slot.URL: server.url,
        Slot.HEADERS: bearer,
        Slot.TOKEN_VARIABLE: server.token_variable,
        Slot.NAME: name,
    }
    return fill(shape, values)


def _check_secrets(client: Client, server: Server, shape: Shape) -> None:
    has_place = bool(client.reference) or Slot.SECRETS in shape.values() or Slot.TOKEN_VARIABLE in shape.values()
    if has_place:
        return
    if server.token_variable:
        raise Refused(f"{client.name} cannot read a token from a variable: connect it without --http.")
    if server.secrets:
        variable = server.secrets[0]
        raise Refused(
            f"{client.name} cannot read {variable} from its environment: "
            f"write it into a file that only you can read, and set {variable}_FILE to that instead."
        )


def server_of(client: Client, entry: Entry) -> Server:
    """The server as a client would read it from an entry. Variables in it have the values of this process."""
    shape = client.http if _is_of(client.http, entry) else client.stdio
    found = {slot: value for key, slot in shape.items() for slot, value in _slots(slot, entry.get(key))}
    command = found.get(Slot.COMMAND) or [found.get(Slot.PROGRAM, ""), *(found.get(Slot.ARGUMENTS) or [])]
    passed_on = {name: os.environ[name] for name in found.get(Slot.SECRETS) or [] if name in os.environ}
    environment = {name: _resolved(client, str(value)) for name, value in (found.get(Slot.ENVIRONMENT) or {}).items()}
    variable = found.get(Slot.TOKEN_VARIABLE) or ""
    if headers := found.get(Slot.HEADERS):
        before, _, after = (client.reference % "\n").partition("\n")
        variable = str(headers["Authorization"]).removeprefix("Bearer ").removeprefix(before).removesuffix(after)
    return Server(tuple(map(str, command)), {**environment, **passed_on}, (), found.get(Slot.URL, ""), variable)


def _is_of(shape: Shape, entry: Entry) -> bool:
    """Whether an entry has the signs of a shape: its fixed values, and the key of the URL."""
    fixed = all(entry.get(key) == value for key, value in shape.items() if isinstance(value, str | bool))
    return fixed and all(key in entry for key, value in shape.items() if value is Slot.URL)


def _slots(slot: Any, value: Any) -> list[tuple[Slot, Any]]:
    if isinstance(slot, Slot):
        return [] if value is None else [(slot, value)]
    if isinstance(slot, list) and isinstance(value, list):
        return [found for one, said in zip(slot, value, strict=False) for found in _slots(one, said)]
    return []


def _resolved(client: Client, value: str) -> str:
    """A value, or the value of the variable that it names. Only a whole value can be a variable."""
    for name, said in os.environ.items():
        if client.reference and value == client.reference % name:
            return said
    return value
