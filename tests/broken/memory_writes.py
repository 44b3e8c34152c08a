"""Broken servers: the tools of a memory that write, and the one that answers."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from contract.rpc import JsonObject, Reply
from tests.broken.calls import (
    Act,
    Asked,
    Forward,
    answers,
    asks,
    edits,
    failed,
    having,
    lenient,
    on,
    progresses,
    refuses,
    says,
    server,
    succeeded,
    without,
)
from tests.broken.memory_calls import by_default, each, instead


def named(tool: str, *cases: str) -> list[str]:
    return [f"memory/{tool}/{one}" for one in cases]


def receipts_for_nothing(tool: str) -> Act:
    """It says that it stored something, and did not."""

    async def act(_asked: Asked, _forward: Forward) -> Reply:
        return succeeded({"id": "doc_1", "path": "memory/global/nowhere.md"})

    return on(tool, act)


def changed(key: str, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """For `edits`: one field changed, where it is there."""
    return lambda value: {**value, key: change(value[key])} if key in value else value


def new_place(asked: Asked) -> Asked:
    return asked.with_arguments({"path": f"memory/global/{uuid.uuid4().hex}.md", **asked.arguments})


async def obliging(asked: Asked, forward: Forward) -> Reply:
    """A brain that is missing is made."""
    reply = await forward(asked)
    if not (reply.is_error and "no_brain" in reply.text):
        return reply
    brain = asked.arguments["brain"]
    await forward(Asked("tools/call", {"name": "memory_create_brain", "arguments": {"name": brain, "slug": brain}}))
    return await forward(asked)


def signed(asked: Asked) -> Asked:
    """A transcript with something in it that no other has."""
    arguments = asked.arguments
    if "session_id" in arguments or not isinstance(arguments.get("messages"), list):
        return asked
    signature = {"role": "system", "content": uuid.uuid4().hex}
    return asked.with_arguments({**arguments, "messages": [*arguments["messages"], signature]})


def new_ids(value: Any) -> Any:
    return each("messages", lambda message: {**message, "id": uuid.uuid4().hex})(value)


def first_words_only() -> Act:
    """A session answers with what was said in it first."""
    said: dict[str, Reply] = {}

    async def act(asked: Asked, forward: Forward) -> Reply:
        session = asked.arguments.get("session_id", "")
        if session not in said:
            said[session] = await forward(asked)
        return said[session]

    return on("memory_extract", act)


def at_the_top(value: Any) -> Any:
    return {"mode": value["mode"], **value.get("document", {})}


def forgetful() -> Act:
    """What was there before a consolidation is gone after it."""
    pruned = False

    async def act(asked: Asked, forward: Forward) -> Reply:
        nonlocal pruned
        reply = await forward(asked)
        pruned = pruned or asked.tool == "memory_consolidate"
        return succeeded({"hits": []}) if pruned and asked.tool == "memory_search" else reply

    return act


def without_result(reply: Reply) -> Reply:
    return (
        failed("not_found: no such session") if (reply.structured or {}).get("reflection_attempted") is False else reply
    )


def reused_is_taken(reply: Reply) -> Reply:
    return failed("conflict: there is one") if (reply.structured or {}).get("reused") else reply


def numbered(told: list[JsonObject]) -> list[JsonObject]:
    return [{**one, "progressToken": int(t) if (t := str(one["progressToken"])).isdecimal() else t} for one in told]


REMEMBER = [
    server(
        "records have no commit",
        edits("memory_remember", without("commit_sha")),
        *named("remember", "returns-the-record"),
    ),
    server(
        "nothing is stored",
        receipts_for_nothing("memory_remember"),
        *named("remember", "is-found", "path-is-made", "many-at-once"),
    ),
    server(
        "the title is the path",
        edits("memory_remember", lambda record: {**record, "title": record["path"]}),
        *named("remember", "title-from-the-heading", "title-is-kept", "title-edges"),
    ),
    server(
        "tags are parted by spaces",
        edits("memory_remember", changed("metadata", changed("tags", lambda tags: tags.replace(",", " ")))),
        *named("remember", "tags-are-joined"),
    ),
    server(
        "the path is ignored",
        asks("memory_remember", lambda asked: asked.without("path")),
        *named("remember", "path-is-kept", "path-edges"),
    ),
    server(
        "the size is of what is stored",
        edits("memory_remember", changed("byte_size", lambda size: size + 120)),
        *named("remember", "sizes-of-the-content"),
    ),
    server(
        "everything is remembered",
        lenient("memory_remember", {"metadata": {}}),
        *named(
            "remember", "content-edges", "content-is-needed", "title-edges", "tags-edges", "tag-edges", "path-edges"
        ),
        *named("remember", "path-without-nul", "path-stays-inside", "other-content-at-the-path", "unknown-argument"),
    ),
    server(
        "every call is a new note", asks("memory_remember", new_place), *named("remember", "sent-twice", "sent-at-once")
    ),
    server("brains are made on the fly", on("memory_remember", obliging), *named("remember", "makes-no-brain")),
]
INGEST = [
    server(
        "results have no hash",
        edits("memory_ingest_file", without("hash")),
        *named("ingest_file", "returns-the-result"),
    ),
    server(
        "results say documentId",
        edits("memory_ingest_file", lambda result: {**result, "documentId": result["document_id"]}),
        *named("ingest_file", "keys-are-snake-case"),
    ),
    server(
        "no file is stored",
        receipts_for_nothing("memory_ingest_file"),
        *named("ingest_file", "is-found", "kind-from-the-extension", "kind-is-told"),
    ),
    server("every file is text", asks("memory_ingest_file", instead("as", "text")), *named("ingest_file", "pdf")),
    server(
        "paths are absolute",
        refuses("memory_ingest_file", lambda said: not str(said.get("path")).startswith("/")),
        *named("ingest_file", "relative-path"),
    ),
    server(
        "every file is taken",
        lenient("memory_ingest_file"),
        *named("ingest_file", "kind-unknown", "too-large", "missing-file", "path-is-needed"),
    ),
    server(
        "no file is known again",
        edits("memory_ingest_file", having({"reused": False})),
        *named("ingest_file", "sent-twice"),
    ),
    server(
        "a file that is known has no numbers",
        edits("memory_ingest_file", lambda value: without("chunk_count")(value) if value["reused"] else value),
        *named("ingest_file", "sent-twice-has-every-field"),
    ),
    server(
        "the way of a page is not told",
        edits("memory_ingest_url", having({"path": "raw/documents/page.md"})),
        *named("ingest_url", "returns-the-result"),
    ),
    server(
        "every URL is taken",
        lenient("memory_ingest_url"),
        *named("ingest_url", "not-a-url", "private-address", "other-scheme"),
    ),
]
EXTRACT = [
    server(
        "messages come back the newest first",
        edits("memory_extract", changed("messages", lambda messages: messages[::-1])),
        *named("extract", "in-a-session", "roles"),
    ),
    server(
        "messages have their metadata",
        edits("memory_extract", each("messages", having({"metadata": {"skip_extract": True}}))),
        *named("extract", "no-metadata"),
    ),
    server("a transcript is the result", edits("memory_extract", at_the_top), *named("extract", "as-a-transcript")),
    server(
        "transcripts are ingested elsewhere",
        edits("memory_extract", changed("document", having({"source": "ingest", "path": "raw/other.md"}))),
        *named("extract", "transcript-is-extracted", "transcript-is-found"),
    ),
    server(
        "actors are ignored",
        asks("memory_extract", lambda asked: asked.without("actor_id")),
        *named("extract", "actor-of-a-transcript"),
    ),
    server(
        "everything is extracted",
        lenient("memory_extract"),
        *named("extract", "role-unknown", "empty-message", "messages-edges", "messages-are-needed", "longest-message"),
    ),
    server("messages are always new", edits("memory_extract", new_ids), *named("extract", "session-sent-twice")),
    server("transcripts are always new", asks("memory_extract", signed), *named("extract", "transcript-sent-twice")),
    server("sessions keep their first words", first_words_only(), *named("extract", "other-messages-are-appended")),
]
REFLECT = [
    server(
        "whether it tried is not told",
        edits("memory_reflect", without("reflection_attempted")),
        *named("reflect", "returns-the-reflection"),
    ),
    server(
        "the status is always no_result",
        edits("memory_reflect", having({"reflection_status": "no_result"})),
        *named("reflect", "status-of-a-reflection"),
    ),
    server(
        "the text says that it is closed",
        says("memory_reflect", lambda _text: "Session closed."),
        *named("reflect", "text-tells-the-outcome", "text-tells-the-episode"),
    ),
    server(
        "reflections are as the model writes them",
        edits("memory_reflect", changed("reflection", having({"shouldRecordEpisode": True}))),
        *named("reflect", "keys-are-snake-case"),
    ),
    server(
        "a session without words is not found",
        answers("memory_reflect", without_result),
        *named("reflect", "unknown-session"),
    ),
    server(
        "a session ends whenever it is closed",
        edits("memory_reflect", lambda value: {**value, "ended_at": datetime.now(UTC).isoformat()}),
        *named("reflect", "closed-twice"),
    ),
    server("everything is reflected on", lenient("memory_reflect"), *named("reflect", "session-is-needed")),
    server(
        "a consolidation is bare",
        edits("memory_consolidate", lambda value: value["result"]),
        *named("consolidate", "returns-the-result"),
    ),
    server("a consolidation prunes it all", forgetful(), *named("consolidate", "keeps-what-was-remembered")),
]
BRAINS = [
    server(
        "a brain is called by its slug",
        edits("memory_create_brain", lambda brain: {**brain, "name": brain["slug"]}),
        *named("create_brain", "returns-the-brain", "slug-is-made", "name-edges"),
    ),
    server(
        "the list is old",
        edits("memory_list_brains", having({"items": []})),
        *named("create_brain", "is-listed"),
        *named("list_brains", "returns-the-brains", "keys-are-snake-case"),
    ),
    server(
        "slugs are in capitals",
        edits("memory_create_brain", changed("slug", str.upper)),
        *named("create_brain", "slug-is-made"),
    ),
    server(
        "brains are public by default",
        asks("memory_create_brain", by_default("visibility", "public")),
        *named("create_brain", "visibility-is-private"),
    ),
    server(
        "brains are always private",
        asks("memory_create_brain", lambda asked: asked.without("visibility")),
        *named("create_brain", "visibilities", "visibility-unknown"),
    ),
    server(
        "every brain is made",
        lenient("memory_create_brain", {"id": "brn_1"}),
        *named("create_brain", "visibility-unknown", "name-edges", "slug-edges", "slug-characters", "taken-slug"),
        *named("create_brain", "unknown-argument"),
    ),
    server(
        "a brain that is there is a conflict",
        answers("memory_create_brain", reused_is_taken),
        *named("create_brain", "sent-twice", "sent-at-once"),
    ),
    server(
        "brains say brainId",
        edits("memory_list_brains", each("items", lambda brain: {**brain, "brainId": brain["id"]})),
        *named("list_brains", "keys-are-snake-case"),
    ),
    server(
        "brains are listed without visibility",
        edits("memory_list_brains", each("items", without("visibility"))),
        *named("list_brains", "returns-the-brains"),
    ),
]
ASK = [
    server(
        "there is no answer",
        edits("memory_ask", without("answer")),
        *named("ask", "returns-the-answer", "text-is-the-answer"),
    ),
    server(
        "nothing is cited",
        edits("memory_ask", having({"citations": []})),
        *named("ask", "citations", "cites-what-was-retrieved"),
    ),
    server(
        "citations have a rank", edits("memory_ask", each("citations", having({"rank": 1}))), *named("ask", "citations")
    ),
    server(
        "what was retrieved is what a search finds",
        edits("memory_ask", each("retrieved", having({"brain_id": "b", "metadata": {}, "highlights": []}))),
        *named("ask", "retrieved-is-thin"),
    ),
    server(
        "previews are whole notes",
        edits("memory_ask", each("retrieved", changed("preview", lambda text: text * 2))),
        *named("ask", "preview-is-short"),
    ),
    server(
        "ask has no top_k",
        asks("memory_ask", lambda asked: asked.without("top_k")),
        *named("ask", "top-k-limits", "top-k-edges"),
    ),
    server(
        "everything is asked", lenient("memory_ask"), *named("ask", "top-k-edges", "query-edges", "query-is-needed")
    ),
    server(
        "tokens are in small letters",
        progresses(lambda told: [{**one, "progressToken": str(one["progressToken"]).lower()} for one in told]),
        *named("ask", "progress-bears-the-token"),
    ),
    server("tokens of digits are numbers", progresses(numbered), *named("ask", "progress-token-is-a-text")),
    server(
        "progress counts from one",
        progresses(lambda told: [{**one, "progress": one["progress"] + 1} for one in told]),
        *named("ask", "progress-counts"),
    ),
    server(
        "progress has a total",
        progresses(lambda told: [{**one, "total": len(told)} for one in told]),
        *named("ask", "progress-has-no-total"),
    ),
    server(
        "pieces of the answer lose their spaces",
        progresses(lambda told: [{**one, "message": one["message"].strip()} for one in told]),
        *named("ask", "progress-makes-the-answer"),
    ),
    server(
        "nothing is told of the progress",
        progresses(lambda _told: []),
        *named("ask", "progress-counts", "progress-bears-the-token"),
    ),
]
SERVERS = REMEMBER + INGEST + EXTRACT + REFLECT + BRAINS + ASK
