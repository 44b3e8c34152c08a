"""Which models the platform uses, over HTTP."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from contract.platform.api.call import NO_STORE, in_thread, platform_of


async def models(request: Request) -> Response:
    platform = platform_of(request)
    embedding = await in_thread(platform.lookups, platform.store.embedding)
    return JSONResponse({"embedding": embedding}, headers=NO_STORE)
