"""Builds an HTTP request by hand, because httpx's own way, which can do more, takes several times as long."""

import json
import zlib
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import cache, lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote_plus

import httpx

from gateway.upstream.dialects.dialect import Body

# What httpx says of itself, and how an answer may be packed.
_COMMON: Final = tuple(
    httpx.AsyncClient(
        transport=httpx.AsyncBaseTransport(), trust_env=False, headers={"accept-encoding": "gzip"}
    ).headers.items()
)
# In a compressed stream, the first words would wait for the next ones.
_COMMON_OF_STREAMS: Final = tuple(
    (name, {"accept": "text/event-stream", "accept-encoding": "identity"}.get(name, value)) for name, value in _COMMON
)
# Under this key, a request holds its origin and its finished head, so that the transport need not make them again.
AS_SENT: Final = "as_sent"
_FORMATS: Final = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
_PART_BYTES: Final = 64 * 1024


def request_of(
    method: str,
    root: str,
    path: str,
    body: Body,
    headers: Mapping[str, str],
    *,
    seconds: float | None,
    connect: float,
    streams: bool = False,
) -> httpx.Request:
    """A request that may wait `connect` seconds for a connection, and `seconds` for each part (None: for ever)."""
    origin, base = _origin(root)
    target = f"{base}{path}?{_query(body.params)}" if body.params else base + path
    url = _url(root, *target.partition("?")[::2])
    timeouts = _timeouts(seconds, connect)
    own = [*headers.items()]
    common = _common(origin, streams)
    if (upload := body.upload) is not None:
        files = {"file": (upload.name, upload.body, upload.content_type)}
        # httpx takes the host from the URL.
        more = {"timeout": timeouts}
        return httpx.Request(method, url, files=files, headers=[*common.headers[1:], *own], extensions=more)
    content, media_type = _content(body)
    if media_type is not None:
        own.append(("content-type", media_type))
    if content or method != "GET":
        own.append(("content-length", str(len(content))))
    sent = origin, head_of(method, target, common.text, own)
    # The `__init__` of httpx would check everything again, and copy most of it.
    request = httpx.Request.__new__(httpx.Request)
    request.method, request.url, request.headers = method, url, httpx.Headers()
    request.headers._list = [*common.raw, *_raw(own)]
    request.extensions = {"timeout": timeouts, AS_SENT: sent}
    request.stream, request._content = httpx.ByteStream(content), content
    return request


def head_of(method: str, target: str, common: str, own: Iterable[tuple[str, str]]) -> bytes:
    """The bytes of a request up to its body. The `common` headers are lines already.

    Raises:
        httpx.LocalProtocolError: a header would begin another line.
    """
    lines = [f"{name}: {value}" for name, value in own]
    said = "".join([target, *lines])
    if "\n" in said or "\r" in said or "\0" in said:
        raise httpx.LocalProtocolError("a header would begin another line")
    return "\r\n".join([f"{method} {target} HTTP/1.1", common, *lines, "", ""]).encode("ascii")


def _query(params: Mapping[str, str | list[str]]) -> str:
    """The query as `urlencode` writes it, which handles more kinds of values than we have, and so is slower."""
    return "&".join(
        f"{_quote_name(name)}={quote_plus(one)}"
        for name, value in params.items()
        for one in (value if isinstance(value, list) else (value,))
    )


@lru_cache(maxsize=256)
def _quote_name(name: str) -> str:
    return quote_plus(name)


def _raw(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes, bytes]]:
    """Headers as httpx keeps them."""
    return [((raw := name.encode("ascii")), raw.lower(), value.encode("ascii")) for name, value in headers]


class _Common(NamedTuple):
    """The headers that begin every request to a platform, the host first: as pairs, as httpx has them, as lines."""

    headers: list[tuple[str, str]]
    raw: list[tuple[bytes, bytes, bytes]]
    text: str


@lru_cache(maxsize=32)
def _common(origin: str, streams: bool) -> _Common:
    common = [("host", origin.partition("://")[2]), *(_COMMON_OF_STREAMS if streams else _COMMON)]
    return _Common(common, _raw(common), "\r\n".join([f"{name}: {value}" for name, value in common]))


def headers_of(raw: Iterable[tuple[bytes, bytes]]) -> httpx.Headers:
    """Headers that are bytes already, so that httpx does not check each of them."""
    headers = httpx.Headers()
    headers._list = [(name, name.lower(), value) for name, value in raw]
    return headers


@lru_cache(maxsize=16)
def _origin(root: str) -> tuple[str, str]:
    """The beginning of every address, without name and password; and the path that is before all paths."""
    url = _parse_url(root)
    return f"{url.scheme}://{url.netloc.decode('ascii')}", url._uri_reference.path.rstrip("/")


def _url(root: str, path: str, query: str) -> httpx.URL:
    """Joins both letter for letter: they are escaped and checked already, and httpx would look at each letter again."""
    url = httpx.URL.__new__(httpx.URL)
    url._uri_reference = _parse_url(root)._uri_reference._replace(path=path, query=query or None)
    return url


def _content(body: Body) -> tuple[bytes, str | None]:
    if body.content is not None:
        return body.content, "application/octet-stream"
    if body.json is None:
        return b"", None
    return json.dumps(body.json, ensure_ascii=False, separators=(",", ":")).encode(), "application/json"


@lru_cache(maxsize=16)
def _parse_url(root: str) -> httpx.URL:
    """httpx reads a URL letter by letter."""
    return httpx.URL(root)


@cache
def _timeouts(seconds: float | None, connect: float) -> dict[str, float | None]:
    return httpx.Timeout(seconds, connect=connect, pool=connect).as_dict()


def parts_of(response: httpx.Response) -> AsyncIterator[bytes]:
    """The body of an answer, as it comes. A body that is not compressed skips the decoders."""
    assert isinstance(response.stream, httpx.AsyncByteStream)
    packed = response.headers.get("content-encoding", "").strip().lower()
    return aiter(response.stream) if packed in {"", "identity"} else _unpack(response.stream, packed)


async def close(response: httpx.Response) -> None:
    """End an answer, and leave the rest of it unread."""
    assert isinstance(response.stream, httpx.AsyncByteStream)
    await response.stream.aclose()


async def _unpack(stream: httpx.AsyncByteStream, packed: str) -> AsyncIterator[bytes]:
    """In small parts: a few bytes may become a thousand times as many, and the reader counts them.

    Raises:
        httpx.DecodingError: it is compressed in another way or twice, or is not valid.
    """
    if packed not in _FORMATS:
        raise httpx.DecodingError("packed in a way that nobody asked for")
    inflater = zlib.decompressobj(_FORMATS[packed])
    is_empty = True
    try:
        async for part in stream:
            is_empty = False
            while part and not inflater.eof:
                yield inflater.decompress(part, _PART_BYTES)
                part = inflater.unconsumed_tail
    except zlib.error:
        raise httpx.DecodingError("not packed as it says") from None
    if not (is_empty or inflater.eof):
        raise httpx.DecodingError("packed, and cut")
