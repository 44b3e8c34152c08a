"""Ways to store a document so that the same write again is the same document."""

from typing import Final

from gateway.operations import names, notes
from gateway.operations.context import StepContext
from gateway.operations.errors import Absent, Doubt, GatewayError, Unsure
from gateway.operations.steps.certainty import look_again, make_certain, repeatable
from gateway.operations.table import Args, JsonObject, Op

# What platforms take in one PUT and in one batch, minus room for the longest front matter.
_FRONT_BYTES: Final = 64 * 1024
PUT_BYTES: Final = 2 * 1024 * 1024 - _FRONT_BYTES
BATCH_BYTES: Final = 8 * 1024 * 1024 - _FRONT_BYTES
_NEEDED: Final = frozenset({"id", "path", "byte_size"})


def fits_a_put(document: Args) -> bool:
    content = str(document["content"])
    return len(content) <= PUT_BYTES and len(content.encode()) <= PUT_BYTES


async def by_record(context: StepContext, document: Args) -> JsonObject:
    """By a platform that keeps a record of each document, and refuses a path that is taken."""

    async def send() -> JsonObject:
        return await context.send(Op.CREATE_DOCUMENT, document)

    async def look() -> JsonObject | None:
        return await _find_record(context, document)

    try:
        return _complete(await make_certain(send, look), document)
    except GatewayError as error:
        if error.code != "conflict":
            raise
        # The same write may have been made before.
        if (stored := await look_again(look, repeatable(Unsure(error, Doubt.ANSWERED)))) is None:
            raise _refuse_taken() from None
        return {**_complete(stored, document), "reused": True}


async def by_put(context: StepContext, document: Args) -> JsonObject:
    """By a platform that keeps bytes: a PUT replaces what is there, so look first."""
    return await _as_note(context, document, Op.WRITE_DOCUMENT)


async def by_batch(context: StepContext, document: Args) -> JsonObject:
    """What is too large for a PUT, as a batch of one write."""
    if len(str(document["content"]).encode()) > BATCH_BYTES:
        raise GatewayError("payload_too_large")
    return await _as_note(context, document, Op.BATCH_WRITE)


async def _as_note(context: StepContext, document: Args, op: Op) -> JsonObject:
    brain, path = str(document["brain"]), str(document["path"])
    # Between the look and the write, no other call of this process writes there.
    async with context.alone(path):
        if (stored := await _find_note(context, document)) is not None:
            return {**stored, "reused": True}
        moment = notes.now()
        body = notes.set_apart(notes.render(document, moment), path)
        args = {"brain": brain, "path": path, "body": body, "writes": {path: body}, "reason": "remember"}

        async def send() -> JsonObject:
            answer = await context.send(op, args)
            queued = {"status": "queued"} if answer.get("status") == "queued" else {}
            return {**_findable(context, notes.record(document, moment)), **queued}

        return await make_certain(send, lambda: _find_note(context, document))


async def write(context: StepContext, brain: str, path: str, body: bytes) -> None:
    """Bytes of our own at a path that is nobody else's.

    Raises:
        GatewayError: they are not there; or `outcome_unknown`.
    """

    async def send() -> bool:
        await context.send(Op.WRITE_DOCUMENT, {"brain": brain, "path": path, "body": body})
        return True

    async def look() -> bool | None:
        return await read(context, brain, path) == body or None

    await make_certain(send, look)


async def _find_note(context: StepContext, document: Args) -> JsonObject | None:
    """The record of what is stored at the wanted path, if it is the wanted document; None if nothing is.

    Raises:
        GatewayError: conflict, when something else is there.
    """
    if (body := await read(context, str(document["brain"]), str(document["path"]))) is None:
        return None
    note = notes.parse(body)
    if not note.holds(document):
        raise _refuse_taken()
    return _findable(context, notes.record(document, note.created or notes.now()))


async def _find_record(context: StepContext, document: Args) -> JsonObject | None:
    """The platform's record of what is at the wanted path, if that is the wanted document; None if nothing is.

    Raises:
        GatewayError: conflict, when something else is there.
    """
    try:
        found = (await context.send(Op.STAT_DOCUMENT, document)).get("document")
    except GatewayError as error:
        if error.code == "not_found":
            return None
        raise
    if isinstance(found, dict):
        if not _is_the_same(found, document) and not await _is_imported(context, document):
            raise _refuse_taken()
        return found
    body = await read(context, str(document["brain"]), str(document["path"]))
    if body is not None and body != str(document["content"]).encode():
        raise _refuse_taken()
    return None if body is None else notes.record(document, notes.now())


async def _is_imported(context: StepContext, document: Args) -> bool:
    """Whether the wanted document is there as a note of ours: it was exported elsewhere, and imported here."""
    try:
        body = await read(context, str(document["brain"]), str(document["path"]))
    except (Absent, GatewayError):
        # It cannot be read. Then it counts as another document, because it is known that something is there.
        return False
    note = notes.open_note(body or b"")
    return bool(note.front) and note.holds(document)


async def read(context: StepContext, brain: str, path: str) -> bytes | None:
    """The bytes at a path; None where there are none."""
    try:
        body = (await context.send(Op.READ_DOCUMENT, {"brain": brain, "path": path}))["body"]
    except GatewayError as error:
        if error.code == "not_found":
            return None
        raise
    return bytes(body)


def _is_the_same(found: JsonObject, wanted: Args) -> bool:
    return bool(
        found.get("checksum_sha256") == names.checksum(str(wanted["content"]))
        and found.get("title") == wanted["title"]
        and (found.get("metadata") or {}).get("tags") == wanted["metadata"].get("tags")
    )


def _complete(record: JsonObject, document: Args) -> JsonObject:
    """A platform's record. If it lacks what a receipt needs, that is added: the document is stored all the same."""
    known = {key: value for key, value in notes.record(document, notes.now()).items() if key in _NEEDED}
    return {**record, **{key: value for key, value in known.items() if not isinstance(record.get(key), type(value))}}


def _findable(context: StepContext, record: JsonObject) -> JsonObject:
    """Adds `searchable: false` if search will never find it."""
    return record if context.finds(str(record["path"])) else {**record, "searchable": False}


def _refuse_taken() -> GatewayError:
    return GatewayError(
        "conflict", "Something else is stored at that path, or it was edited since. Choose another path."
    )
