"""Broken peers: what clients of other makes expect, several writers at once, and texts of every script."""

import unicodedata
from dataclasses import replace
from typing import Any

from tests.broken.peer import peer
from tests.broken.wrapping import Said, answers, asks, edits, lenient, problem, refuses, said

READ, SEARCH = "GET {b}/documents/read", "GET {b}/search"
MESSAGES = "GET {b}/sessions/[^/]+/messages"


def _composed(told: Said) -> Said:
    return replace(told, body=unicodedata.normalize("NFC", told.body.decode()).encode())


def _mixed(told: Said) -> Said:
    """The end of one writer's text, and the beginning of another's."""
    return replace(told, body=told.body.replace(b"1", b"2", 1).replace(b"3", b"2", 1)[:-6] + b" 7 7\n")


def _items(change: Any) -> Any:
    return edits(MESSAGES, lambda told: {**told, "items": change(told["items"])})


def _on_one_line(told: Said) -> Said:
    if not told.headers.get("content-type", "").startswith("application/json") or told.status != 200:
        return told
    answer = told.json()
    return told.with_json({**answer, "answer": answer["answer"].replace("\n", " ")})


PEERS = [
    peer(
        "an empty title is refused",
        refuses("POST {b}/documents", lambda asked: asked.json().get("title") == "", problem(400, "validation_error")),
        "documents/create-with-an-empty-title",
    ),
    peer(
        "answers are streams whatever is accepted",
        asks("POST {b}/ask", lambda asked: replace(asked, headers={**asked.headers, "accept": "*/*"})),
        "ask/as-json",
        "ask/a-quoted-list-keeps-its-lines",
    ),
    peer("answers are one line", answers("POST {b}/ask", _on_one_line), "ask/a-quoted-list-keeps-its-lines"),
    peer(
        "a recall without a session finds nothing",
        edits("POST {b}/recall", lambda told: {**told, "chunks": []}),
        "search/recall-in-the-brain",
    ),
    peer(
        "what two wrote is mixed",
        answers(READ, _mixed),
        "documents/two-writers-at-one-path",
        "documents/create-by-two-at-one-path",
    ),
    peer("letters are composed", answers(READ, _composed), "documents/text-of-every-script"),
    peer(
        "letters of messages are composed",
        _items(lambda items: [{**one, "content": unicodedata.normalize("NFC", one["content"])} for one in items]),
        "sessions/text-of-every-script",
    ),
    peer(
        "only ASCII is searched for",
        refuses(
            SEARCH,
            lambda asked: not asked.query["q"].isascii(),
            Said(200, {"content-type": "application/json"}, b'{"hits": []}'),
        ),
        "search/composed-letters",
        "search/thai-and-emoji",
    ),
    peer(
        "no more than five are found",
        edits(SEARCH, lambda told: {**told, "hits": told["hits"][:5]}),
        "search/top-k-of-a-hundred",
    ),
    peer(
        "limits of messages are forgotten", asks(MESSAGES, lambda asked: asked.without("limit")), "sessions/list-a-page"
    ),
    peer(
        "whatever is wrong with a write is taken",
        lenient("POST {b}/(documents|ask|documents/.*|sessions/.*)", 201),
        "ingest/broken-form",
        "batch/no-object",
        "documents/create-with-metadata-that-is-no-object",
        "documents/create-with-an-endless-number",
        "search/bad-exclude",
        "sessions/bad-metadata",
        "sessions/recall-one-letter",
    ),
    peer(
        "nothing is ever found",
        edits(SEARCH, lambda told: {**told, "hits": []}),
        "ingest/file-as-markdown",
        "ingest/file-by-its-type",
        "search/moved-out-of-the-index",
    ),
    peer(
        "nothing is read as a line",
        answers(READ, lambda told: replace(told, body=told.body or b"\n")),
        "batch/empty-content",
    ),
    peer(
        "sizes are off by one",
        edits("GET {b}/documents/stat", lambda told: {**told, "size": told["size"] - 1}),
        "batch/as-many-as-allowed",
        "batch/as-large-as-allowed",
    ),
    peer(
        "an empty pattern fits nothing",
        refuses("GET {b}/documents", lambda asked: asked.query.get("glob") == "", said(200, {"items": []})),
        "documents/list-with-an-empty-pattern",
    ),
    peer("every path is read", lenient(READ), "documents/read-at-no-text"),
    peer("messages are told backwards", _items(lambda items: items[::-1]), "sessions/times-do-not-go-back"),
]
