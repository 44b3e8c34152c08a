"""Consolidation over HTTP."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from contract.platform.api import body
from contract.platform.api.call import in_thread, platform_of
from contract.platform.brains import Brain


async def consolidate(request: Request, brain: Brain) -> Response:
    await body.fields(request)
    platform = platform_of(request)
    return JSONResponse(await in_thread(platform.writes, platform.store.stages.consolidate, brain))


async def compile_brain(request: Request, brain: Brain) -> Response:
    await body.fields(request)
    platform = platform_of(request)
    return JSONResponse(await in_thread(platform.writes, platform.store.stages.compile, brain))
