"""Notes of ours: read, changed, moved and removed, so that the same change again is the same."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.operations import notes
from gateway.operations.context import Work
from gateway.operations.errors import GatewayError
from gateway.operations.steps.certainty import certain, certain_once
from gateway.operations.steps.documents import PUT_BYTES, read, write
from gateway.operations.table import Args, JsonObject, Op

# So often a note is looked at again that somebody else has made meanwhile.
_RACES: Final = 3


@dataclass(frozen=True, slots=True)
class Draft:
    """A note as it shall be."""

    body: bytes
    title: str
    metadata: JsonObject = field(default_factory=dict)
    aside: Mapping[str, bytes] = field(default_factory=dict)
    """What is written first, by path: it would be lost otherwise."""


Change = Callable[[notes.Note | None], Draft | None]
"""From the note that is there to the one that shall be; None when nothing is to be done."""


async def read_note(work: Work, args: Args) -> JsonObject:
    return {"body": await read(work, str(args["brain"]), str(args["path"]))}


async def keep_by_record(work: Work, args: Args) -> JsonObject:
    """By a platform that keeps a record of each document: a new note gets one, with what is known of it."""
    return await _kept(work, args, created=_recorded)


async def keep_by_put(work: Work, args: Args) -> JsonObject:
    """By a platform that keeps bytes alone."""
    return await _kept(work, args, created=_put)


async def _kept(work: Work, args: Args, created: Callable[[Work, Args, Draft], Awaitable[None]]) -> JsonObject:
    brain, path, change = str(args["brain"]), str(args["path"]), args["change"]
    async with work.alone(f"{path} of {brain}"):
        for _ in range(_RACES):
            before = await read(work, brain, path)
            draft: Draft | None = change(None if before is None else notes.opened(before))
            if draft is None:
                return {"body": before, "changed": False}
            if len(draft.body) > PUT_BYTES:
                raise GatewayError("payload_too_large")
            for aside, body in draft.aside.items():
                await write(work, brain, aside, body)
            try:
                if before is None:
                    await created(work, args, draft)
                else:
                    await write(work, brain, path, draft.body)
            except GatewayError as error:
                if error.code != "conflict" or before is not None:
                    raise
                continue
            return {"body": draft.body, "changed": True}
    raise GatewayError("conflict", "This was changed by others again and again. Try once more.", retryable=True)


async def _put(work: Work, args: Args, draft: Draft) -> None:
    await write(work, str(args["brain"]), str(args["path"]), draft.body)


async def _recorded(work: Work, args: Args, draft: Draft) -> None:
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
        await work.send(Op.CREATE_DOCUMENT, document)
        return True

    async def look() -> bool | None:
        return await read(work, brain, path) == draft.body or None

    await certain(send, look)


async def append(work: Work, args: Args) -> JsonObject:
    """Bytes at the end of a file of ours, once."""
    brain, path, body = str(args["brain"]), str(args["path"]), bytes(args["body"])

    async def send() -> bool:
        await work.send(Op.APPEND_DOCUMENT, {"brain": brain, "path": path, "body": body})
        return True

    async def look() -> bool | None:
        return body in (await read(work, brain, path) or b"") or None

    await certain_once(send, look)
    return {}


async def move(work: Work, args: Args) -> JsonObject:
    """By a rename, which is made whole or not at all."""

    async def send() -> bool:
        await work.send(Op.RENAME_DOCUMENT, args)
        return True

    return await _moved(work, args, send)


async def move_by_copy(work: Work, args: Args) -> JsonObject:
    """Where nothing can be renamed: the copy is there before the note is gone."""
    brain, path, to = str(args["brain"]), str(args["path"]), str(args["to"])

    async def send() -> bool:
        if (body := await read(work, brain, path)) is None:
            raise GatewayError("not_found")
        await write(work, brain, to, body)
        await work.send(Op.DELETE_DOCUMENT, {"brain": brain, "path": path})
        return True

    return await _moved(work, args, send)


async def _moved(work: Work, args: Args, send: Callable[[], Awaitable[bool]]) -> JsonObject:
    brain, path, to = str(args["brain"]), str(args["path"]), str(args["to"])

    async def look() -> bool | None:
        return (await read(work, brain, path) is None and await read(work, brain, to) is not None) or None

    async with work.alone(f"{path} of {brain}"):
        try:
            await certain(send, look)
        except GatewayError as error:
            if error.code != "not_found":
                raise
            return {"moved": bool(await look())}
    return {"moved": True}


async def remove(work: Work, args: Args) -> JsonObject:
    """For good. What is not there any more was removed."""
    brain, path = str(args["brain"]), str(args["path"])

    async def send() -> bool:
        await work.send(Op.DELETE_DOCUMENT, args)
        return True

    async def look() -> bool | None:
        return await read(work, brain, path) is None or None

    async with work.alone(f"{path} of {brain}"):
        try:
            return {"removed": await certain(send, look)}
        except GatewayError as error:
            if error.code != "not_found":
                raise
            return {"removed": False}


async def size_and_time(work: Work, args: Args) -> JsonObject:
    """How many bytes a file has, and when it was changed; nothing where there is none."""
    try:
        return await work.send(Op.STAT_DOCUMENT, args)
    except GatewayError as error:
        if error.code != "not_found":
            raise
        return {}
