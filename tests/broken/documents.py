"""Broken peers: documents, batches and ingest."""

from dataclasses import replace
from itertools import count
from typing import Any

from tests.broken.peer import peer
from tests.broken.wrapping import Asked, Forward, Said, answers, asks, edits, lenient, on, problem, refuses, said, turns

ANY = "* .*"
PUT, CREATE, LIST = "PUT {b}/documents", "POST {b}/documents", "GET {b}/documents"
READ, STAT, HEAD = "GET {b}/documents/read", "GET {b}/documents/stat", "HEAD {b}/documents"
APPEND, RENAME, DELETE = "POST {b}/documents/append", "POST {b}/documents/rename", "DELETE {b}/documents"
BATCH, FILE, URL = "POST {b}/documents/batch-ops", "POST {b}/documents/ingest/file", "POST {b}/documents/ingest/url"
TAKEN = said(204)
MISSING = problem(404, "not_found", "document not found")
TURNS = count()


async def _first_wins(asked: Asked, forward: Forward) -> Said:
    there = await forward(replace(asked, method="HEAD", body=b""))
    return TAKEN if there.status == 200 else await forward(asked)


async def _same_key(asked: Asked, forward: Forward) -> Said:
    if "idempotency-key" in asked.headers and asked.body == b"two":
        return TAKEN
    return await forward(asked)


async def _every_second(asked: Asked, forward: Forward) -> Said:
    if next(TURNS) % 2:
        return await forward(asked)
    return said(200, {"committed": 1}) if "batch" in asked.path else TAKEN


async def _append_replaces(asked: Asked, forward: Forward) -> Said:
    return await forward(replace(asked, method="PUT", path=asked.path.removesuffix("/append")))


async def _append_needs_a_document(asked: Asked, forward: Forward) -> Said:
    there = await forward(replace(asked, method="HEAD", path=asked.path.removesuffix("/append"), body=b""))
    return await forward(asked) if there.status == 200 else MISSING


async def _copy(asked: Asked, forward: Forward) -> Said:
    names, base = asked.json(), asked.path.removesuffix("/rename")
    found = await forward(replace(asked, method="GET", path=f"{base}/read", query={"path": names["from"]}, body=b""))
    told = await forward(asked)
    if found.status == 200:
        headers = {k: v for k, v in asked.headers.items() if k != "content-type"}
        again = {"method": "PUT", "path": base, "query": {"path": names["from"]}, "headers": headers}
        await forward(replace(asked, body=found.body, **again))  # type: ignore[arg-type]
    return told


async def _nothing_in_the_way(asked: Asked, forward: Forward) -> Said:
    base, to = asked.path.removesuffix("/rename"), asked.json().get("to", "")
    there = await forward(replace(asked, method="HEAD", path=base, query={"path": to}, body=b""))
    return problem(409, "conflict") if there.status == 200 else await forward(asked)


async def _create_replaces(asked: Asked, forward: Forward) -> Said:
    told = await forward(asked)
    if told.status != 409:
        return told
    body = asked.json()
    headers = {k: v for k, v in asked.headers.items() if k != "content-type"}
    written = replace(asked, method="PUT", query={"path": body["path"]}, headers=headers)
    await forward(replace(written, body=body["content"].encode()))
    return said(201, {"path": body["path"]})


async def _one_by_one(asked: Asked, forward: Forward) -> Said:
    operations = asked.json().get("ops") or []
    for one in operations:
        told = await forward(asked.with_json({"ops": [one]}))
        if told.status != 200:
            return told
    return said(200, {"committed": len(operations)})


def _not(key: str) -> Any:
    return lambda told: {name: value for name, value in told.items() if name != key}


def _large(limit: int) -> Any:
    return lambda asked: len(asked.body) > limit


def _without_cache_control(told: Said) -> Said:
    return replace(told, headers={k: v for k, v in told.headers.items() if k != "cache-control"})


def _with_metadata(told: Any) -> Any:
    return {**told, "document": {**told.get("document", {}), "metadata": {"kept": True}}}


DOCUMENTS = [
    peer("writes are forgotten", refuses(PUT, lambda asked: True, TAKEN), "documents/put-then-read", "documents/stat"),
    peer(
        "ends of texts are trimmed",
        asks(PUT, lambda asked: replace(asked, body=asked.body.rstrip(b"\n"))),
        "documents/put-then-read",
    ),
    peer(
        "everything is text",
        asks(PUT, lambda asked: replace(asked, body=asked.body.decode("utf-8", "replace").encode())),
        "documents/put-bytes",
    ),
    peer(
        "empty documents are refused",
        refuses(PUT, lambda asked: not asked.body, problem(400, "validation_error")),
        "documents/put-nothing",
    ),
    peer(
        "the first write stays",
        on(PUT, _first_wins),
        "documents/put-replaces",
        "documents/puts-in-a-row",
        "documents/idempotency-key-is-ignored",
        "search/after-a-change",
    ),
    peer("a key is a repetition", on(PUT, _same_key), "documents/idempotency-key-is-ignored"),
    peer(
        "paths are ASCII",
        refuses(PUT, lambda asked: not asked.query.get("path", "").isascii(), problem(400, "validation_error")),
        "documents/put-a-path-of-other-scripts",
    ),
    peer(
        "a path may be anything",
        lenient(PUT, 204),
        "documents/put-without-a-path",
        "documents/put-a-climbing-path",
        "documents/put-an-empty-segment",
        "documents/put-a-control-character",
        "documents/put-a-long-path",
    ),
    peer(
        "a slash before a path is refused",
        refuses(PUT, lambda asked: asked.query.get("path", "").startswith("/"), problem(400, "validation_error")),
        "documents/put-a-leading-slash",
    ),
    peer(
        "half a megabyte is enough",
        refuses(ANY, _large(500_000), problem(413, "payload_too_large")),
        "documents/put-at-the-limit",
        "documents/create-five-million-characters",
        "batch/five-mebibytes",
        "ingest/file-of-three-mebibytes",
        "sessions/a-long-message",
    ),
    peer(
        "nothing is too large",
        turns(ANY, 413, said(200, {})),
        "documents/put-too-large",
        "documents/append-too-large",
        "documents/create-too-large",
        "batch/too-many",
        "batch/too-large",
        "ingest/file-too-large",
    ),
    peer(
        "any type of body is taken",
        turns(ANY, 415, TAKEN),
        "documents/put-with-another-type",
        "documents/create-with-another-type",
        "ingest/no-form",
        "service/compressed-body",
    ),
    peer("metadata outlives a write", edits(STAT, _with_metadata), "documents/put-forgets-metadata"),
    peer(
        "half of a document is read",
        answers(
            READ, lambda told: replace(told, body=told.body[: len(told.body) // 2]) if told.status == 200 else told
        ),
        "documents/puts-at-once",
        "documents/append",
        "documents/rename",
        "batch/apply",
    ),
    peer(
        "missing documents are empty",
        turns(READ, 404, said(200)),
        "documents/read-a-missing-document",
        "documents/delete",
        "brains/keep-apart",
    ),
    peer("a read needs no path", lenient(READ), "documents/read-without-a-path"),
    peer(
        "caches may keep everything",
        answers(ANY, _without_cache_control),
        "documents/read-is-not-cached",
        "ask/is-not-cached",
    ),
    peer("sizes are texts", edits(STAT, lambda told: {**told, "size": str(told["size"])}), "documents/stat"),
    peer(
        "sizes are a byte short",
        edits(STAT, lambda told: {**told, "size": told["size"] - 1}),
        "documents/stat-counts-bytes",
        "documents/put-replaces",
    ),
    peer("nothing is a directory", edits(STAT, lambda told: {**told, "is_dir": False}), "documents/stat-a-directory"),
    peer("a stat has no record", edits(STAT, _not("document")), "documents/stat-gives-the-record"),
    peer("the stat of nothing is empty", turns(STAT, 404, said(200, {})), "documents/stat-a-missing-document"),
    peer("HEAD is always there", turns(HEAD, 404, said(200)), "documents/head-a-missing-document"),
    peer("HEAD is never there", turns(HEAD, 200, said(404)), "documents/head"),
    peer("an addition replaces", on(APPEND, _append_replaces), "documents/append"),
    peer(
        "an addition needs a document",
        on(APPEND, _append_needs_a_document),
        "documents/append-begins-a-document",
        "documents/appends-at-once",
    ),
    peer("additions get lost", on(APPEND, _every_second), "documents/appends-at-once"),
    peer("an addition needs no path", lenient(APPEND, 204), "documents/append-without-a-path"),
    peer("a move is a copy", on(RENAME, _copy), "documents/rename"),
    peer("a move needs room", on(RENAME, _nothing_in_the_way), "documents/rename-replaces"),
    peer("nothing can be moved", turns(RENAME, 404, TAKEN), "documents/rename-a-missing-document"),
    peer(
        "any move is made",
        lenient(RENAME, 204),
        "documents/rename-without-paths",
        "documents/rename-to-a-climbing-path",
    ),
    peer(
        "nothing is deleted",
        refuses(DELETE, lambda asked: True, TAKEN),
        "documents/delete",
        "search/after-a-delete",
        "documents/delete-a-missing-document",
    ),
    peer(
        "every list goes deep",
        asks(LIST, lambda asked: replace(asked, query={**asked.query, "recursive": "true"})),
        "documents/list",
    ),
    peer(
        "no list goes deep",
        asks(LIST, lambda asked: asked.without("recursive")),
        "documents/list-recursively",
        "documents/list-recursively-on-any-dialect",
        "documents/list-with-a-bad-flag",
    ),
    peer(
        "generated files are listed",
        asks(LIST, lambda asked: replace(asked, query={**asked.query, "include_generated": "true"})),
        "documents/list-leaves-out-what-is-generated",
    ),
    peer("patterns are ignored", asks(LIST, lambda asked: asked.without("glob")), "documents/list-by-pattern"),
    peer(
        "lists are backwards",
        edits(LIST, lambda told: {"items": told["items"][::-1]}),
        "documents/list-by-path",
        "documents/list-recursively",
    ),
    peer(
        "the root cannot be listed",
        refuses(LIST, lambda asked: "dir" not in asked.query, problem(400, "validation_error")),
        "documents/list-the-root",
    ),
    peer(
        "an empty directory is missing",
        answers(LIST, lambda told: MISSING if told.body == b'{"items":[]}' else told),
        "documents/list-nothing",
    ),
    peer(
        "any list is made",
        lenient(LIST),
        "documents/list-a-climbing-directory",
        "documents/list-with-a-bad-flag",
    ),
    peer("records have no commit", edits(CREATE, _not("commit_sha")), "documents/create"),
    peer(
        "titles are not derived",
        edits(CREATE, lambda told: {**told, "title": "Untitled"}),
        "documents/create-derives-a-title",
        "documents/create",
    ),
    peer(
        "paths are not derived",
        edits(CREATE, lambda told: {**told, "path": "note.md"}),
        "documents/create-derives-a-path",
    ),
    peer(
        "creating replaces",
        on(CREATE, _create_replaces),
        "documents/create-again",
        "documents/creates-at-once",
    ),
    peer(
        "any document is created",
        lenient(CREATE, 201),
        "documents/create-without-content",
        "documents/create-with-a-long-title",
        "documents/create-at-a-climbing-path",
        "documents/create-with-nested-metadata",
        "documents/create-with-a-bad-source",
    ),
    peer(
        "transcripts are documents like others",
        asks(CREATE, lambda asked: asked.without("source")),
        "stages/transcript",
        "documents/create-with-a-bad-source",
    ),
]

BATCHES = [
    peer("a batch is done one by one", on(BATCH, _one_by_one), "batch/all-or-none"),
    peer(
        "a batch is not done",
        refuses(BATCH, lambda asked: True, said(200, {"committed": 1})),
        "batch/apply",
        "batch/delete",
        "batch/nothing",
        "batch/five-mebibytes",
        "search/after-a-batch",
    ),
    peer("additions of batches get lost", on(BATCH, _every_second), "batch/appends-at-once"),
    peer(
        "any batch is taken",
        lenient(BATCH),
        "batch/without-operations",
        "batch/unknown-operation",
        "batch/bad-base64",
        "batch/climbing-path",
    ),
]

INGEST = [
    peer("an ingest has no hash", edits(f"{FILE}|.*/url", _not("hash")), "ingest/file", "ingest/page"),
    peer(
        "nothing is reused",
        edits(FILE, lambda told: {**told, "reused": False}),
        "ingest/file-again",
    ),
    peer(
        "files are named as they were",
        edits(FILE, lambda told: {**told, "path": "ingested/file.md"}),
        "ingest/file-is-named-by-its-bytes",
        "ingest/file",
        "ingest/file-of-json",
        "ingest/file-is-found",
    ),
    peer(
        "the bytes of files are kept",
        answers(READ, lambda told: replace(told, body=b"%PDF-1.4 ...")),
        "ingest/file-of-pdf",
        "ingest/file-of-json",
    ),
    peer("any form is taken", lenient(FILE), "ingest/no-file", "ingest/file-as-nothing-known"),
    peer("any page is fetched", lenient(URL), "ingest/page-without-a-url", "ingest/page-at-no-url"),
    peer(
        "every address is fetched",
        turns(URL, 422, said(200, {})),
        "ingest/page-of-the-file-system",
        "ingest/page-of-the-platform-itself",
    ),
]
PEERS = DOCUMENTS + BATCHES + INGEST
