"""Creates brains so that the same request again is the same brain, lists them by name, and deletes them."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from gateway.operations.context import StepContext
from gateway.operations.errors import Absent, Doubt, GatewayError, Unsure
from gateway.operations.json_text import parse_json
from gateway.operations.parallel import in_parallel
from gateway.operations.steps import documents
from gateway.operations.steps.certainty import (
    PAUSES,
    is_doubt,
    look_again,
    make_certain,
    make_certain_once,
    repeatable,
)
from gateway.operations.table import Args, JsonObject, Op

# No search finds it: it is not markdown; and no caller can write it: the name is reserved.
_RECORD_PATH: Final = "_brain.json"
_NAMED_AT_MOST, _PAGES = 100, 20
# A platform may ask for a longer wait than the rest of a call has time for.
_LONGEST_WAIT: Final = 5.0
_TAKEN_NAME: Final = (
    "There is a brain of that name already, or one with another visibility. Choose another name, or a slug."
)
_TAKEN_SLUG: Final = "There is a brain with that slug already. Choose another slug, or use that brain."


async def create_named(context: StepContext, wanted: Args) -> JsonObject:
    """By a platform that keeps names. A name is also taken if this call made the brain before and lost the answer."""

    async def look() -> JsonObject | None:
        return await _find_listed(context, wanted)

    try:
        return await make_certain(lambda: context.send(Op.CREATE_BRAIN, wanted), look)
    except GatewayError as error:
        if error.code != "conflict":
            raise
        if (existing := await look_again(look, repeatable(Unsure(error, Doubt.ANSWERED)))) is None:
            raise _refuse_taken(wanted) from None
        return {**existing, "reused": True}


async def _find_listed(context: StepContext, wanted: Args) -> JsonObject | None:
    """The wanted brain, if it is in the caller's own list."""
    async for brain in _listed(context, Op.LIST_NAMED_BRAINS):
        if all(brain.get(key) == wanted[key] for key in ("slug", "name", "visibility")):
            return brain
    return None


async def _listed(context: StepContext, op: Op) -> AsyncIterator[JsonObject]:
    """The brains of the caller's own list."""
    cursor: object = None
    for _ in range(_PAGES):
        page = await context.send(op, {"cursor": cursor})
        items = page.get("items")
        for brain in items if isinstance(items, list) else []:
            if isinstance(brain, dict):
                yield brain
        if not (cursor := page.get("next_cursor")):
            break


async def delete(context: StepContext, args: Args) -> JsonObject:
    """With all that is in it. A brain that is no longer listed has been deleted."""

    async def send() -> JsonObject:
        await context.send(Op.DELETE_BRAIN, args)
        return {}

    async def look() -> JsonObject | None:
        there = [item async for item in _listed(context, Op.LIST_BRAINS)]
        return None if any(args["brain"] in (item.get("id"), item.get("slug")) for item in there) else {}

    return await make_certain_once(send, look, late_is_harmless=True)


async def create_bare(context: StepContext, wanted: Args) -> JsonObject:
    """By a platform that keeps only ids: name and visibility are stored in the brain."""
    kept = {"name": wanted["name"], "visibility": wanted["visibility"]}
    brain = str(wanted["slug"])

    async def look() -> JsonObject | None:
        return await _begun_before(context, wanted, kept)

    try:
        created = await make_certain(lambda: context.send(Op.CREATE_BARE_BRAIN, wanted), look)
    except GatewayError as error:
        if (
            error.code != "conflict"
            or (found := await look_again(look, repeatable(Unsure(error, Doubt.ANSWERED)))) is None
        ):
            raise
        created = found
    if not created.get("reused"):
        await _keep(context, brain, kept)
    return {**created, **kept, "visibility_enforced": False}


async def _begun_before(context: StepContext, wanted: Args, kept: JsonObject) -> JsonObject | None:
    """The wanted brain, or None: `reused` if it has its name already, and not if an earlier call broke off before that.

    Raises:
        GatewayError: conflict, when it is another.
    """
    brain = str(wanted["slug"])
    known: JsonObject = {"id": brain, "slug": brain}
    for pause in PAUSES:
        # Another call may be making it at this moment, and is about to write its name.
        await asyncio.sleep(pause)
        try:
            record = await documents.read(context, brain, _RECORD_PATH)
        except GatewayError as error:
            if error.code == "no_brain":
                return None
            raise
        if record is not None:
            if _parse(record) != kept:
                raise _refuse_taken(wanted)
            return {**known, "reused": True}
        if await _holds_something(context, brain):
            raise _refuse_taken(wanted)
    # The brain is empty and has no name, so nobody uses it.
    return known


async def _keep(context: StepContext, brain: str, kept: JsonObject) -> None:
    """Name and visibility, in the brain that was made; tried again while the platform is busy."""
    body = json.dumps(kept, ensure_ascii=False).encode()
    refused: GatewayError | None = None
    for pause in PAUSES:
        wait = max(pause, (refused and refused.retry_after_seconds) or 0)
        if wait > _LONGEST_WAIT:
            break
        await asyncio.sleep(wait)
        try:
            return await documents.write(context, brain, _RECORD_PATH, body)
        except Absent:
            # The brain is there, and that is what was asked.
            return None
        except GatewayError as error:
            refused = error
            if is_doubt(error) or not error.retryable:
                break
    assert refused is not None
    # It is there without its name: the same request again completes it.
    raise repeatable(Unsure(refused, Doubt.LATE)) from refused


async def _holds_something(context: StepContext, brain: str) -> bool:
    items = (await context.send(Op.LIST_DOCUMENTS, {"brain": brain})).get("items")
    paths = (str(item.get("path", "")) for item in items or [] if isinstance(item, dict))
    # Some platforms list their own index.
    return any(not path.startswith(".") for path in paths)


async def list_named(context: StepContext, args: Args) -> JsonObject:
    """The list, with the names that are stored in the brains; nobody enforces a visibility there."""
    answer = await context.send(Op.LIST_BRAINS, args)

    async def named(brain: JsonObject) -> JsonObject:
        kept = await _read_record(context, str(brain.get("id"))) or {}
        known = {key: kept[key] for key in ("name", "visibility") if isinstance(kept.get(key), str)}
        return {**brain, **known, "visibility_enforced": False}

    items = answer["items"]
    looked_at = await in_parallel([partial(named, brain) for brain in items[:_NAMED_AT_MOST]])
    return {**answer, "items": [*looked_at, *items[_NAMED_AT_MOST:]]}


async def _read_record(context: StepContext, brain: str) -> JsonObject | None:
    try:
        return _parse(await documents.read(context, brain, _RECORD_PATH) or b"null")
    except (Absent, GatewayError):
        return None


def _parse(record: bytes) -> JsonObject | None:
    try:
        kept = parse_json(record)
    except ValueError:
        return None
    return kept if isinstance(kept, dict) else None


def _refuse_taken(wanted: Args) -> GatewayError:
    return GatewayError("conflict", _TAKEN_NAME if wanted.get("derived") else _TAKEN_SLUG)
