"""Search over HTTP."""

import time
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from contract.platform.api.call import NO_STORE, in_thread, platform_of
from contract.platform.api.fields import Fields
from contract.platform.brains import Brain
from contract.platform.names import PATH_LIMIT
from contract.platform.search import SORTS, Folders

QUERY_LIMIT: Final = 8192
SCOPES: Final = ("all", "global", "project", "agent")
FOLDERS: Final = 100


async def search_brain(request: Request, brain: Brain) -> Response:
    fields = Fields.of_query(request)
    text = fields.text("q", 1, QUERY_LIMIT)
    top_k = fields.integer("top_k", 1, 100, default=10)
    sort = SORTS[fields.choice("sort", tuple(SORTS), "relevance")]
    folders = folders_of(fields)
    platform = platform_of(request)

    def answered() -> Response:
        began = time.perf_counter()
        found = platform.store.search(brain, text, top_k, sort=sort, folders=folders)
        hits = found.records(brain)
        took_ms = round((time.perf_counter() - began) * 1000)
        answer = {"query": text, "brain_id": brain.id, "hits": hits, "method": found.method, "took_ms": took_ms}
        answer["live"] = True
        return JSONResponse(answer, headers=NO_STORE)

    return await in_thread(platform.searches, answered)


def folders_of(fields: Fields) -> Folders:
    """The folders to search. A scope is exactly one tree of the memory; `all` is no filter at all."""
    scope = fields.choice("scope", SCOPES, "all")
    tree = "" if scope == "all" else f"memory/{scope}/"
    inside = (fields.optional_text("path_prefix", 0, PATH_LIMIT + 1) or "").removeprefix("/")
    exclude, include = (_prefixes(fields, name) for name in ("exclude", "include"))
    return Folders(tuple(filter(None, (tree, inside))), exclude, include)


def _prefixes(fields: Fields, name: str) -> tuple[str, ...]:
    return tuple(prefix.removeprefix("/") for prefix in fields.texts(name, FOLDERS, 1, PATH_LIMIT + 1))
