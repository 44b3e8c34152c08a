"""The ingest routes; the web and the daemon's disk are what a test put there."""

import asyncio
import hashlib
import io
import re
import time
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import pypdf
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.daemons.answers import Refused, read_json, text_of
from tests.daemons.documents import decoded
from tests.daemons.state import State

TEXTS = (".md", ".markdown", ".txt", ".html", ".htm", ".json", ".csv")


def slug_of(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


async def ingest_file(state: State, request: Request, brain: str) -> Response:
    state.files(brain)
    traits = state.traits
    cap = traits.caps.ingest if traits.ingest_cap_of_json else traits.caps.ingest * 2 + 64 * 1024
    body = await read_json(request, cap, traits)
    path, encoded = text_of(body, "path"), text_of(body, "contentBase64")
    if encoded:
        content = decoded(encoded, traits.lenient_base64)
        if len(content) > traits.caps.ingest:
            raise Refused(413, f"ingest payload exceeds {traits.caps.ingest} bytes after decode")
    elif path in state.host_files:
        content = state.host_files[path]
    elif path:
        raise Refused(400, f"unable to read path: ENOENT: no such file or directory, open '{path}'")
    else:
        raise Refused(traits.empty_ingest, "contentBase64 or path required")
    kind = text_of(body, "contentType")
    return await stored(state, brain, content, name=path, title=text_of(body, "title"), kind=kind)


async def ingest_url(state: State, request: Request, brain: str) -> Response:
    state.files(brain)
    body = await read_json(request, state.traits.caps.small, state.traits)
    url = text_of(body, "url")
    if not url:
        raise Refused(400, "url required")
    if state.traits.blocks_private and is_private(urlsplit(url).hostname or ""):
        raise Refused(500, f"fetch {url}: request to private network blocked")
    if not urlsplit(url).scheme:
        raise Refused(500, f"fetch {url}: Failed to parse URL from {url}")
    if url not in state.pages:
        raise Refused(500, f"fetch {url}: fetch failed")
    kind, content = state.pages[url]
    name = f"{slug_of(url)[:64]}.md"
    return await stored(state, brain, content, name=name, title="", kind=kind, source=url)


def is_private(host: str) -> bool:
    try:
        return not ip_address(host).is_global
    except ValueError:
        return host == "localhost"


async def stored(
    state: State, brain: str, content: bytes, *, name: str, title: str, kind: str, source: str | None = None
) -> Response:
    started, traits = time.monotonic(), state.traits
    await asyncio.sleep(traits.block_seconds)
    digest = hashlib.sha256(content).hexdigest()
    kept, slug = content, slug_of(name) if name else digest[:12]
    if traits.converts:
        text = converted(content, name, kind)
        kept = text.encode()
    is_page_by_url = source is not None and traits.page_name == "url"
    if (traits.slug_of == "title" or source is not None) and not is_page_by_url:
        slug = slug_of(title or first_words(kept.decode("utf-8", "replace"))) or digest[:12]
    path = f"raw/documents/{slug[: traits.slug_length].rstrip('-')}.md"
    state.write(brain, path, kept)
    reply: dict[str, Any] = {
        "documentId": f"{brain}:{digest[:16]}" if traits.slug_of == "path" else digest[:16],
        "path": path,
        "chunkCount": 1,
        "bytes": len(content),
        "tookMs": int((time.monotonic() - started) * 1000),
    }
    if traits.pascal_replies:
        reply = {("DocumentID" if key == "documentId" else key[0].upper() + key[1:]): reply[key] for key in reply}
    elif source is not None and traits.slug_of == "title":
        reply["source"] = source
    return JSONResponse(reply)


def first_words(text: str) -> str:
    """The first heading, else the first line that says something."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return next((line for line in lines if line.startswith("# ")), lines[0] if lines else "")[:120]


def converted(content: bytes, name: str, kind: str) -> str:
    """Text of the file, or the refusal of a daemon that does not know the kind."""
    media, lowered = kind.split(";")[0].strip().lower(), name.lower()
    if media == "application/pdf" or lowered.endswith(".pdf"):
        try:
            return "\n".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(content)).pages)
        except pypdf.errors.PyPdfError as error:
            raise Refused(500, f"pdf: {error}") from None
    if not (media.startswith("text/") or media == "application/json" or lowered.endswith(TEXTS)):
        raise Refused(500, f"unsupported content-type: {media or 'application/octet-stream'}")
    text = content.decode("utf-8", "replace")
    if media == "text/html" or lowered.endswith((".html", ".htm")):
        return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text)).strip()
    return text
