"""Views of everything but notes: brains, the caller's own calls, how the gateway is, and how clients are connected."""

from collections.abc import Sequence
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from gateway.operations.errors import GatewayError
from gateway.operations.parallel import in_parallel
from gateway.operations.table import JsonObject
from gateway.ui.visit import PAGE, PageServices, Visit, get

# With more brains than this, the numbers of notes are not shown, because each needs a request.
_LOOKED_INTO: Final = 12


def routes(services: PageServices) -> Sequence[Route]:
    return [
        get("/", brains, services),
        get("/ui/calls", calls, services),
        get("/ui/status", status, services),
        get("/ui/connect", connect, services),
    ]


async def brains(visit: Visit) -> Response:
    async with visit.call("brains") as call:
        items = (await visit.services.brain.list_brains(call))["items"]
    found = [_brain(item) for item in items if isinstance(item, dict)]
    looked = await in_parallel([_look(visit, brain) for brain in found[:_LOOKED_INTO]])
    return visit.page("brains.html", brains=[*looked, *found[_LOOKED_INTO:]])


def _brain(item: JsonObject) -> dict[str, Any]:
    ref = str(item.get("slug") or item.get("id") or "")
    return {
        "ref": ref,
        "name": str(item.get("name") or ref),
        "visibility": str(item.get("visibility") or ""),
        "notes": None,
        "changed": 0,
    }


def _look(visit: Visit, brain: dict[str, Any]) -> Any:
    async def look() -> dict[str, Any]:
        try:
            async with visit.call("brains", brain=brain["ref"]) as call:
                entries = await visit.shelf.entries(call)
        except GatewayError:
            # The brain is shown without a number.
            return brain
        return {**brain, "notes": len(entries), "changed": entries[0].changed if entries else 0}

    return look


async def calls(visit: Visit) -> Response:
    """The calls of this visitor, in this process, since it started."""
    made = visit.services.recent.of(visit.principal.partition)
    shows_all = bool(visit.asked("all"))
    shown = [one for one in made if shows_all or not one.tool.startswith(PAGE)]
    return visit.page("calls.html", calls=shown, shows_all=shows_all)


async def status(visit: Visit) -> Response:
    async with visit.call("status") as call:
        found = await visit.services.status(call)
    return visit.page("status.html", lines=found.lines, report=found.report)


async def connect(visit: Visit) -> Response:
    entries = visit.services.clients
    # Only somebody on this machine is told how a client starts the gateway itself.
    return visit.page("connect.html", clients=entries, is_own=any("stdio" in entry.how for entry in entries))


async def nothing(visit: Visit) -> Response:
    raise GatewayError("not_found", "There is no such page.")
