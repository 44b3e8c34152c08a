"""Tokens of ours for tests: put in the file by hand, and used at a gateway that reads it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from gateway.config.token_file import Record, change, digest, make_token
from tests.gateway.http.auth.gateways import HTTP
from tests.served import Era, Served, messages_of, raw_call, serving


def record(token: str, **fields: Any) -> Record:
    given = {"id": digest(token)[:8], "name": "a test", "subject": "ada", "created": datetime.now(UTC), **fields}
    return Record(sha256=digest(token), **given)


def kept(file: Path, **fields: Any) -> str:
    """A token that is in the file from now on."""
    token = make_token()
    with change(file) as records:
        records.append(record(token, **fields))
    return token


@contextmanager
def gateway(data: Path) -> Iterator[Served]:
    with change(data / "tokens.json"):
        pass
    with serving(data, None, auth="tokens", calls_per_second=1e6) as served:
        yield served


def called(
    served: Served, token: str, tool: str, path: str = "/mcp", era: Era = "modern", **arguments: Any
) -> httpx.Response:
    call = raw_call(era, tool, arguments)
    call["headers"]["authorization"] = f"Bearer {token}"
    return HTTP.post(served.url + path, **call)


def structured(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    return dict(messages_of(response)[-1]["result"]["structuredContent"])
