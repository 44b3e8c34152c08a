"""Broken servers: the two tools that ChatGPT knows."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from contract.rpc import JsonObject, Reply
from tests.broken.calls import Act, answers, describes, edits, lenient, needs_all, refuses, server, succeeded, without

SEARCH, FETCH = "search", "fetch"
EMPTY = {"id": "any", "title": "any", "text": "", "url": "brains://main/any"}


def rewrites(tool: str, change: Callable[[Any], Any]) -> Act:
    """The JSON of a success is changed, in the text and as data."""

    def rewritten(reply: Reply) -> Reply:
        if reply.is_error or reply.result is None:
            return reply
        said = change(json.loads(reply.text))
        return replace(reply, result={**succeeded(said, json.dumps(said)).result})  # type: ignore[dict-item]

    return answers(tool, rewritten)


def tells_people(reply: Reply) -> Reply:
    """A summary for people, and the JSON as a second text."""
    if reply.is_error or reply.result is None:
        return reply
    summary = {"type": "text", "text": "Here is what there is."}
    return replace(reply, result={**reply.result, "content": [summary, *reply.result["content"]]})


def each_result(change: Callable[[JsonObject], JsonObject]) -> Callable[[Any], Any]:
    return lambda said: {**said, "results": [change(one) for one in said["results"]]}


def says_nothing_of_itself(tool: JsonObject) -> JsonObject:
    return {**tool, "annotations": {}}


def more_needed(tool: JsonObject) -> JsonObject:
    schema = tool["inputSchema"]
    return needs_all({**tool, "inputSchema": {**schema, "properties": {**schema["properties"], "limit": {}}}})


SERVERS = [
    server("search needs a limit", describes(SEARCH, more_needed), "chat/search/definition"),
    server("fetch needs a limit", describes(FETCH, more_needed), "chat/fetch/definition"),
    server("results have no url", rewrites(SEARCH, each_result(without("url"))), "chat/search/id-title-and-url"),
    server("results have no title", rewrites(SEARCH, each_result(without("title"))), "chat/search/id-title-and-url"),
    server("search tells people", answers(SEARCH, tells_people), "chat/search/one-text"),
    server("fetch tells people", answers(FETCH, tells_people), "chat/fetch/one-text"),
    server("search structures something else", edits(SEARCH, lambda _: {"results": []}), "chat/search/structured"),
    server(
        "search fails where there is nothing",
        refuses(SEARCH, lambda asked: asked.get("query") != "the"),
        "chat/search/nothing",
    ),
    server(
        "search takes nothing for a query",
        lenient(SEARCH, {"results": []}, '{"results":[]}'),
        "chat/search/without-a-query",
    ),
    server("tools do not say that they read", describes("*", says_nothing_of_itself), "chat/search/read-only"),
    server("documents have no text", rewrites(FETCH, without("text")), "chat/fetch/the-document"),
    server(
        "documents are at another place",
        rewrites(FETCH, lambda said: {**said, "url": f"{said['url']}#top"}),
        "chat/fetch/same-url",
    ),
    server(
        "fetch takes any id",
        lenient(FETCH, EMPTY, json.dumps(EMPTY)),
        "chat/fetch/unknown-id",
        "chat/fetch/without-an-id",
        "chat/fetch/climbing-id",
    ),
]
