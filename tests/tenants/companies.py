"""People of two organizations with projects of their own, who share a brain, before platforms of three kinds."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, urlencode

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contract.platform.app import create_app
from contract.platform.store import Store
from gateway.config import signing_keys, token_file
from gateway.surfaces.catalog import SURFACES
from tests.daemons.fake import FakeDaemon, Script, T
from tests.embeddings import offline_embedder
from tests.served import MODERN_HEADERS, listening, messages_of, raw_call, serving

Kind = Literal["embedded", "daemon", "without filters"]
KINDS: Final[tuple[Kind, ...]] = ("embedded", "daemon", "without filters")
BRAIN: Final = "shared"


@dataclass(frozen=True)
class Person:
    name: str
    org: str
    projects: tuple[str, ...]


# The same project name in two organizations, and the same first name: none of them is the same.
ALICE = Person("alice", "acme", ("orion", "nebula"))
BOB = Person("bob", "acme", ("orion",))
CAROL = Person("carol", "globex", ("orion", "vega"))
ALICE_OF_GLOBEX = Person("alice", "globex", ("vega",))
PEOPLE: Final = (ALICE, BOB, CAROL, ALICE_OF_GLOBEX)


@dataclass(frozen=True)
class Company:
    """The gateway they all call."""

    url: str
    tokens: dict[Person, str]
    http: httpx.Client
    upstream: str | None
    called: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each tool was called, by surface."""

    def new_brain(self, name: str) -> str:
        """A brain that all of them may use."""
        if self.upstream is None:
            brain = {"name": name, "slug": name, "visibility": "public"}
            result_of(self.call(ALICE, "memory", "memory_create_brain", brain, brain=""))
            return name
        body = {"brainId": name, "name": name, "slug": name, "visibility": "public"}
        assert self.http.post(f"{self.upstream}/v1/brains", json=body).status_code == 201
        return name

    def call(self, who: Person, surface: str, tool: str, arguments: dict[str, Any], **where: str) -> str:
        """All that is said to a call, as it came: `project` is named in a header, `brain` in the URL."""
        call = raw_call("modern", tool, arguments)
        self.called[surface, tool] += 1
        return self._post(who, surface, call["json"], call["headers"], **where)

    def ask_protocol(self, who: Person, surface: str, method: str, params: dict[str, Any]) -> str:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        headers = {**MODERN_HEADERS, "mcp-method": method, "mcp-name": str(params.get("uri", ""))}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        return self._post(who, surface, body, headers)

    def _post(
        self,
        who: Person,
        surface: str,
        body: dict[str, Any],
        headers: dict[str, str],
        project: str | None = None,
        brain: str = BRAIN,
    ) -> str:
        named = {} if project is None else {"x-project": project, "x-memoai-project": project}
        sent = {**headers, **named, "authorization": f"Bearer {self.tokens[who]}"}
        path = f"/{surface}/mcp/{brain}".rstrip("/")
        answer = self.http.post(f"{self.url}{path}", json=body, headers=sent)
        assert answer.status_code < 500, answer.text
        return json.dumps(messages_of(answer), ensure_ascii=False) if answer.status_code == 200 else answer.text


def result_of(said: str) -> dict[str, Any]:
    """The result of a call that succeeded."""
    result: dict[str, Any] = json.loads(said)[-1]["result"]
    assert not result.get("isError"), said
    return result


@contextmanager
def company(kind: Kind, folder: Path) -> Iterator[Company]:
    path = folder / "tokens.json"
    made = make_tokens(path)
    settings: dict[str, Any] = {"auth": "tokens", "tokens_file": path, "calls_per_second": 1e6, "extra_tools": "on"}
    with _platform(kind, folder) as upstream:
        if upstream is not None:
            keys = folder / "keys.json"
            keys.write_bytes(signing_keys.serialize(signing_keys.begin("ES256")))
            settings |= {"upstream_url": upstream, "upstream_auth": "internal", "upstream_audience": "platform"}
            settings |= {"signing_keys_file": keys, "public_url": "https://brains.example"}
        with (
            serving(folder / "data", None, surfaces=tuple(SURFACES), **settings) as served,
            httpx.Client(trust_env=False, timeout=60) as http,
        ):
            yield Company(served.url, made, http, upstream)


def make_tokens(path: Path) -> dict[Person, str]:
    """A token for each of them, in a file."""
    made = {person: token_file.make_token() for person in PEOPLE}
    with token_file.change(path) as kept:
        kept += [
            token_file.Record(
                id=f"{person.name}-{person.org}",
                sha256=token_file.digest(made[person]),
                name=person.name,
                subject=f"{person.name}@{person.org}",
                scope="brains:admin",
                org=person.org,
                projects=person.projects,
                created=datetime.now(UTC),
            )
            for person in PEOPLE
        ]
    return made


@contextmanager
def _platform(kind: Kind, folder: Path) -> Iterator[str | None]:
    """With one brain that nobody owns, so that all may use it."""
    if kind == "daemon":
        with listening(FakeDaemon(T, llm=Script(tokens=["That is ", "so."])).app()) as url:
            assert httpx.post(f"{url}/v1/brains", json={"brainId": BRAIN}).status_code == 201
            yield url
        return
    store = Store.open(folder / "data", offline_embedder())
    store.create_brain("Shared", BRAIN, "public")
    if kind == "embedded":
        # The gateway opens the file itself.
        store.close()
        yield None
        return
    try:
        with listening(WithoutFilters(create_app(store, token=None))) as url:
            yield url
    finally:
        store.close()


class WithoutFilters:
    """The reference platform as one that leaves no folders out, and does not say where what it found is from."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        unknown = ("exclude", "include")
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        pairs = parse_qsl(scope["query_string"].decode(), keep_blank_values=True)
        query = urlencode([pair for pair in pairs if pair[0] not in unknown]).encode()
        headers = [pair for pair in scope["headers"] if not pair[0].startswith(b"x-brains-")]
        is_ask = scope["path"].endswith("/ask")

        async def receiving() -> Message:
            message = await receive()
            if message["type"] != "http.request" or not scope["path"].endswith(("/ask", "/recall")):
                return message
            body = json.loads(message["body"] or b"{}")
            kept = {key: value for key, value in body.items() if key not in unknown}
            return {**message, "body": json.dumps(kept).encode()}

        async def sending(message: Message) -> None:
            if is_ask and message["type"] == "http.response.body":
                message = {**message, "body": _without_paths(message["body"])}
            await send(message)

        await self._app({**scope, "query_string": query, "headers": headers}, receiving, sending)


def _without_paths(event: bytes) -> bytes:
    lines = event.decode().split("\n")
    for place, line in enumerate(lines):
        if line.startswith("data: ") and '"chunks"' in line:
            frame = json.loads(line.removeprefix("data: "))
            chunks = [{key: chunk[key] for key in chunk if key != "path"} for chunk in frame["chunks"]]
            lines[place] = f"data: {json.dumps({'type': 'retrieve', 'chunks': chunks})}"
    return "\n".join(lines).encode()
