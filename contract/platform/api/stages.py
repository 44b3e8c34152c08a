"""Consolidation over HTTP."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from contract.platform.api import body
from contract.platform.api.call import in_thread, lent_key, platform_of
from contract.platform.brains import Brain


async def consolidate(request: Request, brain: Brain) -> Response:
    await body.fields(request)
    platform = platform_of(request)
    key = lent_key(request)
    by_rule = await in_thread(platform.writes, platform.store.stages.consolidate, brain)
    if platform.chat is None:
        return JSONResponse(by_rule)
    done, failure = await platform.store.tidying.run(platform.chat, brain, key)
    counts = {"merged": done["merge"], "pruned": done["prune"], "promoted": done["promote"]}
    if failure is not None and not done:
        note = f"By rule alone, because {failure.message}."
        return JSONResponse({**by_rule, **counts, "note": note})
    if done:
        # The overviews do not have the changes of the model yet.
        await in_thread(platform.writes, platform.store.stages.compile, brain)
    return JSONResponse({**by_rule, **counts, "method": "model"})


async def compile_brain(request: Request, brain: Brain) -> Response:
    await body.fields(request)
    platform = platform_of(request)
    return JSONResponse(await in_thread(platform.writes, platform.store.stages.compile, brain))
