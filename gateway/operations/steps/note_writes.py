"""Reads, changes, moves and removes notes of ours, so that the same change again has no further effect."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from gateway.operations import notes
from gateway.operations.context import StepContext
from gateway.operations.errors import Doubt, GatewayError, Unsure
from gateway.operations.notes import Change, Draft, Note
from gateway.operations.steps.certainty import look_again, make_certain, make_certain_once, repeatable
from gateway.operations.steps.documents import PUT_BYTES, read, write
from gateway.operations.steps.index_files import drop_note
from gateway.operations.table import Args, JsonObject, Op

_CHANGED: Final = "It was changed meanwhile. Read it again, and then change it."
_GONE: Final = "It was removed meanwhile."
# How often a note is looked at again, if somebody else has made it meanwhile.
_RACES: Final = 3


async def read_note(context: StepContext, args: Args) -> JsonObject:
    return {"body": await read(context, str(args["brain"]), str(args["path"]))}


async def keep_by_record(context: StepContext, args: Args) -> JsonObject:
    """By a platform that keeps a record of each document: a new note gets one, with what is known of it."""
    return await _keep(context, args, _create_record)


async def keep_by_put(context: StepContext, args: Args) -> JsonObject:
    """By a platform that keeps only bytes. Several notes may say the same, and each should be found."""
    change: Change = args["change"]

    def change_apart(before: Note | None) -> Draft | None:
        if (draft := change(before)) is None:
            return None
        aside = {path: notes.set_apart(body, path) for path, body in draft.aside.items()}
        return replace(draft, body=notes.set_apart(draft.body, str(args["path"])), aside=aside)

    return await _keep(context, {**args, "change": change_apart}, _put)


async def _keep(
    context: StepContext, args: Args, create: Callable[[StepContext, Args, Draft], Awaitable[None]]
) -> JsonObject:
    brain, path, change = str(args["brain"]), str(args["path"]), args["change"]
    async with context.alone(path):
        for _ in range(_RACES):
            before = await read(context, brain, path)
            draft: Draft | None = change(None if before is None else notes.open_note(before))
            if draft is None:
                return {"body": before, "changed": False}
            if len(draft.body) > PUT_BYTES:
                raise GatewayError("payload_too_large")
            for aside, body in draft.aside.items():
                await write(context, brain, aside, body)
            try:
                if before is None:
                    await create(context, args, draft)
                else:
                    await write(context, brain, path, draft.body)
            except GatewayError as error:
                if error.code != "conflict" or before is not None:
                    raise
                continue
            return {"body": draft.body, "changed": True}
    raise GatewayError("conflict", "This was changed by others again and again. Try once more.", retryable=True)


async def replace_body(context: StepContext, args: Args) -> JsonObject:
    """Replaces bytes, but only if they are still the bytes that the caller has read.

    `aside`, a path and bytes, is written first; it is the version that is kept. `brain_id` is given if several people
    may write to the brain: it is the same for all of them, however they name the brain.

    Raises:
        GatewayError: conflict, when something else is there by now.
    """
    brain, path, body, aside = str(args["brain"]), str(args["path"]), bytes(args["body"]), args.get("aside")
    if len(body) > PUT_BYTES:
        raise GatewayError("payload_too_large")
    of_all = f"{args.get('brain_id') or brain} {path}"
    async with context.alone(path), context.alone(of_all, among_all=True):
        before = await read(context, brain, path)
        if before == body:
            return {"changed": False}
        if (None if before is None else hashlib.sha256(before).hexdigest()) != args.get("expected"):
            raise GatewayError("conflict", _CHANGED if before is not None else _GONE)
        if aside is not None:
            await write(context, brain, *aside)
        await write(context, brain, path, body)
    return {"changed": True}


async def _put(context: StepContext, args: Args, draft: Draft) -> None:
    await write(context, str(args["brain"]), str(args["path"]), draft.body)


async def _create_record(context: StepContext, args: Args, draft: Draft) -> None:
    brain, path = str(args["brain"]), str(args["path"])
    document = {
        "brain": brain,
        "path": path,
        "title": draft.title,
        "content": draft.body.decode(),
        "metadata": draft.metadata,
        "source": "ingest",
    }

    async def send() -> bool:
        await context.send(Op.CREATE_DOCUMENT, document)
        return True

    async def look() -> bool | None:
        return await read(context, brain, path) == draft.body or None

    await make_certain(send, look)


async def append(context: StepContext, args: Args) -> JsonObject:
    """Bytes at the end of a file of ours, once."""
    brain, path, body = str(args["brain"]), str(args["path"]), bytes(args["body"])

    async def send() -> bool:
        await context.send(Op.APPEND_DOCUMENT, {"brain": brain, "path": path, "body": body})
        return True

    async def look() -> bool | None:
        return body in (await read(context, brain, path) or b"") or None

    await make_certain_once(send, look)
    return {}


async def move(context: StepContext, args: Args) -> JsonObject:
    """By a rename, which is made whole or not at all."""

    async def send() -> bool:
        await context.send(Op.RENAME_DOCUMENT, args)
        return True

    return await _move_for_certain(context, args, send)


async def move_by_copy(context: StepContext, args: Args) -> JsonObject:
    """If the platform cannot rename: copies the note before it removes it."""
    brain, path, to = str(args["brain"]), str(args["path"]), str(args["to"])

    async def send() -> bool:
        if (body := await read(context, brain, path)) is None:
            raise GatewayError("not_found")
        await write(context, brain, to, body)
        await context.send(Op.DELETE_DOCUMENT, {"brain": brain, "path": path})
        return True

    return await _move_for_certain(context, args, send)


async def _move_for_certain(context: StepContext, args: Args, send: Callable[[], Awaitable[bool]]) -> JsonObject:
    brain, path, to = str(args["brain"]), str(args["path"]), str(args["to"])

    async def look() -> bool | None:
        return (await read(context, brain, path) is None and await read(context, brain, to) is not None) or None

    async with context.alone(path):
        try:
            moved = await make_certain(send, look)
        except GatewayError as error:
            if error.code != "not_found":
                raise
            moved = bool(await look())
        if moved:
            await drop_note(context, brain, path)
            if args.get("change") is not None:
                await _change_moved(context, brain, to, args["change"])
    return {"moved": moved}


async def _change_moved(context: StepContext, brain: str, path: str, change: Change) -> None:
    """The move is already made. If this fails, the same call again has to find out what is left to do."""
    unknown = repeatable(Unsure(GatewayError("upstream_unavailable"), Doubt.ANSWERED))
    body = await look_again(lambda: read(context, brain, path), unknown)
    draft = change(None if body is None else notes.open_note(body))
    if draft is not None:
        try:
            await write(context, brain, path, draft.body)
        except GatewayError as error:
            raise unknown from error


async def remove(context: StepContext, args: Args) -> JsonObject:
    """For good. If the note is not there any more, it was removed."""
    brain, path = str(args["brain"]), str(args["path"])

    async def send() -> bool:
        await context.send(Op.DELETE_DOCUMENT, args)
        return True

    async def look() -> bool | None:
        return await read(context, brain, path) is None or None

    async with context.alone(path):
        try:
            removed = await make_certain(send, look)
        except GatewayError as error:
            if error.code != "not_found":
                raise
            return {"removed": False}
        await drop_note(context, brain, path)
    return {"removed": removed}


async def size_and_time(context: StepContext, args: Args) -> JsonObject:
    """How many bytes a file has, and when it was changed; None if there is no file."""
    try:
        return await context.send(Op.STAT_DOCUMENT, args)
    except GatewayError as error:
        if error.code != "not_found":
            raise
        return {}
