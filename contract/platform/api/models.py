"""Which models the platform uses, over HTTP."""

from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from contract.platform.api import body
from contract.platform.api.call import NO_STORE, in_thread, platform_of
from contract.platform.wire import JsonObject

NO_MODEL: Final[JsonObject] = {"name": None, "source": "none", "state": "off"}


async def models(request: Request) -> Response:
    platform = platform_of(request)
    embedding = await in_thread(platform.lookups, platform.store.embedding)
    language = NO_MODEL if platform.chat is None else platform.chat.status()
    return JSONResponse({"embedding": embedding, "language": language}, headers=NO_STORE)


async def try_models(request: Request) -> Response:
    """The same, after one tiny call of the language model, because its last call may be long ago, or there was none."""
    await body.fields(request)
    chat = platform_of(request).chat
    if chat is not None:
        asked = [{"role": "user", "content": "Say ok."}]
        await chat.complete("try", asked, most_tokens=16)
    return await models(request)
