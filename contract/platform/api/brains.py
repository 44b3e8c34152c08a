"""Brains over HTTP."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from contract.platform import names
from contract.platform.api import body
from contract.platform.api.call import NO_STORE, caller_of, in_thread, platform_of
from contract.platform.brains import Brain
from contract.platform.refusal import Refused, invalid

VISIBILITIES = ("private", "tenant", "public")


async def list_brains(request: Request) -> Response:
    platform = platform_of(request)
    caller = caller_of(request)
    found = await in_thread(platform.lookups, platform.store.brains, caller)
    # If callers are told apart, a gateway must know whether consolidating would mix notes with different readers.
    apart = {} if caller.owner is None else {"keeps_folders_apart": True}
    return JSONResponse({"items": [{**brain.record(), **apart} for brain in found]}, headers=NO_STORE)


async def create_brain(request: Request) -> Response:
    fields = await body.fields(request)
    name = fields.text("name", 1, 128)
    slug = fields.optional_text("slug", 1, names.SLUG_LIMIT)
    if slug is not None and not names.BRAIN_SLUG.fullmatch(slug):
        raise invalid("slug must have lower-case letters, digits and hyphens, and begin with a letter or digit")
    visibility = fields.choice("visibility", VISIBILITIES, "private")
    platform = platform_of(request)
    caller = caller_of(request)
    brain = await in_thread(platform.writes, platform.store.create_brain, name, slug, visibility, caller)
    return JSONResponse(brain.record(), status_code=201)


async def get_brain(request: Request, brain: Brain) -> Response:
    return JSONResponse(brain.record(), headers=NO_STORE)


async def delete_brain(request: Request, brain: Brain) -> Response:
    if request.headers.get("x-confirm-delete") != "yes":
        raise Refused("confirmation_required", "deleting a brain needs the header X-Confirm-Delete: yes")
    platform = platform_of(request)
    await in_thread(platform.writes, platform.store.delete_brain, brain)
    return Response(status_code=204)
