"""Memos that a platform keeps itself: by organization and project, and in no brain."""

from typing import Final

from gateway.operations.context import StepContext
from gateway.operations.errors import GatewayError
from gateway.operations.table import Args, JsonObject, Op

_NO_BRAIN_HERE: Final = "This platform has memos and no brains. Name no brain, and use a token that is bound to none."
_NO_ORGANIZATION: Final = "This platform keeps memos by organization, and your token names none. Use one that does."


async def find(context: StepContext, args: Args) -> JsonObject:
    _check_whose(args)
    return await context.send(Op.FIND_MEMOS, args)


async def record(context: StepContext, args: Args) -> JsonObject:
    """Sent once: there is no way to see whether a memo without an answer was recorded, nor to record it only once."""
    _check_whose(args)
    return await context.send(Op.RECORD_MEMO, args)


async def leave_to_notes(_context: StepContext, _args: Args) -> JsonObject:
    """Sends nothing: the surface finds and keeps memos as notes, by other chains."""
    return {}


def _check_whose(args: Args) -> None:
    if args["ceiling"] is not None:
        raise GatewayError("validation_error", _NO_BRAIN_HERE)
    if args["org"] is None:
        raise GatewayError("forbidden", _NO_ORGANIZATION)
