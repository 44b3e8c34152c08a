"""Documents over HTTP: creating records, and the file-like operations of the store protocol."""

import base64
import binascii
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from contract.platform import markdown, names
from contract.platform.api import body
from contract.platform.api.body import MIB
from contract.platform.api.call import NO_STORE, in_thread, lent_key, platform_of
from contract.platform.api.fields import Fields
from contract.platform.brains import Brain
from contract.platform.documents import Draft
from contract.platform.library import Operation
from contract.platform.llm.backlog import ForModel
from contract.platform.refusal import Refused, invalid

CREATE_LIMIT: Final = 32 * MIB
WRITE_LIMIT: Final = 2 * MIB
BATCH_LIMIT: Final = 8 * MIB
BATCH_OPERATIONS: Final = 1024
# Base64 adds a third; the rest is room for paths.
BATCH_JSON_LIMIT: Final = 16 * MIB
GLOB_LIMIT: Final = 256
SOURCES: Final = ("ingest", "extract", "compile", "reflect")


async def create_document(request: Request, brain: Brain) -> Response:
    draft = _draft(await body.fields(request, CREATE_LIMIT))
    platform = platform_of(request)
    writes = platform.writes_of(len(draft.content))
    key = lent_key(request) if draft.source == "extract" else None
    for_model = None if platform.work is None else ForModel()
    record = await in_thread(writes, platform.store.documents.create, brain, draft, for_model)
    if platform.work is not None and for_model is not None:
        platform.work.begin(for_model, key)
    return JSONResponse(record, status_code=201)


def _draft(fields: Fields) -> Draft:
    content = fields.text("content", 1, CREATE_LIMIT)
    metadata = fields.metadata()
    title = fields.optional_text("title", 0, names.TITLE_LIMIT) or markdown.title_of(content, otherwise="Untitled")
    if fields.get("path") is None:
        digest = names.digest(content, title, metadata)[:12]
        path = f"memory/global/{names.slug(title, 'note')}-{digest}.md"
    else:
        path = fields.path("path")
    return Draft(
        path,
        content.encode(),
        title=title,
        source=fields.choice("source", SOURCES, "ingest"),
        content_type=fields.optional_text("content_type", 1, 255) or "text/markdown",
        metadata=metadata,
    )


async def put_document(request: Request, brain: Brain) -> Response:
    path = Fields.of_query(request).path("path")
    body.require_bytes_type(request)
    content = await body.raw(request, WRITE_LIMIT)
    platform = platform_of(request)
    await in_thread(platform.writes_of(len(content)), platform.store.documents.put, brain, path, content)
    return Response(status_code=204)


async def append_document(request: Request, brain: Brain) -> Response:
    path = Fields.of_query(request).path("path")
    body.require_bytes_type(request)
    addition = await body.raw(request, WRITE_LIMIT)
    platform = platform_of(request)
    await in_thread(platform.writes, platform.store.documents.append, brain, path, addition)
    return Response(status_code=204)


async def read_document(request: Request, brain: Brain) -> Response:
    path = Fields.of_query(request).path("path")
    platform = platform_of(request)
    content = await in_thread(platform.lookups, platform.store.documents.read, brain, path)
    return Response(content, media_type="application/octet-stream", headers=NO_STORE)


async def stat_document(request: Request, brain: Brain) -> Response:
    path = Fields.of_query(request).path("path")
    platform = platform_of(request)
    return JSONResponse(await in_thread(platform.lookups, platform.store.documents.stat, brain, path), headers=NO_STORE)


async def head_document(request: Request, brain: Brain) -> Response:
    path = Fields.of_query(request).path("path")
    platform = platform_of(request)
    exists = await in_thread(platform.lookups, platform.store.documents.exists, brain, path)
    return Response(status_code=200 if exists else 404, headers=NO_STORE)


async def list_documents(request: Request, brain: Brain) -> Response:
    fields = Fields.of_query(request)
    directory = names.directory(fields.optional_text("dir", 0, names.PATH_LIMIT + 2) or "")
    recursive, include_generated = fields.flag("recursive"), fields.flag("include_generated")
    glob = fields.optional_text("glob", 0, GLOB_LIMIT) or ""
    platform = platform_of(request)

    def listing() -> Response:
        # Written out in the thread too: a brain may hold a hundred thousand documents.
        items = platform.store.documents.entries(
            brain, directory, recursive=recursive, include_generated=include_generated, glob=glob
        )
        return JSONResponse({"items": items}, headers=NO_STORE)

    return await in_thread(platform.searches, listing)


async def delete_document(request: Request, brain: Brain) -> Response:
    path = Fields.of_query(request).path("path")
    platform = platform_of(request)
    await in_thread(platform.writes, platform.store.documents.delete, brain, path)
    return Response(status_code=204)


async def rename_document(request: Request, brain: Brain) -> Response:
    fields = await body.fields(request)
    path, to = fields.path("from"), fields.path("to")
    platform = platform_of(request)
    await in_thread(platform.writes, platform.store.documents.rename, brain, path, to)
    return Response(status_code=204)


async def batch_documents(request: Request, brain: Brain) -> Response:
    fields = await body.fields(request, BATCH_JSON_LIMIT)
    operations, reason = _operations(fields), fields.optional_text("reason", 0, BATCH_JSON_LIMIT)
    platform = platform_of(request)
    writes = platform.writes_of(sum(len(operation.content) for operation in operations))
    committed = await in_thread(writes, platform.store.documents.batch, brain, operations, reason)
    return JSONResponse({"committed": committed})


def _operations(fields: Fields) -> list[Operation]:
    listed = fields.get("ops")
    if not isinstance(listed, list):
        raise invalid("ops must be a list")
    if len(listed) > BATCH_OPERATIONS:
        raise Refused("payload_too_large", f"a batch may hold at most {BATCH_OPERATIONS} operations")
    operations: list[Operation] = []
    decoded = 0
    for number, item in enumerate(listed):
        if not isinstance(item, dict):
            raise invalid(f"ops[{number}] must be an object")
        operations.append(_operation(number, Fields(item)))
        decoded += len(operations[-1].content)
        if decoded > BATCH_LIMIT:
            raise Refused("payload_too_large", f"a batch may hold at most {BATCH_LIMIT} decoded bytes")
    return operations


def _operation(number: int, fields: Fields) -> Operation:
    path = fields.path("path")
    match fields.get("type"):
        case "write":
            return Operation("write", path, content=_decoded(number, fields))
        case "append":
            return Operation("append", path, content=_decoded(number, fields))
        case "delete":
            return Operation("delete", path)
        case "rename":
            return Operation("rename", path, to=fields.path("to"))
    raise invalid(f"ops[{number}].type must be write, append, delete or rename")


def _decoded(number: int, fields: Fields) -> bytes:
    encoded = fields.text("content_base64", 0, BATCH_JSON_LIMIT)
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid(f"ops[{number}].content_base64 is not base64") from error
