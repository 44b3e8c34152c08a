"""An HTTP request, put together by hand: httpx's own way, for all it can do, takes several times as long."""

import json
from collections.abc import AsyncIterator, Mapping
from copy import copy
from functools import cache, lru_cache
from typing import Final
from urllib.parse import urlencode

import httpx

from gateway.upstream.dialects.dialect import Body

# What httpx says of itself; that it unpacks, above all.
_COMMON: Final = tuple(httpx.AsyncClient(transport=httpx.AsyncBaseTransport(), trust_env=False).headers.raw)


def request_of(
    method: str, root: str, path: str, body: Body, headers: Mapping[str, str], *, seconds: float, connect: float
) -> httpx.Request:
    """A request that may wait so long for each part of it, and for a connection."""
    url, extensions = (
        _url(root, path, urlencode(body.params, doseq=True) if body.params else None),
        _timeouts(seconds, connect),
    )
    sent = [*_COMMON, *((name.encode("ascii"), value.encode("ascii")) for name, value in headers.items())]
    if (upload := body.upload) is not None:
        files = {"file": (upload.name, upload.body, upload.content_type)}
        return httpx.Request(method, url, files=files, headers=sent, extensions=extensions)
    content, media_type = _content(body)
    if media_type is not None:
        sent.append((b"content-type", media_type))
    if content or method != "GET":
        sent.append((b"content-length", b"%d" % len(content)))
    request = httpx.Request(
        method, url, headers=[(b"host", url.netloc), *sent], stream=httpx.ByteStream(content), extensions=extensions
    )
    request.read()
    return request


def _url(root: str, path: str, query: str | None) -> httpx.URL:
    """To the letter: both are escaped already, and their segments were counted. httpx looks at each letter again."""
    base = _parse_url(root)
    url = copy(base)
    before = base._uri_reference
    url._uri_reference = before._replace(path=before.path.rstrip("/") + path, query=query)
    return url


def _content(body: Body) -> tuple[bytes, bytes | None]:
    if body.content is not None:
        return body.content, b"application/octet-stream"
    if body.json is None:
        return b"", None
    return json.dumps(body.json, ensure_ascii=False, separators=(",", ":")).encode(), b"application/json"


@lru_cache(maxsize=16)
def _parse_url(root: str) -> httpx.URL:
    """httpx reads a URL letter by letter."""
    return httpx.URL(root)


@cache
def _timeouts(seconds: float, connect: float) -> dict[str, dict[str, float | None]]:
    return {"timeout": httpx.Timeout(seconds, connect=connect, pool=connect).as_dict()}


def parts_of(response: httpx.Response) -> AsyncIterator[bytes]:
    """What an answer says, as it comes. What is not packed need not go through what unpacks it."""
    if "content-encoding" in response.headers:
        return response.aiter_bytes()
    assert isinstance(response.stream, httpx.AsyncByteStream)
    return aiter(response.stream)
