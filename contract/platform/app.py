"""The HTTP application: routes, authentication and problem answers."""

import errno
import hmac
import logging
import math
import sqlite3
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from contract.platform.api import ask, brains, derive, documents, events, ingest, models, search, sessions, stages
from contract.platform.api.call import Endpoint, Platform, in_brain
from contract.platform.convert import Convert
from contract.platform.ingest import Fetch
from contract.platform.llm.client import Chat
from contract.platform.llm.work import Work
from contract.platform.models import ModelEndpoint
from contract.platform.refusal import STATUS_BY_CODE, Refused
from contract.platform.store import Store

log = logging.getLogger(__name__)

BRAIN: Final = "/v1/brains/{brain}"
SESSION: Final = f"{BRAIN}/sessions/{{session}}"
HEADERS_BY_CODE: Final = {
    # A part of a body that is too large may still come, so the connection cannot be used again.
    "payload_too_large": {"connection": "close"},
    "rate_limited": {"retry-after": "5"},
}
FULL: Final = "the disk is full: nothing was stored"


async def healthz(request: Request) -> Response:
    problem = await run_in_threadpool(request.app.state.platform.store.problem)
    return JSONResponse({"ok": True}) if problem is None else JSONResponse({"ok": False, "problem": problem}, 503)


def endpoints(*, with_fetch: bool) -> dict[str, dict[str, Endpoint]]:
    """Every path with its methods. The order within a path is the order of its Allow header."""
    table: dict[str, dict[str, Endpoint]] = {
        "/healthz": {"GET": healthz},
        "/v1/models": {"GET": models.models, "POST": models.try_models},
        "/v1/brains": {"GET": brains.list_brains, "POST": brains.create_brain},
        BRAIN: {"GET": in_brain(brains.get_brain), "DELETE": in_brain(brains.delete_brain)},
        f"{BRAIN}/documents": {
            "GET": in_brain(documents.list_documents),
            "HEAD": in_brain(documents.head_document),
            "POST": in_brain(documents.create_document),
            "PUT": in_brain(documents.put_document),
            "DELETE": in_brain(documents.delete_document),
        },
        f"{BRAIN}/documents/read": {"GET": in_brain(documents.read_document)},
        f"{BRAIN}/documents/stat": {"GET": in_brain(documents.stat_document)},
        f"{BRAIN}/documents/append": {"POST": in_brain(documents.append_document)},
        f"{BRAIN}/documents/rename": {"POST": in_brain(documents.rename_document)},
        f"{BRAIN}/documents/batch-ops": {"POST": in_brain(documents.batch_documents)},
        f"{BRAIN}/documents/ingest/file": {"POST": in_brain(ingest.ingest_file)},
        f"{BRAIN}/search": {"GET": in_brain(search.search_brain)},
        f"{BRAIN}/recall": {"POST": in_brain(sessions.recall_anywhere)},
        f"{BRAIN}/ask": {"POST": in_brain(ask.ask)},
        f"{BRAIN}/events": {"GET": in_brain(events.events)},
        SESSION: {"GET": in_brain(sessions.get_session)},
        f"{SESSION}/messages": {"GET": in_brain(sessions.list_messages), "POST": in_brain(sessions.add_message)},
        f"{SESSION}/close": {"POST": in_brain(sessions.close_session)},
        f"{SESSION}/recall": {"POST": in_brain(sessions.recall)},
        f"{BRAIN}/consolidate": {"POST": in_brain(stages.consolidate)},
        f"{BRAIN}/compile": {"POST": in_brain(stages.compile_brain)},
        f"{BRAIN}/derive": {"POST": in_brain(derive.derive)},
    }
    if with_fetch:
        table[f"{BRAIN}/documents/ingest/url"] = {"POST": in_brain(ingest.ingest_url)}
    return table


def create_app(
    store: Store,
    *,
    token: str | None,
    fetch: Fetch | None = None,
    convert: Convert | None = None,
    llm: ModelEndpoint | None = None,
    read_only: bool = False,
) -> Starlette:
    """The platform as an ASGI application. The caller, who opened the store, must close it.

    Without `fetch` it has no route for pages. Without `convert` it takes text and markdown alone. Without `llm` it
    answers and derives by rule. With `read_only` the model stores nothing that is still to be extracted.
    """
    app = Starlette(
        routes=[Route(path, Methods(table)) for path, table in endpoints(with_fetch=fetch is not None).items()],
        middleware=[] if token is None else [Middleware(BearerToken, token=token)],
        exception_handlers={
            Refused: _refused,
            sqlite3.OperationalError: _failed_to_store,
            OSError: _failed_to_store,
            404: _no_route,
            ClientDisconnect: _gone,
            Exception: _failed,
        },
    )
    # `/search/` is not `/search`: a redirect would be an answer where there is no route.
    app.router.redirect_slashes = False
    chat = None if llm is None else Chat(llm)
    work = None if chat is None or read_only else Work(store.backlog, chat)
    app.state.platform = Platform(store, fetch, convert, chat, work)
    return app


class Methods:
    """One path: its endpoint by method, or 405 with a complete Allow header."""

    def __init__(self, table: Mapping[str, Endpoint]) -> None:
        self._table = table

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        endpoint = self._table.get(request.method)
        if endpoint is None:
            detail = f"no route for {request.method} {request.scope['path']}"
            response = problem("method_not_allowed", detail, {"allow": ", ".join(self._table)})
        else:
            response = await endpoint(request)
        await response(scope, receive, send)


class BearerToken:
    """Lets a request through when it carries the token; the health check needs none."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = None
        if scope["type"] == "http" and scope["path"] != "/healthz":
            refusal = self._refusal(Request(scope))
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not given.strip():
            return problem("unauthorized", "a bearer token is required", {"www-authenticate": "Bearer"})
        if not hmac.compare_digest(given.strip().encode("latin-1"), self._token):
            return problem("forbidden", "this token does not give access")
        return None


def problem(code: str, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    status = STATUS_BY_CODE[code]
    body = {"status": status, "title": HTTPStatus(status).phrase, "detail": detail, "code": code}
    return JSONResponse(body, status_code=status, headers=headers, media_type="application/problem+json")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    told = {} if error.retry_after is None else {"retry-after": str(math.ceil(error.retry_after))}
    return problem(error.code, error.detail, {**HEADERS_BY_CODE.get(error.code, {}), **told})


async def _failed_to_store(request: Request, error: Exception) -> Response:
    """Reports a full disk as such, for the database and for a file that is uploaded. Other errors pass."""
    full = errno.ENOSPC in error.args[:1] or getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
    if not full:
        raise error
    log.error(FULL)
    return problem("insufficient_storage", FULL)


async def _no_route(request: Request, error: Exception) -> Response:
    return problem("not_found", f"no route for {request.method} {request.scope['path']}")


async def _gone(request: Request, error: Exception) -> Response:
    # The client has left. Without any answer the server would log a failure of ours.
    return Response(status_code=400)


async def _failed(request: Request, error: Exception) -> Response:
    return problem("internal_error", "the platform failed to answer; its log says why")
