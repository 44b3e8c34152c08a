"""Appending to a session and closing it, where the platform has no sessions: by a log and a reflection."""

from collections.abc import Sequence

from gateway import names, notes
from gateway.errors import Absent, GatewayError
from gateway.operations import Args, JsonObject, Op
from gateway.steps.extraction import extract_later, first_that_fit, said
from gateway.steps.session_log import append, line, parts, read_log
from gateway.work import Work


async def append_one_by_one(work: Work, args: Args) -> JsonObject:
    """Messages to the platform's own session, in order; only the last lets it extract. Stops at the first failure.

    Raises:
        GatewayError: with how many were `appended` and how many are `remaining`.
    """
    messages = args["messages"]
    actor = {} if args.get("actor_id") is None else {"actor_id": args["actor_id"]}
    session = {"brain": args["brain"], "session_id": args["session_id"]}
    appended: list[JsonObject] = []
    for message in messages:
        metadata = {"skip_extract": len(appended) < len(messages) - 1, **actor}
        try:
            record = await work.send(Op.APPEND_MESSAGE, {**session, **message, "metadata": metadata})
        except Absent:
            if not appended:
                raise
            raise _cut_off(GatewayError("upstream_error"), appended, messages) from None
        except GatewayError as error:
            raise _cut_off(error, appended, messages) from error
        appended.append({key: value for key, value in record.items() if key != "metadata"})
    return {"messages": appended}


def _cut_off(error: GatewayError, appended: Sequence[JsonObject], messages: Sequence[JsonObject]) -> GatewayError:
    error.extra |= {"appended": len(appended), "remaining": len(messages) - len(appended)}
    return error


async def append_to_log(work: Work, args: Args) -> JsonObject:
    """Messages as lines of the log; what is worth keeping is extracted after the answer."""
    brain, session_id, messages = str(args["brain"]), str(args["session_id"]), args["messages"]
    path, moment = names.session_log_path(work.caller, session_id), notes.now()
    records = [_record(session_id, message, n, moment) for n, message in enumerate(messages)]
    actor = {} if args.get("actor_id") is None else {"actor_id": args["actor_id"]}
    appended: list[JsonObject] = []
    for part in parts([line({"kind": "message", **record, **actor}) for record in records]):
        try:
            await append(work, brain, path, part)
        except Absent:
            if not appended:
                raise
            raise _cut_off(GatewayError("upstream_error"), appended, records) from None
        except GatewayError as error:
            raise _cut_off(error, appended, records) from error
        appended += records[len(appended) : len(appended) + len(part)]
    extraction = await extract_later(work, brain, session_id)
    return {"messages": records, "extraction": extraction}


async def close_by_log(work: Work, args: Args) -> JsonObject:
    """A reflection on what the log holds, written where it can be read back. Closing again changes nothing."""
    brain, session_id = str(args["brain"]), str(args["session_id"])
    log = await read_log(work, brain, session_id)
    if not log.messages:
        return {
            "session_id": session_id,
            "reflection_status": "no_result",
            "reflection_attempted": False,
            "ended_at": notes.now(),
        }
    if log.extracted < len(log.messages):
        await extract_later(work, brain, session_id)
    if log.closed is not None:
        return log.closed
    messages = said(_last_that_fit(log.messages))
    # Under a name of ours: one make writes its reflection to a file of that name.
    name = names.reflection_path(work.caller, session_id).removeprefix("reflections/").removesuffix(".md")
    answer = await work.send(Op.REFLECT, {"brain": brain, "session_id": name, "messages": messages})
    ended = await _ended(work, brain, session_id, answer.get("result"))
    path = names.session_log_path(work.caller, session_id)
    await append(work, brain, path, [line({"kind": "closed", "answer": ended, "messages": len(log.messages)})])
    return ended


async def _ended(work: Work, brain: str, session_id: str, result: JsonObject | None) -> JsonObject:
    ended: JsonObject = {"session_id": session_id, "reflection_attempted": True, "ended_at": notes.now()}
    if result is None or (result.get("outcome") in (None, "", "unknown") and not result.get("summary")):
        return {**ended, "reflection_status": "no_result"}
    path = result.get("path") or await _written(work, brain, session_id, result)
    reflection = {"should_record_episode": False, **result, "path": path}
    return {**ended, "reflection_status": "completed", "reflection": reflection}


async def _written(work: Work, brain: str, session_id: str, result: JsonObject) -> str:
    """The reflection as a note, where the platform keeps none."""
    path = names.reflection_path(work.caller, session_id)
    parts = [("Summary", result.get("summary")), ("Next time", result.get("retry_feedback"))]
    told = "".join(f"\n## {title}\n\n{text}\n" for title, text in parts if text)
    content = f"# Reflection on session {session_id}\n\nOutcome: {result.get('outcome')}\n{told}"
    document = {"title": f"Reflection on session {session_id}", "content": content, "front": {"type": "reflection"}}
    body = notes.rendered(document, notes.now())
    await work.send(Op.WRITE_DOCUMENT, {"brain": brain, "path": path, "body": body})
    return path


def _record(session_id: str, message: JsonObject, n: int, moment: str) -> JsonObject:
    role, content = message["role"], message["content"]
    message_id = f"msg_{names.digest([session_id, n, role, content, moment])[:24]}"
    return {"id": message_id, "session_id": session_id, "role": role, "content": content, "created_at": moment}


def _last_that_fit(messages: Sequence[JsonObject]) -> list[JsonObject]:
    return first_that_fit(messages[::-1])[::-1]
