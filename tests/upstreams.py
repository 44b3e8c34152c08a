"""A platform that does as it is told: canned answers, slow streams, and a record of what it saw."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Answer = Callable[[Request], Any]


@dataclass
class Scripted:
    """Answers `METHOD /path` as scripted; anything else is a route it does not have."""

    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def app(self) -> Starlette:
        methods = ["GET", "POST", "PUT", "DELETE", "HEAD"]
        return Starlette(routes=[Route("/{path:path}", self._answer, methods=methods)])

    async def _answer(self, request: Request) -> Response:
        name = f"{request.method} {request.url.path}"
        self.requests.append(name)
        self.headers.append(dict(request.headers))
        if (answer := self.answers.get(name)) is None:
            detail = f"no route for {name}"
            problem = {"status": 404, "title": "Not Found", "code": "not_found", "detail": detail}
            return JSONResponse(problem, 404, media_type="application/problem+json")
        answered = answer(request)
        result = await answered if asyncio.iscoroutine(answered) else answered
        return result if isinstance(result, Response) else JSONResponse(result)


def replay(body: bytes) -> Answer:
    """An event stream with these very bytes."""
    return lambda _request: Response(body, media_type="text/event-stream")


@dataclass
class SlowStream:
    """Streams deltas for ever, and tells when the reader has gone."""

    started: threading.Event = field(default_factory=threading.Event)
    closed: threading.Event = field(default_factory=threading.Event)

    def __call__(self, _request: Request) -> Response:
        return StreamingResponse(self._frames(), media_type="text/event-stream")

    async def _frames(self) -> AsyncIterator[bytes]:
        try:
            yield b'event: retrieve\ndata: {"type":"retrieve","chunks":[]}\n\n'
            while True:
                yield b'event: answer_delta\ndata: {"type":"answer_delta","delta":"word "}\n\n'
                self.started.set()
                await asyncio.sleep(0.02)
        finally:
            self.closed.set()


@dataclass
class SlowWrite:
    """Takes a while over a write, and tells when it was seen through to the end."""

    arrived: threading.Event = field(default_factory=threading.Event)
    committed: threading.Event = field(default_factory=threading.Event)

    async def __call__(self, request: Request) -> Response:
        body = await request.json()
        self.arrived.set()
        for _ in range(30):
            await asyncio.sleep(0.02)
            if await request.is_disconnected():
                return Response(status_code=499)
        self.committed.set()
        return JSONResponse({"id": "doc_1", "path": body["path"], "byte_size": len(body["content"])}, 201)
