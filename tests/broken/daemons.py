"""Broken daemons: what the cases of that dialect notice. They are in front of the fake of the published daemon."""

from typing import Any

from tests.broken.peer import peer
from tests.broken.wrapping import answers, asks, edits, lenient, refuses, said, turns

SEARCH = "POST {b}/search"
NO_BRAIN = b"brain not found"


def _chunks(change: Any) -> Any:
    return edits(SEARCH, lambda told: {**told, "chunks": change(told["chunks"])})


PEERS = [
    peer(
        "a daemon as published",
        asks("* .*", lambda asked: asked),
        "brains/daemon-create-with-a-climbing-id",
        "stages/daemon-remember-a-climbing-slug",
    ),
    peer("new brains are not listed", edits("GET /v1/brains", lambda told: {"items": []}), "brains/daemon-list"),
    peer("brains have no id", edits("GET {b}", lambda told: {}), "brains/daemon-create"),
    peer("a brain is made twice", turns("POST /v1/brains", 409, said(201, {})), "brains/daemon-create-again"),
    peer(
        "a brain needs no id",
        turns("POST /v1/brains", 400, said(201, {"brainId": ""})),
        "brains/daemon-create-without-an-id",
    ),
    peer("brains stay", turns("GET {b}", 404, said(200, {"brainId": "x"})), "brains/daemon-delete"),
    peer(
        "ingest answers in other words",
        edits("POST {b}/ingest/file", lambda told: {"DocumentID": told["documentId"], "Path": told["path"]}),
        "ingest/daemon-file",
    ),
    peer("any ingest is taken", lenient("POST {b}/ingest/.*"), "ingest/daemon-nothing", "ingest/daemon-no-page"),
    peer(
        "nothing is too large",
        turns("* .*", 413, said(200, {})),
        "ingest/daemon-file-too-large",
        "search/daemon-too-large",
    ),
    peer("nothing is found", _chunks(lambda chunks: []), "search/daemon-find", "search/daemon-top-k"),
    peer("no chunks are null", _chunks(lambda chunks: chunks or None), "search/daemon-nothing"),
    peer("topK is ignored", asks(SEARCH, lambda asked: asked.without("topK")), "search/daemon-top-k"),
    peer("scopes are ignored", asks(SEARCH, lambda asked: asked.without("filters")), "search/daemon-scope"),
    peer(
        "nothing is forgotten",
        _chunks(lambda chunks: [*chunks, {"path": "memory/global/a.md"}]),
        "search/daemon-after-a-delete",
    ),
    peer("any search is made", lenient(SEARCH), "search/daemon-no-query"),
    peer(
        "a missing brain is an empty one",
        answers("* .*", lambda told: said(200, {}) if NO_BRAIN in told.body else told),
        "search/daemon-missing-brain",
    ),
    peer(
        "an answer is JSON",
        refuses("POST {b}/ask", lambda asked: b"heron" in asked.body, said(200, {"answer": "x"})),
        "ask/daemon-events",
    ),
    peer("any question is answered", lenient("POST {b}/ask"), "ask/daemon-no-question"),
    peer(
        "notes are said to be elsewhere",
        edits("POST {b}/remember", lambda told: {**told, "path": "elsewhere.md"}),
        "stages/daemon-remember",
    ),
    peer("any note is taken", lenient("POST {b}/remember", 201), "stages/daemon-remember-nothing"),
    peer(
        "any conversation is taken",
        lenient("POST {b}/(extract|reflect)"),
        "stages/daemon-extract-nothing",
        "stages/daemon-reflect-on-nothing",
    ),
    peer(
        "stages answer with nothing",
        edits("POST {b}/(extract|reflect|recall|consolidate)", lambda told: None),
        "stages/daemon-extract",
        "stages/daemon-reflect",
        "stages/daemon-recall",
        "stages/daemon-consolidate",
    ),
]
