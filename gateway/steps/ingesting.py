"""Files and pages on platforms that take what they are given: no PDF is read there, and equal names overwrite."""

import hashlib
from dataclasses import replace

from gateway import names
from gateway.errors import Absent, GatewayError
from gateway.operations import Args, JsonObject, Op
from gateway.page import Page, readable
from gateway.steps import documents
from gateway.steps.certainty import certain
from gateway.work import Work

_CONVERTED = frozenset({"text/html", "application/xhtml+xml", "application/pdf"})


async def ingest_as_text(work: Work, args: Args) -> JsonObject:
    """A file, read here where the platform would store its bytes, under a name that only this file has."""
    upload = args["upload"]
    sha256 = hashlib.sha256(upload.body).hexdigest()
    name = names.file_name(upload.name.rpartition(".")[0] or upload.name, upload.body)
    path = f"raw/documents/{name}.md"
    if await _is_stored(work, str(args["brain"]), path):
        return {"status": "completed", "document_id": path, "path": path, "hash": sha256, "reused": True}
    text = replace(upload, name=name)
    if b"\0" in upload.body and upload.content_type not in _CONVERTED:
        raise GatewayError("validation_error", "The file is neither text nor PDF: there is nothing in it to search.")
    if upload.content_type in _CONVERTED:
        text = replace(text, content_type="text/markdown", body=await _text_of(upload.content_type, upload.body))

    async def send() -> JsonObject:
        return await work.send(Op.INGEST_TEXT, {**args, "upload": text})

    async def look() -> JsonObject | None:
        if not await _is_stored(work, str(args["brain"]), path):
            return None
        return {"status": "completed", "document_id": path, "path": path, "reused": False}

    return {**await certain(send, look), "hash": sha256}


async def ingest_by_platform(work: Work, args: Args) -> JsonObject:
    """By the platform, which knows a file again by its bytes: asked once more, it says what became of it."""
    return await certain(lambda: work.send(Op.INGEST_FILE, args))


async def ingest_by_server(work: Work, args: Args) -> JsonObject:
    """By the platform itself, which fetches the page: some would fetch from their own network, so look first."""
    await work.vet(str(args["url"]))
    result = await certain(lambda: work.send(Op.INGEST_URL, args))
    if "hash" not in result and result.get("path"):
        result = {**result, **await _hash(work, str(args["brain"]), str(result["path"]))}
    return {"path": "server", "result": result}


async def _hash(work: Work, brain: str, path: str) -> JsonObject:
    """Of what was stored; nothing where that cannot be read: it is stored all the same."""
    try:
        body = await documents.read(work, brain, path)
    except (Absent, GatewayError):
        return {}
    return {} if body is None else {"hash": hashlib.sha256(body).hexdigest()}


async def _is_stored(work: Work, brain: str, path: str) -> bool:
    try:
        await work.send(Op.STAT_DOCUMENT, {"brain": brain, "path": path})
    except GatewayError as error:
        if error.code == "not_found":
            return False
        raise
    return True


async def _text_of(content_type: str, body: bytes) -> bytes:
    try:
        return (await readable(Page("", content_type, body))).encode()
    except GatewayError as error:
        raise GatewayError("validation_error", f"The file cannot be read as text. {error.message}") from None
