"""Request bodies, read no further than their limit."""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final, NoReturn

from anyio import move_on_after
from starlette.requests import Request

from contract.platform.api.fields import Fields
from contract.platform.refusal import Refused, invalid
from contract.platform.wire import JsonObject

KIB: Final = 1024
MIB: Final = 1024 * KIB
SMALL_JSON: Final = 256 * KIB

# If the connection closes while a client is still sending, the answer is lost. So some of the rest is read.
DRAINED_BYTES: Final = 64 * MIB
DRAIN_SECONDS: Final = 5.0

SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


async def limited(request: Request, limit: int) -> AsyncGenerator[bytes, None]:
    """The body as it arrives, refused as soon as it is longer than the limit, whatever Content-Length said."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused("unsupported_media_type", "a compressed body is not accepted")
    received = 0
    stream = request.stream()
    async for piece in stream:
        received += len(piece)
        if received > limit:
            await _drain(stream)
            raise Refused("payload_too_large", f"body exceeds {limit} bytes")
        yield piece


async def _drain(stream: AsyncIterator[bytes]) -> None:
    drained = 0
    with move_on_after(DRAIN_SECONDS):
        async for piece in stream:
            drained += len(piece)
            if drained > DRAINED_BYTES:
                return


async def raw(request: Request, limit: int) -> bytes:
    return b"".join([piece async for piece in limited(request, limit)])


def require_bytes_type(request: Request) -> None:
    kind = _media_type(request)
    if kind and not kind.startswith("text/") and kind != "application/octet-stream":
        raise Refused("unsupported_media_type", "content type must be text/* or application/octet-stream")


async def fields(request: Request, limit: int = SMALL_JSON) -> Fields:
    """The JSON object of the body; an empty body is an empty object."""
    kind = _media_type(request)
    if kind and kind != "application/json" and not kind.endswith("+json"):
        raise Refused("unsupported_media_type", "content type must be application/json")
    return Fields(_parsed(await raw(request, limit)))


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _parsed(body: bytes) -> JsonObject:
    if not body.strip():
        return {}
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
        if SURROGATE_ESCAPE.search(body):
            # Half of a pair is valid JSON, but no text: it could be neither stored nor sent.
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise invalid("body is not valid JSON in UTF-8") from error
    if not isinstance(value, dict):
        raise invalid("body must be a JSON object")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
