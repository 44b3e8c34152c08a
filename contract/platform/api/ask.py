"""Ask over HTTP: an answer as server-sent events, or as JSON for those who ask for it."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from contract.platform import answer
from contract.platform.api import body
from contract.platform.api.call import NO_STORE, in_thread, lent_key, platform_of
from contract.platform.api.search import QUERY_LIMIT, folders_of
from contract.platform.brains import Brain
from contract.platform.llm import answering
from contract.platform.refusal import STATUS_BY_CODE, Refused
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
    if _wants_json(request):
        return JSONResponse(await _joined(frames), headers=NO_STORE)
    return StreamingResponse(_sent(frames), media_type="text/event-stream", headers=HEADERS)


def _wants_json(request: Request) -> bool:
    """Some clients read no streams, and say so."""
    accepted = request.headers.get("accept", "").lower()
    return "application/json" in accepted and "text/event-stream" not in accepted and "*/*" not in accepted


async def _joined(frames: AsyncGenerator[JsonObject, None]) -> JsonObject:
    """The events of an answer as one object: a list for each kind of event, and the fields of `done`."""
    told: dict[str, Any] = {"answer": "", "citations": [], "retrieved": []}
    async with aclosing(frames):
        async for frame in frames:
            rest = {key: value for key, value in frame.items() if key != "type"}
            match frame["type"]:
                case "retrieve":
                    told["retrieved"] = rest["chunks"]
                case "answer_delta":
                    told["answer"] += rest["delta"]
                case "citation":
                    told["citations"].append(rest)
                case "error":
                    code = rest["code"] if rest["code"] in STATUS_BY_CODE else "model_failed"
                    raise Refused(code, str(rest["message"]))
                case "done":
                    told |= rest
    return told


async def _each(frames: list[JsonObject]) -> AsyncGenerator[JsonObject, None]:
    for frame in frames:
        yield frame


async def _sent(frames: AsyncGenerator[JsonObject, None]) -> AsyncIterator[bytes]:
    async with aclosing(frames):
        async for frame in frames:
            yield answer.encoded(frame)
