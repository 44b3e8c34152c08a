"""Host and Origin: each pair is judged as FastMCP judges it, whatever came before."""

import random

import pytest
from fastmcp.server.http import HostOriginGuardMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http import guard as under_test
from gateway.http.guard import HostGuard

ALLOWED_HOSTS, ALLOWED_ORIGINS = ("brains.example",), ("https://app.example",)
HOSTS = (b"localhost:8787", b"127.0.0.1", b"brains.example", b"evil.example", b"brains.example.evil", b"")
ORIGINS = (
    None,
    b"https://app.example",
    b"https://brains.example",
    b"https://evil.example",
    b"null",
    b"http://localhost",
)
PAIRS = [(host, origin, scheme) for host in HOSTS for origin in ORIGINS for scheme in ("http", "https")]


async def status(app: ASGIApp, host: bytes, origin: bytes | None, scheme: str = "http") -> int:
    sent: list[Message] = []

    async def receive() -> Message:
        raise AssertionError("nothing of a body is looked at")

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"accept", b"*/*"), (b"host", host), *([(b"origin", origin)] if origin is not None else [])]
    scope = {"type": "http", "scheme": scheme, "server": ("127.0.0.1", 8787), "headers": headers, "path": "/mcp"}
    await app(scope, receive, send)
    return int(sent[0]["status"])


async def test_each_pair_is_judged_for_itself() -> None:
    guarded = HostGuard(Response(status_code=200), ALLOWED_HOSTS, ALLOWED_ORIGINS)
    alone = HostOriginGuardMiddleware(Response(status_code=200), ALLOWED_HOSTS, ALLOWED_ORIGINS, mode="strict")
    expected = {pair: await status(alone, *pair) for pair in PAIRS}
    assert set(expected.values()) == {200, 403, 421}
    for seed in range(3):
        for pair in random.Random(seed).sample(PAIRS, len(PAIRS)):
            assert await status(guarded, *pair) == expected[pair], pair


async def test_a_pair_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    guarded, checked = HostGuard(Response(status_code=200), ALLOWED_HOSTS, ALLOWED_ORIGINS), list[Scope]()
    check = guarded._guard

    async def noted(scope: Scope, receive: Receive, send: Send) -> None:
        checked.append(scope)
        await check(scope, receive, send)

    monkeypatch.setattr(guarded, "_guard", noted)
    for _ in range(3):
        assert await status(guarded, b"localhost", None) == 200
        assert await status(guarded, b"evil.example", None) == 421
    # What is refused is not remembered: nobody can crowd out those who are let through.
    assert len(checked) == 1 + 3


async def test_what_is_known_is_bounded() -> None:
    guarded = HostGuard(Response(status_code=200), ALLOWED_HOSTS, ALLOWED_ORIGINS)
    for port in range(3 * under_test._MOST_ADDRESSES):
        assert await status(guarded, b"localhost:%d" % port, None) == 200
        assert len(guarded._known) <= under_test._MOST_ADDRESSES
