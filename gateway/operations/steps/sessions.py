"""Appending to a session and closing it, where the platform has no sessions: by a log and a reflection."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gateway.operations import names, notes
from gateway.operations.context import StepContext
from gateway.operations.errors import Absent, GatewayError
from gateway.operations.steps import documents
from gateway.operations.steps.certainty import make_certain_once
from gateway.operations.steps.extraction import as_messages, extract_later, first_that_fit
from gateway.operations.steps.same_call import SameCall, beginning, message_key, record_of, said_since, tail_of
from gateway.operations.steps.session_log import append, line, parts, read_log
from gateway.operations.table import Args, JsonObject, Op

# How many messages back we look for one whose answer was lost, because others may write to the session too.
_RECENT = 50
_CANNOT_TELL = "The platform could not say what was said in the session last. Nothing was appended."


async def append_one_by_one(context: StepContext, args: Args) -> JsonObject:
    """Messages to the platform's own session, in order; only the last lets it extract. Stops at the first failure.

    Raises:
        GatewayError: with how many were `appended` and how many are `remaining`.
    """
    messages = args["messages"]
    actor = {} if args.get("actor_id") is None else {"actor_id": args["actor_id"]}
    session = {"brain": args["brain"], "session_id": args["session_id"]}
    async with context.alone(f"session {args['session_id']}", among_replicas=True):
        appended: list[JsonObject] = []
        with _count_appended(appended, messages):
            tail = await _known_tail(context, session, len(messages))
        there = beginning(tail or [], messages)
        appended += there
        for message in messages[len(there) :]:
            n, last = len(appended), appended[-1] if appended else tail[-1] if tail else None
            metadata = {"skip_extract": n < len(messages) - 1, **actor}
            if (key := message_key(message, args.get("key"), n, last, is_first=tail == [])) is not None:
                metadata["idempotency_key"] = key
            with _count_appended(appended, messages):
                record = await _append_one(context, session, {**message, "metadata": metadata}, last, tail is not None)
            appended.append(record)
    return {"messages": [_without_metadata(record) for record in appended], **_say_if_reused(there, messages)}


async def _known_tail(context: StepContext, session: Args, count: int) -> list[JsonObject] | None:
    """The last messages; None if the platform does not list them, so that nothing can be looked up.

    Raises:
        GatewayError: the platform could not list them now. Then nothing may be appended, because the call may be the
        repeat of one that broke off.
    """
    try:
        return await tail_of(context, session, count)
    except Absent:
        return None
    except GatewayError as error:
        if error.code == "validation_error":
            return None
        if error.code == "upstream_error":
            raise GatewayError("upstream_error", _CANNOT_TELL, retryable=True) from error
        raise


async def _append_one(
    context: StepContext, session: Args, message: JsonObject, last: JsonObject | None, can_look: bool
) -> JsonObject:
    """The record of one message, sent once. If its answer is lost, the session is asked."""

    async def send() -> JsonObject:
        return await context.send(Op.APPEND_MESSAGE, {**session, **message})

    async def look() -> JsonObject | None:
        return said_since(await tail_of(context, session, _RECENT), last, message)

    return await (make_certain_once(send, look) if can_look else send())


def _without_metadata(record: JsonObject) -> JsonObject:
    return {key: value for key, value in record.items() if key != "metadata"}


def _say_if_reused(there: Sequence[JsonObject], messages: Sequence[JsonObject]) -> JsonObject:
    return {"reused": True} if len(there) == len(messages) else {}


@contextmanager
def _count_appended(appended: Sequence[JsonObject], messages: Sequence[JsonObject]) -> Iterator[None]:
    """A failure within says how many messages were appended before it, and how many are left."""
    try:
        yield
    except Absent:
        if not appended:
            raise
        error = GatewayError("upstream_error")
    except GatewayError as failure:
        error = failure
    else:
        return
    error.extra |= {"appended": len(appended), "remaining": len(messages) - len(appended)}
    raise error


async def append_to_log(context: StepContext, args: Args) -> JsonObject:
    """Messages as lines of the log. Memories are extracted from them after the answer."""
    brain, session_id, messages = str(args["brain"]), str(args["session_id"]), args["messages"]
    call = SameCall(session_id, messages, args.get("actor_id"), args.get("key"))
    path = names.session_log_path(context.caller, session_id)
    async with context.alone(path):
        appended: list[JsonObject] = []
        with _count_appended(appended, messages):
            there = call.there((await read_log(context, brain, session_id)).messages)
        appended += there
        entries = call.entries()[len(there) :]
        for part in parts([line(entry) for entry in entries]) if entries else ():
            with _count_appended(appended, messages):
                await append(context, brain, path, part)
            appended += entries[len(appended) - len(there) :][: len(part)]
    extraction = await extract_later(context, brain, session_id)
    records = [record_of(entry) for entry in appended]
    return {"messages": records, "extraction": extraction, **_say_if_reused(there, messages)}


async def close_by_log(context: StepContext, args: Args) -> JsonObject:
    """A reflection on what the log holds, written where it can be read back. Closing again changes nothing."""
    brain, session_id = str(args["brain"]), str(args["session_id"])
    log = await read_log(context, brain, session_id)
    if not log.messages:
        return {
            "session_id": session_id,
            "reflection_status": "no_result",
            "reflection_attempted": False,
            "ended_at": notes.now(),
        }
    if log.extracted < len(log.messages):
        await extract_later(context, brain, session_id)
    if log.closed is not None:
        return log.closed
    messages = as_messages(_last_that_fit(log.messages))
    # Under a name of ours, because one make of daemon writes its reflection to a file that has the name it is sent.
    name = names.reflection_path(context.caller, session_id).removeprefix("reflections/").removesuffix(".md")
    answer = await context.send(Op.REFLECT, {"brain": brain, "session_id": name, "messages": messages})
    ended = await _end_session(context, brain, session_id, answer.get("result"))
    path = names.session_log_path(context.caller, session_id)
    await append(context, brain, path, [line({"kind": "closed", "answer": ended, "messages": len(log.messages)})])
    return ended


async def _end_session(context: StepContext, brain: str, session_id: str, result: JsonObject | None) -> JsonObject:
    ended: JsonObject = {"session_id": session_id, "reflection_attempted": True, "ended_at": notes.now()}
    if result is None or (result.get("outcome") in (None, "", "unknown") and not result.get("summary")):
        return {**ended, "reflection_status": "no_result"}
    path = result.get("path") or await _write_reflection(context, brain, session_id, result)
    reflection = {"should_record_episode": False, **result, "path": path}
    return {**ended, "reflection_status": "completed", "reflection": reflection}


async def _write_reflection(context: StepContext, brain: str, session_id: str, result: JsonObject) -> str:
    """The reflection as a note, where the platform keeps none."""
    path = names.reflection_path(context.caller, session_id)
    parts = [("Summary", result.get("summary")), ("Next time", result.get("retry_feedback"))]
    told = "".join(f"\n## {title}\n\n{text}\n" for title, text in parts if text)
    content = f"# Reflection on session {session_id}\n\nOutcome: {result.get('outcome')}\n{told}"
    document = {"title": f"Reflection on session {session_id}", "content": content, "front": {"type": "reflection"}}
    body = notes.render(document, notes.now())
    await documents.write(context, brain, path, body)
    return path


def _last_that_fit(messages: Sequence[JsonObject]) -> list[JsonObject]:
    return first_that_fit(messages[::-1])[::-1]
