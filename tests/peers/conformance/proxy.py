"""A proxy that adds a token: the suite has none to send."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

# About one connection, not about the message.
_OF_A_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


def adding(token: Callable[[], str], target: str) -> ASGIApp:
    """Passes requests for `/mcp` on as they came, their Host too, with a token."""
    client = httpx.AsyncClient(timeout=60, trust_env=False)

    async def forward(request: Request) -> Response:
        headers = [*_passed_on(request.headers.items()), ("authorization", f"Bearer {token()}")]
        sent = client.build_request(request.method, target, headers=headers, content=await request.body())
        answer = await client.send(sent, stream=True)

        async def body() -> AsyncIterator[bytes]:
            try:
                async for part in answer.aiter_raw():
                    yield part
            finally:
                await answer.aclose()

        return StreamingResponse(body(), answer.status_code, dict(_passed_on(answer.headers.items())))

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with client:
            yield

    routes = [Route("/mcp", forward, methods=["GET", "POST", "DELETE"])]
    return Starlette(routes=routes, lifespan=lifespan)


def _passed_on(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value.strip()) for name, value in headers if name.lower() not in _OF_A_CONNECTION]
