"""Commands on the contents of a brain: each is a function that gets a desk and the arguments."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from gateway.app import log
from gateway.app.desk import Desk, at_desk
from gateway.app.startup import CannotStart
from gateway.cli import brains, finding, notes, transfer, who
from gateway.cli.prepare import check_place
from gateway.config.settings import Settings
from gateway.operations.errors import GatewayError

COMMANDS: Final[Mapping[str, Callable[[Desk, argparse.Namespace], Awaitable[None]]]] = {
    "brains": brains.brains,
    "list": notes.list_notes,
    "show": notes.show,
    "search": finding.search,
    "ask": finding.ask,
    "add": finding.add,
    "edit": notes.edit,
    "rm": notes.remove,
    "mv": notes.move,
    "history": notes.history,
    "undo": notes.undo,
    "export": transfer.export,
    "import": transfer.import_,
    "migrate": transfer.migrate,
    "who": who.who,
}
# What a message tells an agent to call -> what a person types.
_TYPED: Final = {
    "Call memory_list_brains": "Type `brains-gateway brains`",
    "memory_create_brain": "`brains-gateway brains create NAME`",
}
# The beginning of a message -> what a person can do then.
_NEXT: Final = {
    "There is no note ": " `brains-gateway list` shows which there are.",
    "There is no such version ": " `brains-gateway history` shows which there are.",
}
# The code of an error -> the exit code. All others are 1.
_EXIT_CODES: Final = {"not_found": 3, "no_brain": 3, "conflict": 4, "validation_error": 2}


def run(settings: Settings, arguments: argparse.Namespace) -> None:
    """Raises: CannotStart, BadSetting."""
    log.configure("error", settings.log_format)
    check_place(settings, of_command=True)
    try:
        asyncio.run(_run(settings, arguments))
    except GatewayError as error:
        message = error.message
        for called, typed in _TYPED.items():
            message = message.replace(called, typed)
        message += "".join(next_step for beginning, next_step in _NEXT.items() if message.startswith(beginning))
        failed = CannotStart(message)
        failed.exit_code = _EXIT_CODES.get(error.code, 1)
        raise failed from None


async def _run(settings: Settings, arguments: argparse.Namespace) -> None:
    roots = finding.roots_for(arguments)
    named = {"brain": arguments.brain, "command": arguments.command}
    async with at_desk(settings, **named, whose=arguments.whose, roots=roots) as desk:
        await COMMANDS[arguments.command](desk, arguments)
