"""`brains`: lists brains, creates one, and deletes one with all it holds."""

import argparse
import sys

from gateway.app.desk import Desk
from gateway.app.startup import CannotStart, say
from gateway.cli.output import print_json, print_rows, printable
from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject

_NAMED_AT_MOST = 10


async def brains(desk: Desk, arguments: argparse.Namespace) -> None:
    if arguments.verb != "list" and not arguments.name:
        raise GatewayError("validation_error", f"Say which brain: brains-gateway brains {arguments.verb} NAME")
    match arguments.verb:
        case "create":
            await _create(desk, arguments)
        case "delete":
            await _delete(desk, arguments)
        case _:
            await _list(desk, arguments)


async def _list(desk: Desk, arguments: argparse.Namespace) -> None:
    items = (await desk.brain.list_brains(desk.call()))["items"]
    if arguments.json:
        print_json(items)
        return
    fields = ("slug", "name", "visibility", "id")
    print_rows(
        tuple(field.upper() for field in fields), [tuple(str(item.get(f) or "") for f in fields) for item in items]
    )


async def _create(desk: Desk, arguments: argparse.Namespace) -> None:
    made = await desk.brain.create_brain(desk.call(), arguments.name, arguments.slug, arguments.visibility)
    if arguments.json:
        print_json(made)
    else:
        say(f"There is a brain {printable(str(made.get('slug')))} now.")


async def _delete(desk: Desk, arguments: argparse.Namespace) -> None:
    """Delete a brain, if the person can type its name."""
    brain = await _named(desk, arguments.name)
    slug = str(brain.get("slug") or brain.get("id"))
    if not arguments.yes and not _typed(slug):
        raise CannotStart("Nothing was deleted. To delete it without being asked, add --yes.")
    try:
        await desk.brain.serve(desk.call(), str(brain.get("id") or slug), "delete_brain", {"slug": slug})
    except GatewayError as error:
        if error.code != "not_implemented":
            raise
        raise GatewayError(error.code, "This platform deletes no brains: whoever runs it has to.") from None
    say(f"The brain {printable(slug)} is deleted, with all that was in it.")
    if desk.rewrite():
        say("Backups, exports and copies that were put elsewhere may have it.")
    else:
        say("What the platform keeps of it, in a log or a backup of its own, cannot be known from here.")


async def _named(desk: Desk, name: str) -> JsonObject:
    """The brain with this slug or id.

    Raises: GatewayError: not_found.
    """
    items: list[JsonObject] = (await desk.brain.list_brains(desk.call()))["items"]
    for item in items:
        if name in (item.get("slug"), item.get("id")):
            return item
    there = ", ".join(printable(str(item.get("slug"))) for item in items[:_NAMED_AT_MOST]) or "none"
    raise GatewayError("not_found", f"There is no brain {printable(name)}. There are: {there}.")


def _typed(slug: str) -> bool:
    """Whether a person types the name. Without a terminal, the answer is no."""
    if not sys.stdin.isatty():
        return False
    sys.stderr.write(f"This deletes the brain {printable(slug)} for good, with all notes in it. Type its name: ")
    sys.stderr.flush()
    return sys.stdin.readline().strip() == slug
