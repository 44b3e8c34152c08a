"""Turns failures of aiohttp into those of httpx that say as much about whether the request was sent."""

from typing import Final

import aiohttp
import httpx
from aiohttp.http_exceptions import HttpProcessingError

FAILURES: Final = (aiohttp.ClientError, HttpProcessingError, OSError, ValueError, RuntimeError)
# The first row that fits is used. Only in the first two was the request surely not sent.
_KINDS: Final[tuple[tuple[type[Exception], type[httpx.TransportError]], ...]] = (
    (aiohttp.ClientConnectorError, httpx.ConnectError),
    (aiohttp.InvalidURL, httpx.ConnectError),
    (aiohttp.ServerTimeoutError, httpx.ReadTimeout),
    (aiohttp.ServerDisconnectedError, httpx.RemoteProtocolError),
    (aiohttp.ClientResponseError, httpx.RemoteProtocolError),
    (HttpProcessingError, httpx.RemoteProtocolError),
    (aiohttp.ClientPayloadError, httpx.RemoteProtocolError),
    (aiohttp.ClientConnectionResetError, httpx.WriteError),
    (OSError, httpx.ReadError),
    (aiohttp.ClientError, httpx.ReadError),
    (RuntimeError, httpx.ReadError),
    (ValueError, httpx.LocalProtocolError),
)


def failure_of(error: Exception) -> httpx.TransportError:
    kind = next(kind for cause, kind in _KINDS if isinstance(error, cause))
    # aiohttp's own message may hold the URL and what the platform sent, so it is left out.
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return kind((cause.strerror if isinstance(cause, OSError) else None) or type(error).__name__)
