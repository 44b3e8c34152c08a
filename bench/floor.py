"""The floor: a whole search with nothing between the socket and the platform that is not needed to answer it."""

import os
from collections.abc import Mapping
from typing import Any

from aiohttp import ClientSession
from pydantic_core import from_json, to_json
from starlette.types import Receive, Scope, Send

from bench import serve
from bench.wire import MODERN

_SHOWN = 5
_LENGTH = 320
_MODERN_HEADER = (b"mcp-protocol-version", MODERN.version.encode())
_SERVER = {"io.modelcontextprotocol/serverInfo": {"name": "floor", "version": "0"}}


class Floor:
    """Reads JSON-RPC, asks the platform, and writes what the gateway writes. It checks nothing."""

    def __init__(self) -> None:
        self._platform = os.environ[serve.PLATFORM_URL]
        self._session: ClientSession

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        body = b""
        while True:
            message = await receive()
            body += message["body"]
            if not message.get("more_body"):
                break
        request = from_json(body)
        found = await self._search(request["params"]["arguments"])
        result: dict[str, Any] = {"content": _content(found["hits"]), "isError": False, "structuredContent": found}
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        if _MODERN_HEADER in scope["headers"]:
            result |= {"resultType": "complete", "_meta": _SERVER}
            await _write(send, b"application/json", to_json(answer))
        else:
            await _write(send, b"text/event-stream", b"event: message\r\ndata: %b\r\n\r\n" % to_json(answer))

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with ClientSession(self._platform) as self._session:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _search(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        asked = {"q": arguments["query"], "top_k": arguments.get("top_k", 10)}
        async with self._session.get(f"/v1/brains/{arguments['brain']}/search", params=asked) as answer:
            found: dict[str, Any] = from_json(await answer.read())
            return found


def _content(hits: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The beginnings of the first hits, then all of them, in the words of the gateway."""
    shown = [
        f"#{n} score={hit['score']:.3f} {hit['path']}\n{hit['content'][:_LENGTH]}"
        for n, hit in enumerate(hits[:_SHOWN], start=1)
    ]
    whole = [
        f"=== {n} of {len(hits)}: {hit['path']} · {hit['title']} · {hit['updated_at']} ===\n{hit['content']}"
        for n, hit in enumerate(hits, start=1)
    ]
    summary = [*shown, f"({len(hits) - _SHOWN} more in the structured result)"]
    return [{"type": "text", "text": "\n\n".join(parts)} for parts in (summary, whole)]


async def _write(send: Send, kind: bytes, body: bytes) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    serve.serve("bench.floor:Floor", serve.arguments(["floor"]))
