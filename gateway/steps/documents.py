"""Ways to store a document so that the same write again is the same document."""

from typing import Final

from gateway import names, notes
from gateway.errors import Absent, GatewayError
from gateway.operations import Args, JsonObject, Op
from gateway.work import Work

# What platforms take in one PUT and in one batch, less room for the longest front matter.
_FRONT_BYTES: Final = 64 * 1024
PUT_BYTES: Final = 2 * 1024 * 1024 - _FRONT_BYTES
BATCH_BYTES: Final = 8 * 1024 * 1024 - _FRONT_BYTES
_NEEDED: Final = frozenset({"id", "path", "byte_size"})
_DOUBT: Final = frozenset({"conflict", "outcome_unknown"})


def fits_a_put(document: Args) -> bool:
    content = str(document["content"])
    return len(content) <= PUT_BYTES and len(content.encode()) <= PUT_BYTES


async def by_record(work: Work, document: Args) -> JsonObject:
    """By a platform that keeps a record of each document, and refuses a path that is taken."""
    try:
        return _complete(await work.send(Op.CREATE_DOCUMENT, document), document)
    except GatewayError as error:
        if error.code not in _DOUBT:
            raise
        # The same write may have been made before, or just now with its answer lost: look.
        if (stored := await _recorded(work, document)) is not None:
            return {**_complete(stored, document), "reused": True}
        raise _doubtful(error) from None


async def by_put(work: Work, document: Args) -> JsonObject:
    """By a platform that keeps bytes: a PUT replaces what is there, so look first."""
    return await _as_note(work, document, Op.WRITE_DOCUMENT)


async def by_batch(work: Work, document: Args) -> JsonObject:
    """What is too large for a PUT, as a batch of one write."""
    if len(str(document["content"]).encode()) > BATCH_BYTES:
        raise GatewayError("payload_too_large")
    return await _as_note(work, document, Op.BATCH_WRITE)


async def _as_note(work: Work, document: Args, op: Op) -> JsonObject:
    brain, path = str(document["brain"]), str(document["path"])
    # Between the look and the write, nobody else of this process writes there.
    async with work.alone(f"{path} of {brain}"):
        if (stored := await _noted(work, document)) is not None:
            return {**stored, "reused": True}
        moment = notes.now()
        body = notes.rendered(document, moment)
        try:
            await work.send(
                op, {"brain": brain, "path": path, "body": body, "writes": {path: body}, "reason": "remember"}
            )
        except GatewayError as error:
            if error.code not in _DOUBT or (stored := await _found_after(work, document)) is None:
                raise _doubtful(error) from None
            return stored
    return _findable(work, notes.record(document, moment))


async def _found_after(work: Work, document: Args) -> JsonObject | None:
    """What a look after a write in doubt finds; a look that fails leaves it in doubt."""
    try:
        return await _noted(work, document)
    except Absent:
        return None
    except GatewayError as error:
        if error.code == "conflict":
            raise
        return None


async def _noted(work: Work, document: Args) -> JsonObject | None:
    """The record of what is stored at the wanted path, if it is the wanted document; None if nothing is.

    Raises:
        GatewayError: conflict, when something else is there.
    """
    if (body := await read(work, str(document["brain"]), str(document["path"]))) is None:
        return None
    note = notes.parsed(body)
    if not note.holds(document):
        raise _taken()
    return _findable(work, notes.record(document, note.created or notes.now()))


async def _recorded(work: Work, document: Args) -> JsonObject | None:
    """The platform's record of what is at the wanted path, if that is the wanted document."""
    try:
        found = (await work.send(Op.STAT_DOCUMENT, document)).get("document")
        if isinstance(found, dict):
            return found if _is_the_same(found, document) else None
        body = await read(work, str(document["brain"]), str(document["path"]))
    except (Absent, GatewayError):
        return None
    return notes.record(document, notes.now()) if body == str(document["content"]).encode() else None


async def read(work: Work, brain: str, path: str) -> bytes | None:
    """The bytes at a path; None where there are none."""
    try:
        body = (await work.send(Op.READ_DOCUMENT, {"brain": brain, "path": path}))["body"]
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
    """A platform's record with what a receipt needs, where it says that much less: it is stored all the same."""
    known = {key: value for key, value in notes.record(document, notes.now()).items() if key in _NEEDED}
    return {**record, **{key: value for key, value in known.items() if not isinstance(record.get(key), type(value))}}


def _findable(work: Work, record: JsonObject) -> JsonObject:
    """Says so where search will never find it."""
    return record if work.finds(str(record["path"])) else {**record, "searchable": False}


def _doubtful(error: GatewayError) -> GatewayError:
    """A repeat of these writes is the same write: what is not known may be tried again."""
    if error.code == "conflict":
        return _taken()
    if error.code == "outcome_unknown":
        error.retryable = True
    return error


def _taken() -> GatewayError:
    return GatewayError(
        "conflict", "Something else is stored at that path, or it was edited since. Choose another path."
    )
