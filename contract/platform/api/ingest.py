"""Ingest over HTTP: an uploaded file, or the page behind a URL."""

import time
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from contract.platform import convert
from contract.platform.api import body
from contract.platform.api.body import KIB, MIB
from contract.platform.api.call import Platform, in_thread, platform_of, while_connected
from contract.platform.api.fields import Fields
from contract.platform.brains import Brain
from contract.platform.convert import Converted, Kind
from contract.platform.ingest import FetchRefused, Original
from contract.platform.refusal import Refused, invalid
from contract.platform.wire import JsonObject

FILE_LIMIT: Final = 25 * MIB
# Boundaries, part headers and the other fields.
MULTIPART_ROOM: Final = 64 * KIB
URL_LIMIT: Final = 8192
KINDS: Final[dict[str, Kind]] = {"markdown": "markdown", "text": "text", "pdf": "pdf", "json": "json"}
REFUSAL_BY_CODE: Final = {
    "fetch_blocked": "this URL may not be fetched",
    "fetch_failed": "the page behind this URL could not be fetched",
}


async def ingest_file(request: Request, brain: Brain) -> Response:
    began = time.perf_counter()
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise Refused("unsupported_media_type", "content type must be multipart/form-data")
    original, fields = await _uploaded(request)
    wanted = fields.choice("as", tuple(KINDS), "")
    answer = await _ingest(request, brain, original, KINDS.get(wanted))
    return _timed(answer, began)


async def _uploaded(request: Request) -> tuple[Original, Fields]:
    """The file of the form, spooled to disk while it arrives, and the other fields."""
    parser = MultiPartParser(
        request.headers, body.limited(request, FILE_LIMIT + MULTIPART_ROOM), max_files=1, max_fields=8
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise invalid("body is not a valid multipart form with one file") from error
    try:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise invalid("the form needs a file in the field 'file'")
        content = await file.read(FILE_LIMIT + 1)
    finally:
        await form.close()
    if len(content) > FILE_LIMIT:
        raise Refused("payload_too_large", f"file exceeds {FILE_LIMIT} bytes")
    # A browser may send a whole path; only its last part is a name.
    name = (file.filename or "").replace("\\", "/").rpartition("/")[2] or "document"
    return Original(name, file.content_type or "", content), Fields(dict(form))


async def ingest_url(request: Request, brain: Brain) -> Response:
    began = time.perf_counter()
    url = (await body.fields(request)).text("url", 1, URL_LIMIT)
    _require_web_address(url)
    platform = platform_of(request)
    assert platform.fetch is not None  # the route exists only with a fetch
    try:
        page = await platform.fetch(url)
    except FetchRefused as error:
        raise Refused(error.code, REFUSAL_BY_CODE[error.code]) from error
    if len(page.body) > FILE_LIMIT:
        raise Refused("payload_too_large", f"page exceeds {FILE_LIMIT} bytes")
    return _timed(await _ingest(request, brain, Original.of_page(page), None), began)


def _require_web_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname)
    except ValueError as error:
        raise invalid("url must be a valid URL") from error
    if parts.scheme and parts.scheme not in ("http", "https"):
        raise Refused("fetch_blocked", "only http and https URLs may be fetched")
    if not parts.scheme or not has_host:
        raise invalid("url must be a valid URL with scheme and host")


async def _ingest(request: Request, brain: Brain, original: Original, wanted: Kind | None) -> JsonObject:
    platform = platform_of(request)
    intake = platform.store.intake
    known = await in_thread(platform.lookups, intake.known, brain, original)
    if known:
        return known
    named = (original.content_type, original.name, original.body)
    kind = await in_thread(platform.lookups, convert.kind_of, *named) if wanted is None else wanted
    converted = await while_connected(request, _convert(platform, original, kind))
    writes = platform.writes_of(len(converted.text))
    return await in_thread(writes, intake.store, brain, original, converted, kind)


async def _convert(platform: Platform, original: Original, kind: Kind) -> Converted:
    charset = convert.charset_of(original.content_type)
    if kind == "markdown" or kind == "text":
        return await in_thread(platform.lookups, convert.decode_text, original.body, charset)
    if platform.convert is None:
        raise Refused("unsupported_media_type", f"this platform cannot read {kind.upper()}")
    return await platform.convert(kind, original.body, charset)


def _timed(answer: JsonObject, began: float) -> Response:
    return JSONResponse({**answer, "duration_ms": round((time.perf_counter() - began) * 1000)})
