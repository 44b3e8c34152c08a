"""Ask over HTTP: an answer as server-sent events."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from contract.platform import answer
from contract.platform.api import body
from contract.platform.api.call import in_thread, lent_key, platform_of
from contract.platform.api.search import QUERY_LIMIT, folders_of
from contract.platform.brains import Brain
from contract.platform.llm import answering
from contract.platform.search import Found
from contract.platform.wire import JsonObject

HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


async def ask(request: Request, brain: Brain) -> Response:
    fields = await body.fields(request)
    query = fields.text("query", 1, QUERY_LIMIT)
    top_k = fields.integer("top_k", 1, 50, default=8)
    folders = folders_of(fields)
    platform = platform_of(request)

    def composed() -> tuple[Found, list[JsonObject]]:
        found = platform.store.search(brain, query, top_k, folders=folders)
        return found, list(answer.frames(found, query))

    key = lent_key(request)
    found, by_rule = await in_thread(platform.searches, composed)
    chat = platform.chat
    frames = _each(by_rule) if chat is None else answering.frames(chat, query, found, by_rule, key)
    return StreamingResponse(_sent(frames), media_type="text/event-stream", headers=HEADERS)


async def _each(frames: list[JsonObject]) -> AsyncGenerator[JsonObject, None]:
    for frame in frames:
        yield frame


async def _sent(frames: AsyncGenerator[JsonObject, None]) -> AsyncIterator[bytes]:
    async with aclosing(frames):
        async for frame in frames:
            yield answer.encoded(frame)
