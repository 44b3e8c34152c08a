"""A platform in front of another: every request passes a function that may change it, its answer, or keep it."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlencode

from starlette.types import ASGIApp, Receive, Scope, Send


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body or b"{}")

    def with_json(self, value: Any) -> "Asked":
        return replace(self, body=json.dumps(value).encode())

    def without(self, *names: str) -> "Asked":
        """The request without these parameters, in its query or its JSON."""
        query = {key: value for key, value in self.query.items() if key not in names}
        if self.headers.get("content-type") != "application/json":
            return replace(self, query=query)
        return replace(self, query=query).with_json({k: v for k, v in self.json().items() if k not in names})


@dataclass(frozen=True)
class Said:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> Any:
        return json.loads(self.body)

    def with_json(self, value: Any) -> "Said":
        kind = {"content-type": self.headers.get("content-type", "application/json")}
        return replace(self, body=json.dumps(value).encode(), headers={**self.headers, **kind})


Forward: TypeAlias = Callable[[Asked], Awaitable[Said]]
Act: TypeAlias = Callable[[Asked, Forward], Awaitable[Said]]


def said(status: int, value: Any = None) -> Said:
    body = b"" if value is None else json.dumps(value).encode()
    return Said(status, {"content-type": "application/json"}, body)


def problem(status: int, code: str, detail: str = "it is not so") -> Said:
    body = {"status": status, "title": "No", "detail": detail, "code": code}
    return Said(status, {"content-type": "application/problem+json"}, json.dumps(body).encode())


def wrapped(app: ASGIApp, act: Act) -> ASGIApp:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        query = dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True))

        async def forward(asked: Asked) -> Said:
            return await _called(app, scope, asked)

        told = await act(Asked(scope["method"], scope["path"], query, headers, body), forward)
        kept = {key: value for key, value in told.headers.items() if key != "content-length"}
        raw = [(key.encode(), value.encode()) for key, value in kept.items()]
        await send({"type": "http.response.start", "status": told.status, "headers": raw})
        await send({"type": "http.response.body", "body": told.body})

    return broken


async def _called(app: ASGIApp, scope: Scope, asked: Asked) -> Said:
    headers = {**asked.headers, "content-length": str(len(asked.body))}
    inner = {
        **scope,
        "method": asked.method,
        "path": asked.path,
        "raw_path": asked.path.encode(),
        "query_string": urlencode(asked.query).encode(),
        "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
    }
    status, told, pieces = 500, {}, []

    was_read = False

    async def receive() -> dict[str, Any]:
        nonlocal was_read
        if was_read:
            # A stream listens for its reader to leave, who never does.
            await asyncio.Event().wait()
        was_read = True
        return {"type": "http.request", "body": asked.body, "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status, told
        if message["type"] == "http.response.start":
            status = message["status"]
            told = {key.decode(): value.decode() for key, value in message["headers"]}
        else:
            pieces.append(message.get("body", b""))

    await app(inner, receive, send)
    return Said(status, told, b"".join(pieces))


def on(route: str, act: Act) -> Act:
    """The act for one route, as `PUT {b}/documents`; the rest passes. A method of `*` is any."""
    method, _, path = route.partition(" ")
    pattern = re.compile(path.replace("{b}", "/v1/brains/[^/]+"))

    async def chosen(asked: Asked, forward: Forward) -> Said:
        if method in ("*", asked.method) and pattern.fullmatch(asked.path):
            return await act(asked, forward)
        return await forward(asked)

    return chosen


def answers(route: str, change: Callable[[Said], Said]) -> Act:
    async def act(asked: Asked, forward: Forward) -> Said:
        return change(await forward(asked))

    return on(route, act)


def asks(route: str, change: Callable[[Asked], Asked]) -> Act:
    async def act(asked: Asked, forward: Forward) -> Said:
        return await forward(change(asked))

    return on(route, act)


def refuses(route: str, when: Callable[[Asked], bool], instead: Said) -> Act:
    """An answer without asking, for some requests."""

    async def act(asked: Asked, forward: Forward) -> Said:
        return instead if when(asked) else await forward(asked)

    return on(route, act)


def turns(route: str, status: int, into: Said) -> Act:
    """Answers with a status become others."""
    return answers(route, lambda told: into if told.status == status else told)


def lenient(route: str, into: int = 200) -> Act:
    """What is wrong is taken as if it were right."""
    return turns(route, 400, said(into, {}))


def edits(route: str, change: Callable[[Any], Any]) -> Act:
    """The JSON of a success is changed."""

    def edited(told: Said) -> Said:
        return told.with_json(change(told.json())) if told.status in (200, 201) and told.body else told

    return answers(route, edited)


def stream(change: Callable[[list[Any]], list[Any]]) -> Act:
    """The events of an answer are changed, each an object with its type."""

    def changed(told: Said) -> Said:
        if told.status != 200:
            return told
        frames = [json.loads(line[6:]) for line in told.body.decode().split("\n") if line.startswith("data: ")]
        text = "".join(f"event: {one.get('type')}\ndata: {json.dumps(one)}\n\n" for one in change(frames))
        return replace(told, body=text.encode())

    return answers("POST {b}/ask", changed)
