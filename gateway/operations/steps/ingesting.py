"""Files and pages, on platforms that recognise a repeat, and on those where equal names overwrite each other."""

import hashlib
from dataclasses import replace

from gateway.operations import names
from gateway.operations.context import StepContext
from gateway.operations.errors import Absent, GatewayError
from gateway.operations.steps import documents
from gateway.operations.steps.certainty import make_certain, make_certain_by_asking
from gateway.operations.table import Args, JsonObject, Op, Upload

_CONVERTED = frozenset({"text/html", "application/xhtml+xml", "application/pdf"})
# Some platforms cut names here. The part that tells one file from another must not be cut off.
_NAME_LENGTH = 60


async def ingest_as_text(context: StepContext, args: Args) -> JsonObject:
    """A file, read here where the platform would store its bytes, under a name that only this file has."""
    upload: Upload = args["upload"]
    known = {"hash": hashlib.sha256(upload.body).hexdigest()}
    name = names.file_name(upload.name.rpartition(".")[0] or upload.name, upload.body, length=_NAME_LENGTH)
    path = f"raw/documents/{name}.md"
    # If two calls bring the same file, the second finds the document of the first.
    async with context.alone(path):
        if (stored := await _find_ingested(context, str(args["brain"]), path)) is not None:
            return {**stored, **known, "reused": True}
        text = await _as_text(context, replace(upload, name=name))

        async def send() -> JsonObject:
            return await context.send(Op.INGEST_TEXT, {**args, "upload": text})

        stored = await make_certain(send, lambda: _find_ingested(context, str(args["brain"]), path))
    return {**stored, **known, "reused": False}


async def _as_text(context: StepContext, upload: Upload) -> Upload:
    if upload.content_type in _CONVERTED:
        return replace(upload, content_type="text/markdown", body=await _text_of(context, upload))
    if b"\0" in upload.body:
        raise GatewayError("validation_error", "The file is neither text nor PDF: there is nothing in it to search.")
    return upload


async def ingest_by_platform(context: StepContext, args: Args) -> JsonObject:
    """By the platform, which knows a file again by its bytes."""
    brain, upload = str(args["brain"]), args["upload"]
    # Where a platform stores the file, if it names files as we do.
    path = f"raw/documents/{names.file_name(upload.name.rpartition('.')[0] or upload.name, upload.body)}.md"

    async def glimpse() -> JsonObject | None:
        found = await _find_ingested(context, brain, path)
        return None if found is None else {**found, "hash": hashlib.sha256(upload.body).hexdigest()}

    return await make_certain_by_asking(lambda: context.send(Op.INGEST_FILE, args), glimpse)


async def ingest_by_server(context: StepContext, args: Args) -> JsonObject:
    """By the platform itself, which fetches the page: some would fetch from their own network, so look first."""
    await context.vet(str(args["url"]))
    result = await make_certain_by_asking(lambda: context.send(Op.INGEST_URL, args))
    if "hash" not in result and result.get("path"):
        result = {**result, **await _hash(context, str(args["brain"]), str(result["path"]))}
    return {"path": "server", "result": result}


async def _hash(context: StepContext, brain: str, path: str) -> JsonObject:
    """Fields of the stored document; none if it cannot be read, because it is stored all the same."""
    try:
        body = await documents.read(context, brain, path)
    except (Absent, GatewayError):
        return {}
    return {} if body is None else {"hash": hashlib.sha256(body).hexdigest()}


async def _find_ingested(context: StepContext, brain: str, path: str) -> JsonObject | None:
    """What is known of an ingested document if it is at its path, else None."""
    try:
        found = (await context.send(Op.STAT_DOCUMENT, {"brain": brain, "path": path})).get("document")
    except GatewayError as error:
        if error.code == "not_found":
            return None
        raise
    document_id = found.get("id") if isinstance(found, dict) else None
    return {"status": "completed", "document_id": document_id or path, "path": path, "reused": False}


async def _text_of(context: StepContext, upload: Upload) -> bytes:
    try:
        return (await context.text_of(upload.content_type, upload.body)).encode()
    except GatewayError as error:
        raise GatewayError("validation_error", f"The file cannot be read as text. {error.message}") from None
