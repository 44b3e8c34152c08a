"""A hosted gateway in small: an OAuth provider, platforms that note all they are sent, and every tool called once."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from joserfc import jwt
from joserfc.jwk import ECKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contract.platform.app import create_app
from contract.platform.ingest import Page
from contract.platform.store import Store
from gateway.app.embedded import convert_in_child
from gateway.operations import scopes
from tests.daemons.fake import FakeDaemon, Script, T
from tests.embeddings import offline_embedder
from tests.served import Era, listening, messages_of, raw_call
from tests.web import web_on

PUBLIC_URL = "https://brains.example"
AUDIENCE = f"{PUBLIC_URL}/mcp"
PLATFORM_AUDIENCE = "https://platform.example"
BRAIN = "notes"
# A literal address, so that no name is looked up; nobody ever connects to it.
PAGE_URL = "http://93.184.216.34/otters"
FILE_NAME = "otters.txt"
SESSION = "talk"
DIALECTS = ("platform", "daemon")


@dataclass(frozen=True)
class Seen:
    """One request as the platform got it."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """The one header of that name; two of them would be one too many."""
        found = [value for key, value in self.headers if key == name]
        assert len(found) <= 1
        return found[0] if found else None

    @property
    def bearer(self) -> str | None:
        said = self.header("authorization")
        return None if said is None else said.removeprefix("Bearer ")

    @property
    def is_probe(self) -> bool:
        """Whether it only finds out which routes there are."""
        return "/ghost-" in self.path

    def everything(self) -> str:
        said = [self.method, self.path, *(f"{name}: {value}" for name, value in self.headers)]
        return "\n".join(said) + "\n" + self.body.decode("utf-8", "replace")


@dataclass
class Recording:
    """An application, and everything it was sent."""

    app: ASGIApp
    url: str = ""
    pages: str = ""
    """A web server with the page, where the platform fetches none itself."""
    seen: list[Seen] = field(default_factory=list)
    answer_with: ASGIApp | None = None
    """What answers instead, while it is set."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        query = scope["query_string"].decode("latin-1")
        path = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        place, parts = len(self.seen), bytearray()
        self.seen.append(Seen(scope["method"], path, headers, b""))

        async def noted() -> Message:
            message = await receive()
            parts.extend(message.get("body", b""))
            self.seen[place] = Seen(scope["method"], path, headers, bytes(parts))
            return message

        await (self.answer_with or self.app)(scope, noted, send)


async def _page(url: str) -> Page:
    return Page(url, "text/plain", b"Otters hold hands while they sleep.")


async def _web(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("Otters hold hands.")


@contextmanager
def recorded_platform(dialect: str, directory: Path, *more: str) -> Iterator[Recording]:
    """A platform of either kind, with the brain that the callers use, and perhaps more."""
    if dialect == "daemon":
        memories: list[dict[str, Any]] = [{"filename": "tea.md", "name": "Tea", "content": "Tea.", "type": "user"}]
        llm = Script(tokens=["Otters ", "sleep."], memories=memories)
        daemon = FakeDaemon(T, llm=llm)
        daemon.state.brains |= {brain: {} for brain in (BRAIN, *more)}
        recording = Recording(daemon.app())
        web = Starlette(routes=[Route("/{name}", _web)])
        with listening(recording) as recording.url, listening(web) as recording.pages, web_on(recording.pages):
            yield recording
        return
    store = Store.open(directory / "platform", offline_embedder())
    try:
        for brain in (BRAIN, *more):
            store.create_brain(brain, brain)
        recording = Recording(create_app(store, token=None, fetch=_page, convert=convert_in_child))
        with listening(recording) as recording.url:
            yield recording
    finally:
        store.close()


@dataclass
class Issuer:
    """An OAuth provider that signs whatever it is asked to."""

    url: str = ""
    key: ECKey = field(default_factory=lambda: ECKey.generate_key("P-256", {"kid": "one"}))

    def app(self) -> Starlette:
        return Starlette(
            routes=[Route("/.well-known/openid-configuration", self._metadata), Route("/jwks", self._published)]
        )

    def token(self, subject: str, scope: str = scopes.ADMIN, **claims: Any) -> str:
        now = int(time.time())
        said = {"iss": self.url, "aud": AUDIENCE, "sub": subject, "scope": scope, "iat": now, "exp": now + 600}
        return jwt.encode({"alg": "ES256", "kid": "one", "typ": "at+jwt"}, said | claims, self.key)

    async def _metadata(self, _request: Request) -> JSONResponse:
        return JSONResponse({"issuer": self.url, "jwks_uri": f"{self.url}/jwks"})

    async def _published(self, _request: Request) -> JSONResponse:
        return JSONResponse({"keys": [self.key.as_dict(private=False)]})


@contextmanager
def issuing() -> Iterator[Issuer]:
    issuer = Issuer()
    with listening(issuer.app()) as issuer.url:
        yield issuer


@dataclass(frozen=True)
class ToolCall:
    """One way to use a tool, and the scope that it needs."""

    tool: str
    scope: str
    arguments: dict[str, Any]

    @property
    def is_on_a_brain(self) -> bool:
        return self.tool not in {"memory_create_brain", "memory_list_brains"}


def every_tool(mark: str = "otters", *, file: str = FILE_NAME, url: str = PAGE_URL) -> list[ToolCall]:
    """All eleven, each in a call that succeeds; `mark` is in all content and queries, and in no name of a brain."""
    said = [{"role": "user", "content": f"I like {mark}."}]
    return [
        ToolCall("memory_remember", scopes.WRITE, {"content": f"# Note\n\nAbout {mark}.", "title": f"On {mark}"}),
        ToolCall("memory_search", scopes.READ, {"query": mark}),
        ToolCall("memory_recall", scopes.READ, {"query": mark}),
        ToolCall("memory_ask", scopes.READ, {"query": f"What about {mark}?"}),
        ToolCall("memory_ingest_file", scopes.WRITE, {"path": file}),
        ToolCall("memory_ingest_url", scopes.WRITE, {"url": url}),
        ToolCall("memory_extract", scopes.WRITE, {"messages": said, "session_id": SESSION}),
        ToolCall("memory_extract", scopes.WRITE, {"messages": said}),
        ToolCall("memory_reflect", scopes.WRITE, {"session_id": SESSION}),
        ToolCall("memory_consolidate", scopes.ADMIN, {}),
        ToolCall("memory_create_brain", scopes.WRITE, {"name": "More notes"}),
        ToolCall("memory_list_brains", scopes.READ, {}),
    ]


@dataclass
class Agent:
    """A bare client with one token, by one era of the protocol."""

    http: httpx.Client
    url: str
    token: str | None = None
    era: Era = "modern"

    def post(self, call: ToolCall, **headers: str) -> httpx.Response:
        request = raw_call(self.era, call.tool, call.arguments)
        request["headers"] |= headers
        if self.token is not None:
            request["headers"]["authorization"] = f"Bearer {self.token}"
        return self.http.post(self.url + (f"/mcp/{BRAIN}" if call.is_on_a_brain else "/mcp"), **request)

    def call(self, call: ToolCall, **headers: str) -> dict[str, Any]:
        """The result, good or bad."""
        return dict(messages_of(self.post(call, **headers))[-1]["result"])

    def good(self, call: ToolCall, **headers: str) -> dict[str, Any]:
        result = self.call(call, **headers)
        assert not result.get("isError"), (call.tool, result)
        return result
