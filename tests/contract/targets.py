"""Targets for the harness: the reference platform as a run sees it, and cases to run."""

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from contract.case import Case
from contract.outcome import Result, Run
from contract.platform.app import create_app
from contract.platform.ingest import FetchRefused, Page
from contract.platform.store import Store
from contract.runner import run
from contract.targets import HttpTarget, client_for
from gateway.app.embedded import convert_in_child
from tests.embeddings import offline_embedder

TOKEN = "a-test-token"
# A public address and no name: nobody looks it up, and the platforms of tests have the page themselves.
PAGE = "https://93.184.216.34/tea"
PAGE_TYPE, PAGE_BODY = "text/html", b"<h1>Tea</h1><p>Leaves, and water.</p>"


def page_app() -> ASGIApp:
    """A web server that has the page."""

    async def page(_request: Request) -> Response:
        return Response(PAGE_BODY, media_type=PAGE_TYPE)

    return Starlette(routes=[Route("/tea", page)])


async def fetch(url: str) -> Page:
    if url != PAGE:
        raise FetchRefused("fetch_blocked")
    return Page(url, PAGE_TYPE, PAGE_BODY)


@contextmanager
def reference_app(token: str | None = TOKEN) -> Iterator[ASGIApp]:
    """The reference platform with everything it can."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder), offline_embedder())
        try:
            yield create_app(store, token=token, fetch=fetch, convert=convert_in_child)
        finally:
            store.close()


def check(
    url: str,
    cases: Sequence[Case],
    *,
    transport: httpx.AsyncBaseTransport | None = None,
    token: str | None = TOKEN,
    seconds: float = 30,
) -> Run[HttpTarget]:
    async def checked() -> Run[HttpTarget]:
        async with client_for(url, transport) as client:
            return await run(HttpTarget(url, client, token, PAGE, seconds), cases)

    return asyncio.run(checked())


def check_app(app: ASGIApp, cases: Sequence[Case], token: str | None = TOKEN) -> Run[HttpTarget]:
    """The same without a socket between."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return check("http://platform.test", cases, transport=transport, token=token)


def knowable(app: ASGIApp) -> ASGIApp:
    """The application, with just so much of a platform that a run begins."""

    async def known(scope: Scope, receive: Receive, send: Send) -> None:
        if (scope["method"], scope["path"]) == ("GET", "/v1/brains/brn_1/documents"):
            await JSONResponse({"items": []})(scope, receive, send)
        elif scope["path"] != "/v1/brains":
            await app(scope, receive, send)
        elif scope["method"] == "GET":
            await JSONResponse({"items": []})(scope, receive, send)
        else:
            await JSONResponse({"id": "brn_1"}, 201)(scope, receive, send)

    return known


def failures(done: Run[Any]) -> dict[str, Result]:
    return {result.case.id: result for result in done.results if result.outcome == "failed"}


def case_of(steps: str, **more: Any) -> Case:
    """A case with these steps, in YAML."""
    head = {"id": "http/test/case", "what": "A case of a test.", "requirement": "must", "source": "openapi info"}
    kind = {"area": "documents", "dialect": "both", "steps": yaml.safe_load(steps)}
    return Case.model_validate({**head, **kind, **more})
