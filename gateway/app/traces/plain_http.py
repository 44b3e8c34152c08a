"""Carries spans to a collector over plain HTTP and one connection.

`requests` does this for every other collector. It looks up proxies, certificates and passwords for each batch, which
takes several times as long as all the rest that a batch needs.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Final, cast
from urllib.parse import urlsplit
from urllib.request import getproxies

from opentelemetry.exporter.http.transport._base import BaseHTTPResult, BaseHTTPTransport

_ANSWER_BYTES: Final = 64 * 1024
_CREDENTIAL_PROVIDER: Final = "_CREDENTIAL_PROVIDER"


def is_plain(url: str) -> bool:
    """Whether a collector is reached without TLS, and nothing that `requests` would look up can matter."""
    try:
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname is None or parts.username is not None or parts.port == 0:
            return False
    except ValueError:
        # It has a port or a host that cannot be. `requests` says so when spans are sent.
        return False
    if any(name.startswith("OTEL_") and name.endswith(_CREDENTIAL_PROVIDER) for name in os.environ):
        return False
    files = [os.environ["NETRC"]] if "NETRC" in os.environ else ["~/.netrc", "~/_netrc"]
    return not {"http", "all"} & getproxies().keys() and not any(os.path.exists(os.path.expanduser(f)) for f in files)


@dataclass(frozen=True, slots=True)
class _Answer(BaseHTTPResult):
    """What the collector said, or why it said nothing."""

    named: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def content(self) -> bytes:
        return self.body

    def headers(self) -> Mapping[str, str]:
        return self.named


class PlainTransport(BaseHTTPTransport):
    """For one address."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._connection = HTTPConnection(parts.hostname, parts.port)

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: dict[str, str] | None = None,
        timeout: float | None = None,
        data: bytes | None = None,
    ) -> BaseHTTPResult:
        connection = self._connection
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        try:
            connection.request(method, self._target, data, headers or {})
            answer = connection.getresponse()
            body = answer.read(_ANSWER_BYTES)
            if not answer.isclosed():
                # Whatever it still says, the next request must not take that for its answer.
                connection.close()
            named = cast("Mapping[str, str]", answer.headers)
            return _Answer(answer.status, answer.reason, named=named, body=body)
        except (OSError, HTTPException) as error:
            connection.close()
            return _Answer(error=error)

    def is_connection_error(self, exception: Exception | None) -> bool:
        return isinstance(exception, OSError | HTTPException)

    def close(self) -> None:
        self._connection.close()
