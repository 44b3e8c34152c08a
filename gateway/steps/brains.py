"""Creating and listing brains where the platform keeps their ids alone."""

import asyncio
import json

from gateway.errors import Absent, GatewayError
from gateway.operations import Args, JsonObject, Op
from gateway.steps import documents
from gateway.work import Work

# No search finds it: it is not markdown; and no caller can write it: the name is reserved.
_RECORD_PATH = "_brain.json"
_NAMED_AT_MOST, _AT_ONCE = 100, 8


async def create_bare(work: Work, wanted: Args) -> JsonObject:
    """A brain, its name and visibility kept beside it, so that the same request again is the same brain."""
    kept = {"name": wanted["name"], "visibility": wanted["visibility"]}
    brain = str(wanted["slug"])
    try:
        created = await work.send(Op.CREATE_BARE_BRAIN, wanted)
    except GatewayError as error:
        if error.code not in {"conflict", "outcome_unknown"} or not wanted.get("derived"):
            raise
        if await _kept(work, brain) != kept:
            raise
        return {"id": brain, "slug": brain, **kept, "visibility_enforced": False, "reused": True}
    await _keep(work, brain, kept)
    return {**created, **kept, "visibility_enforced": False}


async def list_named(work: Work, args: Args) -> JsonObject:
    """The list, with the names that were kept; nobody enforces a visibility there."""
    answer = await work.send(Op.LIST_BRAINS, args)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def named(brain: JsonObject) -> JsonObject:
        async with gate:
            kept = await _kept(work, str(brain.get("id"))) or {}
        known = {key: kept[key] for key in ("name", "visibility") if isinstance(kept.get(key), str)}
        return {**brain, **known, "visibility_enforced": False}

    items = answer["items"]
    looked_at = await asyncio.gather(*(named(brain) for brain in items[:_NAMED_AT_MOST]))
    return {**answer, "items": [*looked_at, *items[_NAMED_AT_MOST:]]}


async def _keep(work: Work, brain: str, kept: JsonObject) -> None:
    body = json.dumps(kept, ensure_ascii=False).encode()
    try:
        await work.send(Op.WRITE_DOCUMENT, {"brain": brain, "path": _RECORD_PATH, "body": body})
    except (Absent, GatewayError):
        # The brain is there, and that is what was asked; without this note a repeat is a conflict.
        return


async def _kept(work: Work, brain: str) -> JsonObject | None:
    try:
        kept = json.loads(await documents.read(work, brain, _RECORD_PATH) or b"null")
    except (Absent, GatewayError, ValueError, RecursionError):
        return None
    return kept if isinstance(kept, dict) else None
