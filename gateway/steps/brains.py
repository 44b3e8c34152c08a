"""Creating a brain where the platform keeps its id alone."""

import json

from gateway.errors import Absent, GatewayError
from gateway.operations import Args, JsonObject, Op
from gateway.steps import documents
from gateway.work import Work

# No search finds it: it is not markdown; and no caller can write it: the name is reserved.
_RECORD_PATH = "_brain.json"


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
