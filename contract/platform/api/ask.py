"""Ask over HTTP: an answer as server-sent events."""

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from contract.platform import answer
from contract.platform.api import body
from contract.platform.api.call import in_thread, platform_of
from contract.platform.api.search import QUERY_LIMIT, folders_of
from contract.platform.brains import Brain
from contract.platform.wire import JsonObject

HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


async def ask(request: Request, brain: Brain) -> Response:
    fields = await body.fields(request)
    query = fields.text("query", 1, QUERY_LIMIT)
    top_k = fields.integer("top_k", 1, 50, default=8)
    folders = folders_of(fields)
    platform = platform_of(request)

    def composed() -> list[JsonObject]:
        return list(answer.frames(platform.store.search(brain, query, top_k, folders=folders), query))

    frames = await in_thread(platform.searches, composed)
    return StreamingResponse(_sent(frames), media_type="text/event-stream", headers=HEADERS)


async def _sent(frames: list[JsonObject]) -> AsyncIterator[bytes]:
    for frame in frames:
        yield answer.encoded(frame)
