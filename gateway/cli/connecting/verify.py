"""Checks whether the entry works: lists the tools as the client would, and asks the client itself."""

import asyncio
import os
import re
import subprocess
from datetime import timedelta
from pathlib import Path
from shutil import which
from typing import Final

from fastmcp import Client as McpClient
from fastmcp.client.transports import ClientTransport, StdioTransport, StreamableHttpTransport
from mcp import MCPError

from gateway.app.connecting.clients import Client
from gateway.cli.connecting.entry import Refused
from gateway.cli.connecting.server import Server

_SECONDS: Final = 60
_COLOURS: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def list_tools(server: Server, folder: Path) -> list[str]:
    """The names of the tools that a client is offered.

    Raises:
        Refused: it is offered none.
    """
    try:
        names = asyncio.run(_list(server, folder))
    except (OSError, RuntimeError, MCPError) as error:
        raise Refused(_reason(server, is_answered=isinstance(error, MCPError))) from None
    if not names:
        raise Refused("It is written, but the gateway offers no tools: run brains-gateway doctor.")
    return names


async def _list(server: Server, folder: Path) -> list[str]:
    transport: ClientTransport
    if server.url:
        token = os.environ.get(server.token_variable, "") if server.token_variable else ""
        transport = StreamableHttpTransport(server.url, headers={"Authorization": f"Bearer {token}"} if token else {})
    else:
        program, *arguments = server.command
        transport = StdioTransport(
            program,
            arguments,
            env=dict(server.environment),
            cwd=str(folder),
            keep_alive=False,
            log_file=Path(os.devnull),
        )
    async with (
        asyncio.timeout(_SECONDS),
        McpClient(transport, timeout=timedelta(seconds=_SECONDS), init_timeout=_SECONDS) as client,
    ):
        return [tool.name for tool in await client.list_tools()]


def _reason(server: Server, *, is_answered: bool) -> str:
    if not server.url:
        return "It is written, but the command does not serve: run brains-gateway doctor to see why."
    if not is_answered:
        return "It is written, but nothing answers at that address: start the gateway there, then connect again."
    if server.token_variable and server.token_variable not in os.environ:
        return f"It is written, but {server.token_variable} is not set here, so it could not be tried with the token."
    token = f"look at {server.token_variable}" if server.token_variable else "name it with --token-variable"
    return f"It is written, but what answers at that address refuses: if it wants a token, {token}."


def ask_client(client: Client, name: str, folder: Path) -> bool | None:
    """Whether the client itself says that it is connected; None where it has no command for that."""
    program = which(client.program) if client.check else None
    if program is None:
        return None
    command = [program, *(part.format(name=name) for part in client.check)]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_SECONDS, check=False, cwd=folder, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    # Some say it on standard error, and some in colours.
    said = _COLOURS.sub("", (done.stdout + done.stderr).decode("utf-8", "replace"))
    if client.cannot_tell and client.cannot_tell in said:
        return None
    words = [word.format(name=name) for word in client.healthy]
    return any(all(word in line for word in words) for line in said.splitlines())
