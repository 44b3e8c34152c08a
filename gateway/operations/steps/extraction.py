"""Memories from messages, on platforms that only propose them: they are extracted after the answer, and stored."""

from collections.abc import Sequence

import structlog

from gateway.operations import names, notes
from gateway.operations.context import StepContext
from gateway.operations.errors import Absent, GatewayError
from gateway.operations.steps import documents
from gateway.operations.steps.certainty import make_certain
from gateway.operations.steps.session_log import append, line, read_log
from gateway.operations.table import Args, JsonObject, Op

log = structlog.get_logger()

# Platforms take 1 MiB of JSON here, in which a character may need two.
_REQUEST_BYTES = 500_000
_ROOM = 1024
# After one call, at most this many requests may be refused. Otherwise a long conversation of which everything is
# refused would be sent for an hour.
_REFUSALS = 100
# Any other role is sent as a user, because platforms refuse a whole request for one role that they do not know.
_ROLES = ("system", "user", "assistant", "tool")


async def transcript_by_put(context: StepContext, document: Args) -> JsonObject:
    """A transcript as a note. After the answer, memories are extracted from it, once."""
    return await _looked_at_later(context, document, await documents.by_put(context, document))


async def transcript_by_batch(context: StepContext, document: Args) -> JsonObject:
    return await _looked_at_later(context, document, await documents.by_batch(context, document))


async def _looked_at_later(context: StepContext, document: Args, stored: JsonObject) -> JsonObject:
    if not await context.has(Op.EXTRACT):
        return {**stored, "extraction": "unavailable"}

    async def job(later: StepContext) -> None:
        await _extract_from_transcript(later, document)

    context.later(f"extract {document['path']} of {document['brain']}", job)
    return {**stored, "extraction": "started"}


async def extract_later(context: StepContext, brain: str, session_id: str) -> str:
    """Begin to extract memories from the messages after the answer, if the platform can."""
    if not await context.has(Op.EXTRACT):
        return "unavailable"

    async def job(later: StepContext) -> None:
        kept = await read_log(later, brain, session_id)
        await _extract_rest(later, brain, session_id, kept.messages, kept.extracted, later.own_tree)

    context.later(f"extract {names.session_log_path(context.caller, session_id)} of {brain}", job)
    return "started"


async def _extract_from_transcript(context: StepContext, document: Args) -> None:
    """A log of its own, named as a session is, says up to where memories were extracted from a transcript."""
    brain, name = str(document["brain"]), str(document["path"]).rpartition("/")[2].removesuffix(".md")
    actor = document["metadata"].get("actor_id")
    messages = [{**message, "actor_id": actor} for message in document["messages"]]
    await _extract_rest(context, brain, name, messages, (await read_log(context, brain, name)).extracted)


async def _extract_rest(
    context: StepContext,
    brain: str,
    name: str,
    messages: Sequence[JsonObject],
    done: int,
    own_tree: str | None = None,
) -> None:
    """Extract from the messages since the last time, a request at a time, and note how far that went."""
    path = names.session_log_path(context.caller, name)
    most, refusals = len(messages), 0
    while done < len(messages):
        window = first_that_fit(messages[done : done + most])
        try:
            paths = await keep_extracted(context, brain, name, window, own_tree)
        except GatewayError as error:
            # If its content is the reason, it would be refused for ever, and all messages after it would wait.
            if error.code not in {"payload_too_large", "validation_error"}:
                raise
            refusals += 1
            if refusals == _REFUSALS:
                log.warning("extract.given_up", brain=brain, messages=len(messages) - done, code=error.code)
                return
            if len(window) > 1:
                most = len(window) // 2
                continue
            paths = []
        done, most = done + len(window), len(messages)
        await append(context, brain, path, [line({"kind": "extracted", "through": done, "paths": paths})])
        log.info("extract.done", brain=brain, messages=len(window), memories=len(paths))


async def keep_extracted(
    context: StepContext, brain: str, session_id: str, messages: Sequence[JsonObject], own_tree: str | None = None
) -> list[str]:
    """Have memories extracted and store them: these platforms only propose them. The paths they are kept at.

    Memories from a session that belongs to one person stay in their own tree.
    """
    actor = next((m["actor_id"] for m in reversed(messages) if m.get("actor_id")), None)
    args = {"brain": brain, "session_id": session_id, "messages": as_messages(messages), "actor_id": actor}
    proposed = (await context.send(Op.EXTRACT, args))["memories"]
    project = context.project_of(actor)
    said = [memory for memory in proposed if str(memory.get("content") or "").strip()]
    writes = dict(_memory(memory, session_id, _tree(memory, project, own_tree)) for memory in said)
    if writes:
        await _write_all(context, brain, writes)
    return list(writes)


def _tree(memory: JsonObject, project: str | None, own_tree: str | None) -> str:
    if own_tree is not None:
        return f"agent/{own_tree}"
    return f"project/{project}" if project is not None and memory.get("scope") == "project" else "global"


def _memory(memory: JsonObject, session_id: str, tree: str) -> tuple[str, bytes]:
    content = str(memory["content"])
    title = " ".join(str(memory.get("name") or names.title_of(content)).split())
    path = names.extracted_path(str(memory.get("filename") or title).removesuffix(".md"), content, tree)
    tags = memory.get("tags")
    front = {"type": str(memory.get("type") or "memory"), "session_id": session_id, "source": "extract"}
    note = {"title": title, "content": content, "tags": [str(t) for t in tags] if isinstance(tags, list) else []}
    return path, notes.set_apart(notes.render({**note, "front": front}, notes.now()), path)


async def _write_all(context: StepContext, brain: str, writes: dict[str, bytes]) -> None:
    """Together if the platform can, else one by one. Their names are derived, so a repeat is the same write."""

    async def send() -> bool:
        await context.send(Op.BATCH_WRITE, {"brain": brain, "writes": writes, "reason": "extract"})
        return True

    async def look() -> bool | None:
        kept = [await documents.read(context, brain, path) for path in writes]
        return kept == list(writes.values()) or None

    try:
        await make_certain(send, look)
    except Absent:
        for path, body in writes.items():
            await documents.write(context, brain, path, body)


def as_messages(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Role and content alone, none of it longer than one request."""
    return [
        {
            "role": m["role"] if m["role"] in _ROLES else "user",
            "content": str(m["content"]).encode()[:_REQUEST_BYTES].decode("utf-8", "ignore"),
        }
        for m in messages
    ]


def first_that_fit(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """As many messages as one request takes, and always one."""
    size, fitting = 0, 0
    for message in messages:
        size += len(str(message["content"]).encode()) + _ROOM
        if fitting and size > _REQUEST_BYTES:
            break
        fitting += 1
    return list(messages[:fitting])
