"""A stateful fake of the brain daemons: the routes of `memory serve`, in memory, with the habits of T, Y or G."""

import asyncio
import re
import threading
from dataclasses import dataclass, field
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from tests.daemons import documents, ingest, retrieval, stages
from tests.daemons.answers import Refused, no_route, problem, read_json, text_of
from tests.daemons.notes import Files
from tests.daemons.script import Script
from tests.daemons.state import Handler, Page, State
from tests.daemons.traits import G, T, Traits, Y

__all__ = ["BRAIN", "ROUTES", "FakeDaemon", "G", "Script", "T", "Traits", "Y"]

BRAIN = "/v1/brains/{brain}"


async def list_brains(state: State, _request: Request, _brain: str) -> Response:
    # A brain whose name climbs out of the brains' directory exists, but is in no list.
    listed = sorted(brain for brain in state.brains if not brain.startswith("../"))
    return JSONResponse({"items": [record(state, brain) for brain in listed]})


def record(state: State, brain: str) -> dict[str, str]:
    return {"brainId": brain} | ({} if state.traits.created is None else {"created": state.traits.created})


async def create_brain(state: State, request: Request, _brain: str) -> Response:
    body = await read_json(request, state.traits.caps.small, state.traits)
    brain = text_of(body, "brainId")
    if not brain:
        raise Refused(400, "brainId required")
    if state.traits.checks_brain_ids and not re.fullmatch(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,127}", brain):
        raise Refused(400, f"invalid brainId: {brain}")
    if brain in state.brains:
        raise Refused(409, state.traits.brain_conflict.format(brain=brain))
    state.brains[brain] = {}
    said = {"description": body["description"]} if isinstance(body.get("description"), str) else {}
    return JSONResponse({**record(state, brain), **said}, 201)


async def get_brain(state: State, _request: Request, brain: str) -> Response:
    state.files(brain)
    return JSONResponse(record(state, brain))


async def delete_brain(state: State, request: Request, brain: str) -> Response:
    if request.headers.get("x-confirm-delete") != "yes":
        raise Refused(428, "delete brain requires X-Confirm-Delete: yes header")
    state.files(brain)
    del state.brains[brain]
    return Response(status_code=204)


async def health(_state: State, _request: Request, _brain: str) -> Response:
    return JSONResponse({"ok": True})


async def version(state: State, _request: Request, _brain: str) -> Response:
    return JSONResponse({"version": state.traits.version})


ROUTES: dict[str, Handler] = {
    "GET /healthz": health,
    "GET /version": version,
    "GET /v1/brains": list_brains,
    "POST /v1/brains": create_brain,
    f"GET {BRAIN}": get_brain,
    f"DELETE {BRAIN}": delete_brain,
    f"GET {BRAIN}/documents/read": documents.read,
    f"GET {BRAIN}/documents/stat": documents.stat,
    f"GET {BRAIN}/documents": documents.list_,
    f"HEAD {BRAIN}/documents": documents.head,
    f"PUT {BRAIN}/documents": documents.put,
    f"DELETE {BRAIN}/documents": documents.delete,
    f"POST {BRAIN}/documents/append": documents.append,
    f"POST {BRAIN}/documents/rename": documents.rename,
    f"POST {BRAIN}/documents/batch-ops": documents.batch,
    f"POST {BRAIN}/search": retrieval.search_route,
    f"POST {BRAIN}/ask": retrieval.ask_route,
    f"POST {BRAIN}/recall": retrieval.recall_route,
    f"POST {BRAIN}/ingest/file": ingest.ingest_file,
    f"POST {BRAIN}/ingest/url": ingest.ingest_url,
    f"POST {BRAIN}/remember": stages.remember,
    f"POST {BRAIN}/extract": stages.extract,
    f"POST {BRAIN}/reflect": stages.reflect,
    f"POST {BRAIN}/consolidate": stages.consolidate,
    f"GET {BRAIN}/events": retrieval.events_route,
}


@dataclass
class FakeDaemon:
    """A daemon for one test; its state may be looked at and changed while it runs."""

    traits: Traits = T
    llm: Script | None = field(default=None, kw_only=True)
    token: str | None = field(default=None, kw_only=True)
    pages: dict[str, Page] | None = field(default=None, kw_only=True)
    host_files: dict[str, bytes] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.state = State(self.traits, self.llm)
        if self.pages is not None:
            self.state.pages = self.pages
        if self.host_files is not None:
            self.state.host_files = self.host_files
        self.state.put_collisions = self.traits.put_collisions
        self.requests: list[str] = []
        self.absent: set[str] = set() if self.traits.version else {"GET /version"}
        self.fail: dict[str, int] = {}
        self.delay = 0.0
        self.retry_after = "1"
        self.blocking = threading.Event()
        """Set while an ingest keeps everyone else waiting."""
        self._turn = asyncio.Lock()

    @property
    def cut_frames(self) -> int | None:
        return self.state.cut_frames

    @cut_frames.setter
    def cut_frames(self, frames: int | None) -> None:
        self.state.cut_frames = frames

    @property
    def put_collisions(self) -> int:
        return self.state.put_collisions

    @put_collisions.setter
    def put_collisions(self, puts: int) -> None:
        self.state.put_collisions = puts

    @property
    def brains(self) -> dict[str, Files]:
        return self.state.brains

    def without(self, *routes: str) -> "FakeDaemon":
        """The routes are gone, as in an older version."""
        unknown = set(routes) - ROUTES.keys()
        assert not unknown, f"no such route: {unknown}"
        self.absent.update(routes)
        return self

    def with_route(self, *routes: str) -> "FakeDaemon":
        """The routes are back, as after an upgrade."""
        self.absent.difference_update(routes)
        return self

    def app(self) -> Starlette:
        """A server for the daemon; a new one may follow it, as after a restart, with the same brains."""
        self._turn = asyncio.Lock()
        application = Starlette()
        application.mount("/", self._serve)
        return application

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        path = raw.split(b"?")[0].decode("ascii", "replace")
        self.requests.append(f"{request.method} {unquote(path)}")
        response = await self._answer(request, path)
        await response(scope, receive, send)

    async def _answer(self, request: Request, path: str) -> Response:
        name, brain, allowed = self._route(request.method, path)
        blocks = self.traits.block_seconds > 0 and name.startswith(f"POST {BRAIN}/ingest/")
        # A daemon that ingests answers nobody else: the lock stands for its one thread.
        async with self._turn:
            if blocks:
                self.blocking.set()
                try:
                    return await self._handle(request, path, name, brain, allowed)
                finally:
                    self.blocking.clear()
        return await self._handle(request, path, name, brain, allowed)

    async def _handle(self, request: Request, path: str, name: str, brain: str, allowed: list[str]) -> Response:
        await asyncio.sleep(self.delay)
        if (refused := self._unauthorized(request, name)) is not None:
            return refused
        if (status := self.fail.get(name)) is not None:
            headers = {"retry-after": self.retry_after} if status in {429, 503} else None
            return problem(status, f"{name} is told to fail", self.traits, headers)
        if not name:
            if self.traits.redirects_slash and path.endswith("/") and self._route(request.method, path[:-1])[0]:
                return RedirectResponse(path[:-1], 307)
            return no_route(request.method, path, allowed, self.traits)
        cap = self.traits.caps.request
        if cap is not None and int(request.headers.get("content-length") or 0) > cap:
            return problem(413, f"body exceeds {cap} bytes", self.traits)
        try:
            return await ROUTES[name](self.state, request, brain)
        except Refused as refused_:
            return problem(refused_.status, refused_.detail, self.traits)

    def _unauthorized(self, request: Request, name: str) -> Response | None:
        given = request.headers.get("authorization", "")
        if not self.token or name == "GET /healthz" or given == f"Bearer {self.token}":
            return None
        if not given:
            return problem(401, "missing Authorization header", self.traits)
        scheme, _, token = given.partition(" ")
        if not self.traits.exact_bearer and scheme.lower() == "bearer" and token == self.token:
            return None
        return problem(403, "invalid bearer token", self.traits)

    def _route(self, method: str, path: str) -> tuple[str, str, list[str]]:
        """The name of the route, the brain in the path, and the methods the path has."""
        shown = path if self.traits.encoded_slash else unquote(path)
        match = re.fullmatch(r"/v1/brains/([^/]+)(/.*)?", shown)
        brain = unquote(match.group(1)) if match else ""
        template = BRAIN + (match.group(2) or "") if match else shown
        names = [name for name in ROUTES if name.partition(" ")[2] == template and name not in self.absent]
        if f"{method} {template}" in names:
            return f"{method} {template}", brain, []
        if method == "HEAD" and self.traits.head_of_get and f"GET {template}" in names:
            return f"GET {template}", brain, []
        return "", brain, [name.partition(" ")[0] for name in names]
