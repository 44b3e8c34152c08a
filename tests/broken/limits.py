"""Broken peers: they have other limits, treat null as a value, leave something out, or let something in."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.broken.peer import peer
from tests.broken.wrapping import Asked, answers, asks, edits, lenient, problem, refuses, said, turns

BRAINS, RECALL = "POST /v1/brains", "POST {b}/sessions/[^/]+/recall"
DOCUMENTS, LIST, SEARCH = "POST {b}/documents", "GET {b}/documents", "GET {b}/search"
MESSAGES = "{b}/sessions/[^/]+/messages"
REFUSED = problem(400, "validation_error")


def _has(name: str, test: Callable[[Any], bool]) -> Callable[[Asked], bool]:
    """Whether the body has this field, and its value passes the test."""
    return lambda asked: name in asked.json() and test(asked.json()[name])


def _has_null(asked: Asked) -> bool:
    body = asked.json()
    return None in body.values() or None in (body.get("metadata") or {}).values()


PEERS = [
    peer(
        "whatever is wrong with a brain is taken",
        turns(BRAINS, 400, said(201, {})),
        "brains/create-at-the-limits",
    ),
    peer(
        "nulls of a brain are refused",
        refuses(BRAINS, _has_null, REFUSED),
        "brains/create-with-nulls",
    ),
    peer(
        "every brain is private",
        edits(BRAINS, lambda told: {**told, "visibility": "private"}),
        "brains/create-with-each-visibility",
    ),
    peer(
        "nulls of a document or message are refused",
        refuses(f"POST ({{b}}/documents|{MESSAGES})", _has_null, REFUSED),
        "documents/create-with-nulls",
        "sessions/add-with-nulls",
    ),
    peer(
        "records are cut",
        edits(DOCUMENTS, lambda told: {**told, "title": told["title"][:500], "source": "ingest"}),
        "documents/create-titles-at-the-limit",
        "documents/create-from-each-source",
    ),
    peer(
        "limits of what is posted are forgotten",
        lenient("POST {b}/(documents|documents/batch-ops|ask|sessions/.*)", 201),
        "ask/one-character",
        "batch/reasons",
        "documents/create-content-types-at-the-limits",
        "documents/create-metadata-keys-at-the-limits",
        "search/prefixes-at-the-limits",
        "sessions/ids-at-the-limit",
        "sessions/names-at-the-limits",
        "sessions/recall-at-the-limits",
    ),
    peer(
        "limits of what is asked are forgotten",
        lenient("GET {b}/(documents|search)"),
        "documents/list-directories-at-the-limits",
        "documents/list-patterns-at-the-limit",
        "search/one-character",
        "search/path-prefixes-at-the-limits",
    ),
    peer("a path may be as long as it likes", lenient("PUT {b}/documents", 204), "documents/put-paths-at-the-limits"),
    peer(
        "most is too much",
        refuses("POST {b}/ask", _has("top_k", lambda value: value == 50), REFUSED),
        "ask/top-k-at-the-limits",
    ),
    peer("one is too few", asks(SEARCH, lambda asked: asked.without("top_k")), "search/top-k-at-the-limits"),
    peer(
        "limits of lists are forgotten",
        asks(f"GET {MESSAGES}", lambda asked: asked.without("limit")),
        "sessions/list-limits",
    ),
    peer(
        "signs of patterns are letters",
        refuses(LIST, lambda asked: bool(set(asked.query.get("glob", "")) & set("?[")), said(200, {"items": []})),
        "documents/list-by-the-signs-of-patterns",
    ),
    peer(
        "neighbours are listed",
        edits(LIST, lambda told: {"items": [*told["items"], *({"path": "neighbour.md"} for _ in told["items"])]}),
        "documents/list-no-neighbours",
    ),
    peer(
        "a move to the same place loses the document",
        answers("GET {b}/documents/read", lambda _told: problem(404, "not_found")),
        "documents/rename-to-itself",
    ),
    peer(
        "a batch moves nothing over another",
        refuses(
            "POST {b}/documents/batch-ops", lambda asked: "rename" in asked.body.decode(), problem(409, "conflict")
        ),
        "batch/rename-replaces",
    ),
    peer(
        "nothing is left out of a recall",
        asks(RECALL, lambda asked: asked.without("exclude", "include")),
        "search/include-and-exclude",
    ),
    peer(
        "tools may not speak",
        refuses(f"POST {MESSAGES}", _has("role", lambda value: value == "tool"), REFUSED),
        "sessions/each-role",
    ),
    peer(
        "the largest file is too large",
        turns("POST {b}/documents/ingest/file", 200, problem(413, "payload_too_large")),
        "ingest/file-as-large-as-allowed",
    ),
    peer(
        "the name of a file is its path",
        edits("POST {b}/documents/ingest/file", lambda told: {**told, "path": "raw/documents/../../climb.md"}),
        "ingest/file-with-a-climbing-name",
    ),
    peer(
        "front matter is text",
        asks("PUT {b}/documents", lambda asked: replace(asked, body=asked.body.replace(b"---", b"==="))),
        "search/expired-and-dead",
    ),
    peer(
        "stages say nothing",
        edits("POST {b}/(consolidate|compile)", lambda _told: {}),
        "stages/consolidate-tells-its-method",
    ),
    peer(
        "every file is text",
        turns("POST {b}/documents/ingest/file", 415, said(200, {})),
        "ingest/file-of-no-text",
    ),
    peer(
        "every file is UTF-8",
        answers("GET {b}/documents/read", lambda told: replace(told, body=told.body.replace("é".encode(), b"?"))),
        "ingest/file-in-another-charset",
    ),
    peer("any URL is fetched", lenient("POST {b}/documents/ingest/url"), "ingest/page-without-a-host"),
]
