"""Broken peers: callers that are not told apart, files that are taken for what they are not, and what is derived."""

import itertools
from dataclasses import replace
from typing import Any

from tests.broken.peer import peer
from tests.broken.wrapping import Asked, Forward, Said, asks, edits, lenient, on, problem, refuses, said

FILE, SEARCH = "POST {b}/documents/ingest/file", "GET {b}/search"
_count = itertools.count(1)


def _for_nobody(asked: Asked) -> Asked:
    return replace(asked, headers={key: value for key, value in asked.headers.items() if key != "x-brains-caller"})


async def _where_it_belongs(asked: Asked, forward: Forward) -> Said:
    """A file replaces what is at its path."""
    told = await forward(asked)
    if told.status == 409:
        taken, documents = told.json()["detail"].partition(": ")[2], asked.path.removesuffix("/ingest/file")
        await forward(replace(asked, method="DELETE", path=documents, query={"path": taken}))
        told = await forward(asked)
    return told


def _worse_each_time(told: Any) -> Any:
    share = 1 / next(_count)
    return {**told, "hits": [{**one, "score": one["score"] * share} for one in told["hits"]]}


def _without_meaning(told: Any) -> Any:
    return {**told, "hits": [one for one in told["hits"] if one["component_scores"]["keyword"]]}


def _of_the_root(told: Any) -> Any:
    return {**told, "items": [one for one in told["items"] if "/" not in one["path"]]}


def _by_path(told: Any) -> Any:
    return {**told, "hits": sorted(told["hits"], key=lambda one: one["path"])}


PEERS = [
    peer(
        "there is said to be a model, and it does nothing",
        edits(
            "GET /v1/models", lambda told: {**told, "language": {"name": "m", "source": "endpoint", "state": "ready"}}
        ),
        "stages/a-model-or-why-not",
    ),
    peer(
        "rules are said to be a model",
        edits("POST {b}/(consolidate|sessions/[^/]+/close)", lambda told: {**told, "method": "model"}),
        "stages/no-model-no-work-of-one",
    ),
    peer(
        "patterns are held against whole paths",
        edits("GET {b}/documents", _of_the_root),
        "documents/list-by-pattern-from-the-root",
    ),
    peer(
        "a consolidation does nothing",
        refuses("POST {b}/consolidate", lambda _asked: True, said(200, {"method": "none", "summaries_written": 0})),
        "stages/consolidate-what-is-the-same",
    ),
    peer("hits come by their paths", edits(SEARCH, _by_path), "search/best-first-in-other-scripts"),
    peer(
        "no highlights are told",
        edits(SEARCH, lambda told: {**told, "hits": [{**one, "highlights": []} for one in told["hits"]]}),
        "search/highlights",
    ),
    peer(
        "bodies that say nothing are not read",
        lenient("POST {b}/(sessions/[^/]+/close|compile|consolidate)"),
        "sessions/close-with-no-json",
        "stages/with-no-json",
    ),
    peer(
        "whoever asks is nobody in particular",
        asks("* /v1/brains.*", _for_nobody),
        "brains/callers-apart",
        "brains/callers-of-an-organization",
    ),
    peer(
        "bytes that are no text are taken",
        lenient(FILE),
        "ingest/file-in-no-charset",
    ),
    peer(
        "files of unknown kinds are refused",
        refuses(FILE, lambda asked: b".zzz" in asked.body, problem(415, "unsupported_media_type")),
        "ingest/file-of-an-unknown-kind",
    ),
    peer(
        "documents are titled by their paths",
        edits("GET {b}/documents/stat", lambda told: {**told, "document": {**told["document"], "title": told["path"]}}),
        "ingest/file-titled-by-itself",
    ),
    peer("a file replaces what is at its path", on(FILE, _where_it_belongs), "ingest/file-spares-a-document"),
    peer("scores count every request", edits(SEARCH, _worse_each_time), "search/scores-within-a-filter"),
    peer("meaning counts for nothing", edits(SEARCH, _without_meaning), "search/by-meaning"),
    peer(
        "hits are told twice",
        edits(SEARCH, lambda told: {**told, "hits": told["hits"] * 2}),
        "sessions/said-once-found-once",
    ),
    peer(
        "a consolidation removes what differs",
        edits("POST {b}/consolidate", lambda told: {**told, "duplicates_removed": 1}),
        "stages/consolidate-keeps-what-differs",
    ),
    peer(
        "summaries are written again and again",
        edits("POST {b}/compile", lambda told: {**told, "summaries_written": 1}),
        "stages/compile-again",
    ),
]
