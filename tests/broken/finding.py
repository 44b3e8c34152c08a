"""Broken peers: search, answers, sessions and stages."""

from dataclasses import replace
from itertools import count
from typing import Any

from tests.broken.peer import peer
from tests.broken.wrapping import Asked, Forward, Said, asks, edits, lenient, on, problem, refuses, said, stream, turns

SEARCH, ASK = "GET {b}/search", "POST {b}/ask"
SESSION = "{b}/sessions/[^/]+"
MESSAGES, ADD, CLOSE, RECALL = (
    f"GET {SESSION}/messages",
    f"POST {SESSION}/messages",
    f"POST {SESSION}/close",
    f"POST {SESSION}/recall",
)
TURNS = count()


def _hits(change: Any) -> Any:
    return edits(SEARCH, lambda told: {**told, "hits": change(told["hits"])})


def _more(path: str) -> Any:
    return lambda hits: [*hits, {"path": path, "content": "gyokuro", "score": 0.1}]


def _shifted(frames: list[Any]) -> list[Any]:
    return [{**one, "answer_end": one["answer_end"] + 1} if "answer_end" in one else one for one in frames]


def _in_utf16(frames: list[Any]) -> list[Any]:
    answer = "".join(one.get("delta", "") for one in frames)

    def units(at: int) -> int:
        return len(answer[:at].encode("utf-16-le")) // 2

    return [
        {**one, "answer_start": units(one["answer_start"]), "answer_end": units(one["answer_end"])}
        if "answer_end" in one
        else one
        for one in frames
    ]


def _cited(frames: list[Any]) -> list[Any]:
    quote = {"type": "citation", "chunk_id": "c", "document_id": "d", "answer_start": 0, "answer_end": 0, "quote": "x"}
    return [*frames[:-1], quote, frames[-1]]


def _richer(frames: list[Any]) -> list[Any]:
    return [
        {**one, "chunks": [{**chunk, "metadata": {}} for chunk in one["chunks"]]} if "chunks" in one else one
        for one in frames
    ]


def _one_delta_less(frames: list[Any]) -> list[Any]:
    at = next(number for number, one in enumerate(frames) if one["type"] == "answer_delta")
    return frames[:at] + frames[at + 1 :]


async def _one_session(asked: Asked, forward: Forward) -> Said:
    base = asked.path.partition("/sessions/")[0]
    return await forward(replace(asked, path=f"{base}/sessions/one{asked.path[asked.path.rindex('/') :]}"))


async def _deaf(asked: Asked, forward: Forward) -> Said:
    base = asked.path.partition("/sessions/")[0]
    return await forward(replace(asked, path=f"{base}/sessions/nobody-s/recall"))


async def _every_third_is_lost(asked: Asked, forward: Forward) -> Said:
    if next(TURNS) % 3:
        return await forward(asked)
    return said(201, {"content": asked.json()["content"]})


async def _merging(asked: Asked, forward: Forward) -> Said:
    told = await forward(asked)
    base = asked.path.removesuffix("/consolidate")
    gone = {"method": "DELETE", "path": f"{base}/documents", "query": {"path": "memory/global/b.md"}, "body": b""}
    await forward(replace(asked, **gone))  # type: ignore[arg-type]
    return told


def _skipping(skip: bool) -> Any:
    return asks(ADD, lambda asked: asked.with_json({**asked.json(), "metadata": {"skip_extract": skip}}))


def _without_key(asked: Asked) -> Asked:
    metadata = {key: value for key, value in asked.json()["metadata"].items() if key != "idempotency_key"}
    return asked.with_json({**asked.json(), "metadata": metadata})


def _moment(told: Any) -> Any:
    return {**told, "ended_at": f"2026-01-01T00:00:{next(TURNS) % 60:02d}+00:00"}


SEARCHES = [
    peer(
        "nothing is found",
        _hits(lambda hits: []),
        "search/find",
        "search/other-scripts",
        "search/marks-and-operators",
        "search/relevance-then-recency",
        "search/after-an-append",
        "search/after-a-batch",
        "ingest/file-is-found",
        "sessions/extract",
        "stages/transcript",
    ),
    peer(
        "scores are texts",
        _hits(lambda hits: [{**one, "score": str(one["score"])} for one in hits]),
        "search/find",
    ),
    peer(
        "parts of scores are shares of a hundred",
        _hits(lambda hits: [{**one, "component_scores": {"keyword": 73}} for one in hits]),
        "search/component-scores",
    ),
    peer("no hits are null", _hits(lambda hits: hits or None), "search/nothing", "search/after-a-delete"),
    peer("hits are backwards", _hits(lambda hits: hits[::-1]), "search/best-first", "search/newest-first"),
    peer("top_k is ignored", asks(SEARCH, lambda asked: asked.without("top_k")), "search/ten-by-default"),
    peer("five hits are enough", _hits(lambda hits: hits[:5]), "search/ten-by-default"),
    peer("scopes are ignored", asks(SEARCH, lambda asked: asked.without("scope")), "search/scope", "search/bad-scope"),
    peer("orders are ignored", asks(SEARCH, lambda asked: asked.without("sort")), "search/newest-first"),
    peer(
        "one order is missing",
        refuses(SEARCH, lambda asked: "then" in asked.query.get("sort", ""), problem(400, "validation_error")),
        "search/relevance-then-recency",
    ),
    peer("prefixes are ignored", asks(SEARCH, lambda asked: asked.without("path_prefix")), "search/below-a-path"),
    peer(
        "nothing is ever forgotten",
        _hits(_more("a.md")),
        "search/after-a-change",
        "search/after-a-delete",
        "search/after-a-move",
        "search/nothing",
        "sessions/skip-extract",
    ),
    peer("every file is found", _hits(_more("a.txt")), "search/markdown-alone"),
    peer(
        "marks are operators",
        refuses(SEARCH, lambda asked: '"' in asked.query.get("q", ""), problem(500, "internal_error")),
        "search/marks-and-operators",
    ),
    peer(
        "any search is made",
        turns(SEARCH, 400, said(200, {"hits": []})),
        "search/no-query",
        "search/a-long-query",
        "search/bad-top-k",
        "search/bad-scope",
        "search/bad-sort",
    ),
]

ANSWERS = [
    peer(
        "answers have no end",
        stream(lambda frames: frames[:-1]),
        "ask/events-in-order",
        "ask/nothing-known",
        "ask/a-long-query",
        "ask/several-at-once",
    ),
    peer("done comes first", stream(lambda frames: [frames[-1], *frames[:-1]]), "ask/events-in-order"),
    peer(
        "events have no type inside",
        stream(lambda frames: [{**one, "type": "message"} for one in frames]),
        "ask/events-in-order",
    ),
    peer("chunks are richer than promised", stream(_richer), "ask/retrieved-chunks"),
    peer(
        "a delta gets lost",
        stream(_one_delta_less),
        "ask/deltas-make-the-answer",
        "ask/several-at-once",
        "ask/citations",
    ),
    peer("citations end too late", stream(_shifted), "ask/citations", "ask/citations-count-characters"),
    peer("offsets count UTF-16", stream(_in_utf16), "ask/citations-count-characters"),
    peer("nothing is cited", stream(_cited), "ask/nothing-known"),
    peer("an answer ignores top_k", asks(ASK, lambda asked: asked.without("top_k")), "ask/top-k", "ask/bad-top-k"),
    peer(
        "any question is answered",
        lenient(ASK),
        "ask/no-query",
        "ask/a-long-query",
        "ask/bad-top-k",
        "ask/no-json",
    ),
]

SESSIONS = [
    peer(
        "metadata is given back",
        edits(ADD, lambda told: {**told, "metadata": {"actor_id": "me"}}),
        "sessions/add",
    ),
    peer(
        "metadata is listed",
        edits(MESSAGES, lambda told: {"items": [{**one, "metadata": {}} for one in told["items"]]}),
        "sessions/list-without-metadata",
    ),
    peer(
        "messages are backwards",
        edits(MESSAGES, lambda told: {"items": told["items"][::-1]}),
        "sessions/list",
        "sessions/list-the-newest",
    ),
    peer(
        "limits are ignored",
        asks(MESSAGES, lambda asked: asked.without("limit")),
        "sessions/list-the-newest",
        "sessions/list-with-a-bad-limit",
    ),
    peer(
        "an empty session is missing",
        edits(MESSAGES, lambda told: told if told["items"] else {"items": None}),
        "sessions/list-an-unknown-session",
        "sessions/bad-role",
    ),
    peer(
        "messages are counted twice",
        edits(f"GET {SESSION}", lambda told: {**told, "message_count": told["message_count"] * 2}),
        "sessions/get",
    ),
    peer("every session is there", turns(f"GET {SESSION}", 404, said(200, {})), "sessions/get-an-unknown-session"),
    peer("all sessions are one", on(f"* {SESSION}/messages", _one_session), "sessions/keep-apart", "sessions/add"),
    peer(
        "any message is added",
        lenient(ADD, 201),
        "sessions/bad-id",
        "sessions/bad-role",
        "sessions/no-content",
        "sessions/a-long-message",
    ),
    peer("messages get lost", on(ADD, _every_third_is_lost), "sessions/messages-at-once"),
    peer("keys of messages are ignored", asks(ADD, _without_key), "sessions/key-once"),
    peer("nothing is extracted", _skipping(True), "sessions/extract"),
    peer("everything is extracted", _skipping(False), "sessions/skip-extract"),
    peer(
        "a session ends without a reflection",
        edits(CLOSE, lambda told: {key: value for key, value in told.items() if key != "reflection"}),
        "sessions/close",
        "sessions/close-again",
    ),
    peer(
        "a session stays ended",
        edits(f"GET {SESSION}", lambda told: {**told, "ended_at": told["ended_at"] or told["updated_at"]}),
        "sessions/add-after-close",
        "sessions/get",
    ),
    peer("a session ends again and again", edits(CLOSE, _moment), "sessions/close-again"),
    peer(
        "reflections are of nothing",
        edits(CLOSE, lambda told: {**told, "reflection": {}, "reflection_status": "completed"}),
        "sessions/close-an-unknown-session",
        "sessions/close",
    ),
    peer(
        "recall gives hits",
        edits(RECALL, lambda told: {"hits": told["chunks"]}),
        "sessions/recall",
        "sessions/recall-in-a-scope",
    ),
    peer("recall is deaf", on(RECALL, _deaf), "sessions/recall-listens"),
    peer("recall ignores its scope", asks(RECALL, lambda asked: asked.without("scope")), "sessions/recall-in-a-scope"),
    peer(
        "recall ignores top_k",
        asks(RECALL, lambda asked: asked.without("top_k")),
        "sessions/recall-top-k",
        "sessions/recall-nothing",
    ),
]

STAGES = [
    peer("documents of callers are merged", on("POST {b}/consolidate", _merging), "stages/consolidate"),
    peer(
        "stages answer with a list",
        edits("POST {b}/(consolidate|compile)", lambda told: [told]),
        "stages/consolidate",
        "stages/consolidate-without-a-body",
        "stages/compile",
    ),
]
PEERS = SEARCHES + ANSWERS + SESSIONS + STAGES
