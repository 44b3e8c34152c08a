"""Broken servers: what holds for all of the eleven tools of a memory, and for those that find."""

import json
from dataclasses import replace
from typing import Any

from contract.rpc import JsonObject, Reply
from tests.broken.calls import (
    Act,
    Asked,
    Forward,
    answers,
    asks,
    describes,
    edits,
    failed,
    having,
    lenient,
    refuses,
    says,
    server,
    without,
)

LIMITS = {
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "maxItems",
    "minItems",
    "enum",
    "default",
    "format",
    "pattern",
}
TOOLS = [
    "search",
    "recall",
    "remember",
    "ingest_file",
    "ingest_url",
    "extract",
    "reflect",
    "consolidate",
    "create_brain",
    "list_brains",
    "ask",
]
OF_A_BRAIN = [tool for tool in TOOLS if tool not in ("create_brain", "list_brains")]


def every(name: str, tools: list[str]) -> list[str]:
    return [f"memory/{tool}/{name}" for tool in tools]


def in_other_words(tool: JsonObject) -> JsonObject:
    return {**tool, "description": f"Use this to {tool['description'].lower()}"}


def without_limits(value: Any) -> Any:
    if isinstance(value, list):
        return [without_limits(item) for item in value]
    if isinstance(value, dict):
        return {key: without_limits(item) for key, item in value.items() if key not in LIMITS}
    return value


def dumped(reply: Reply) -> Reply:
    content = [{"type": "text", "text": json.dumps(reply.structured)}]
    return reply if reply.is_error else replace(reply, result={**(reply.result or {}), "content": content})


def chatty(reply: Reply) -> Reply:
    return replace(reply, progress=(*reply.progress, {"progressToken": reply.token, "progress": 0, "message": "busy"}))


def one_brain_for_all() -> Act:
    """Every call is served on the brain that was named first."""
    first: list[Any] = []

    async def act(asked: Asked, forward: Forward) -> Reply:
        # The harness looks first whether a brain that is not there is refused.
        if "brain" not in asked.arguments or asked.arguments["brain"].endswith("-nobody"):
            return await forward(asked)
        first.append(asked.arguments["brain"])
        return await forward(asked.with_arguments({**asked.arguments, "brain": first[0]}))

    return act


def each(key: str, change: Any) -> Any:
    """For `edits`: every object of a list changed."""
    return lambda value: {**value, key: [change(item) for item in value.get(key, [])]}


def whole_notes(reply: Reply) -> Reply:
    hits = (reply.structured or {}).get("hits", [])
    told = "\n\n".join(f"#{n} score={hit['score']} {hit['path']}\n{hit['content']}" for n, hit in enumerate(hits, 1))
    return replace(reply, result={**(reply.result or {}), "content": [{"type": "text", "text": told}]})


def nothing_is_an_error(reply: Reply) -> Reply:
    return failed("not_found: nothing was found") if (reply.structured or {}).get("hits") == [] else reply


def bare_error(reply: Reply) -> Reply:
    return failed(reply.text.partition("\n")[0]) if reply.is_error else reply


def instead(name: str, value: Any) -> Any:
    """For `asks`: the call with another argument."""
    return lambda asked: asked.with_arguments({**asked.arguments, name: value})


def by_default(name: str, value: Any) -> Any:
    return lambda asked: asked.with_arguments({name: value, **asked.arguments})


def as_hits(value: Any) -> Any:
    return {"query": "", "hits": value["chunks"]} if "chunks" in value else value


ALL = [
    server("the descriptions are in other words", describes("*", in_other_words), *every("definition", TOOLS)),
    server(
        "the schemas have no limits",
        describes("*", without_limits),
        *every(
            "definition",
            ["search", "recall", "remember", "ingest_file", "extract", "reflect", "create_brain", "ask"],
        ),
    ),
    server(
        "the text is the structured content",
        answers("*", dumped),
        *every("text-is-a-summary", [tool for tool in TOOLS if tool != "ask"]),
        "memory/ask/text-is-the-answer",
        "memory/search/text-lists-the-hits",
        "memory/search/text-lists-five",
    ),
    server(
        "every tool tells progress, asked or not",
        answers("*", chatty),
        *every("no-progress", [tool for tool in TOOLS if tool != "ask"]),
        "memory/ask/no-progress-without-a-token",
    ),
    server(
        "a brain that is missing is not found",
        says("*", lambda text: text.replace("no_brain", "not_found")),
        *every("unknown-brain", OF_A_BRAIN),
        "memory/search/error-is-told",
    ),
    server("all brains are one", one_brain_for_all(), "memory/search/another-brain"),
]
SEARCH = [
    server(
        "hits have no content",
        edits("memory_search", each("hits", without("content"))),
        "memory/search/returns-the-hits",
    ),
    server(
        "hits say documentId",
        edits("memory_search", each("hits", having({"documentId": "d"}))),
        "memory/search/keys-are-snake-case",
    ),
    server(
        "the text counts from zero",
        says("memory_search", lambda text: text.replace("#1 ", "#0 ")),
        "memory/search/text-lists-the-hits",
    ),
    server(
        "the text has the whole of every hit",
        answers("memory_search", whole_notes),
        "memory/search/text-shows-the-beginning",
        "memory/search/text-lists-five",
    ),
    server(
        "a search without hits is an error",
        answers("memory_search", nothing_is_an_error),
        "memory/search/nothing-found",
    ),
    server(
        "the scope is ignored",
        asks("memory_search", lambda asked: asked.without("scope")),
        "memory/search/scope-global",
        "memory/search/scope-project",
        "memory/search/scope-agent",
    ),
    server("the scope is always global", asks("memory_search", instead("scope", "global")), "memory/search/scope-all"),
    server(
        "the order is ignored", asks("memory_search", lambda asked: asked.without("sort")), "memory/search/sort-recency"
    ),
    server(
        "the order is always recency",
        asks("memory_search", instead("sort", "recency")),
        "memory/search/sort-relevance",
        "memory/search/sort-relevance-then-recency",
    ),
    server(
        "top_k is ignored", asks("memory_search", lambda asked: asked.without("top_k")), "memory/search/top-k-limits"
    ),
    server("top_k is five by default", asks("memory_search", by_default("top_k", 5)), "memory/search/top-k-is-ten"),
    server(
        "limits are one less",
        refuses("memory_search", lambda said: said.get("top_k") == 100 or len(said.get("query", "")) == 4096),
        "memory/search/top-k-edges",
        "memory/search/query-edges",
    ),
    server(
        "a search takes everything",
        lenient("memory_search", {"hits": []}),
        "memory/search/scope-unknown",
        "memory/search/sort-unknown",
        "memory/search/top-k-edges",
        "memory/search/top-k-is-an-integer",
        "memory/search/query-edges",
        "memory/search/query-is-needed",
        "memory/search/unknown-argument",
    ),
    server(
        "a brain must be named",
        refuses("memory_search", lambda said: "brain" not in said, "no_brain: name one"),
        "memory/search/without-a-brain",
    ),
    server("errors are a line of text", answers("*", bare_error), "memory/search/error-is-told"),
    server(
        "brains have ids alone",
        refuses("memory_search", lambda said: not str(said.get("brain")).startswith("brn_"), "no_brain: no"),
        "memory/search/brain-by-slug",
    ),
]
RECALL = [
    server(
        "what is recalled has no score",
        edits("memory_recall", each("hits", without("score"))),
        "memory/recall/without-a-session",
    ),
    server("what is recalled is always hits", edits("memory_recall", as_hits), "memory/recall/in-a-session"),
    server(
        "a recall listens to another session",
        asks(
            "memory_recall",
            lambda asked: instead("session_id", "x")(asked) if "session_id" in asked.arguments else asked,
        ),
        "memory/recall/listens-to-the-session",
    ),
    server(
        "a session must have been begun",
        refuses("memory_recall", lambda said: "session_id" in said, "not_found: no such session"),
        "memory/recall/unknown-session",
    ),
    server(
        "a recall has no scope",
        asks("memory_recall", lambda asked: asked.without("scope")),
        "memory/recall/scope-limits",
        "memory/recall/scope-all-is-none",
    ),
    server(
        "a recall has no top_k",
        asks("memory_recall", lambda asked: asked.without("top_k")),
        "memory/recall/top-k-limits",
        "memory/recall/top-k-edges",
    ),
    server(
        "a recall takes everything",
        lenient("memory_recall", {"hits": []}),
        "memory/recall/scope-all-is-none",
        "memory/recall/top-k-edges",
        "memory/recall/query-edges",
        "memory/recall/query-is-needed",
    ),
]
SERVERS = ALL + SEARCH + RECALL
