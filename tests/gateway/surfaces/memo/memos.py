"""Memos for tests: calls of both tools, and a desk where what lies in the brain can be seen and changed."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
from fastmcp import Client
from fastmcp.client.client import CallToolResult

from contract.platform.app import create_app
from contract.platform.store import Store
from tests.daemons.fake import FakeDaemon
from tests.gateway.conftest import text_of
from tests.gateway.requests import Counted
from tests.served import Served, listening, serving

PROJECT = "my-project"
# The contract's own examples.
TIMEOUT = "Fixed DuckDB timeout by increasing pool_size to 20. This solved the connection leak issue."
RELEASE = "Always release DuckDB connections using context manager. DuckDB uses exclusive file locks."
METADATA = {"file": "src/core/store.py", "severity": "high"}
EXAMPLE: dict[str, Any] = {"content": TIMEOUT, "source": "manual", "metadata": METADATA}
SAID = "Memo recorded successfully: "


def memos_of(result: CallToolResult) -> list[dict[str, Any]]:
    assert not result.is_error, text_of(result)
    assert result.structured_content is None
    return list(json.loads(text_of(result)))


def id_of(result: CallToolResult) -> str:
    assert not result.is_error, text_of(result)
    assert result.structured_content is None
    assert text_of(result).startswith(SAID)
    return text_of(result).removeprefix(SAID)


def error_of(result: CallToolResult) -> dict[str, Any]:
    """The error of a result: text that holds it as JSON, and nothing besides."""
    assert result.is_error, text_of(result)
    assert result.structured_content is None
    (key, error), *others = json.loads(text_of(result)).items()
    assert (key, others) == ("error", [])
    return dict(error)


@dataclass
class Desk:
    """A brain behind a gateway, reached by both ends: as an agent does, and as a person with an editor."""

    served: Served
    upstream: str
    counted: Counted
    name: str
    headers: dict[str, str] = field(default_factory=lambda: {"X-MemoAI-Project": PROJECT})
    brain: str = ""

    async def __call__(self, tool: str, **arguments: Any) -> CallToolResult:
        async with self.client() as client:
            result: CallToolResult = await client.call_tool(f"memoai_memo_{tool}", arguments, raise_on_error=False)
        return result

    def client(self, surface: str = "memo") -> Client[Any]:
        return self.served.over_http("modern", f"/{surface}/mcp/{self.brain}", self.headers)

    async def record(self, content: str, **arguments: Any) -> str:
        return id_of(await self("record", content=content, **arguments))

    async def search(self, query: str, **arguments: Any) -> list[dict[str, Any]]:
        return memos_of(await self("search", query=query, **arguments))

    async def put(self, path: str, text: str | bytes) -> None:
        body = text if isinstance(text, bytes) else text.encode()
        answer = await self._document("PUT", path, content=body, headers={"content-type": "application/octet-stream"})
        assert answer.status_code < 300, answer.text

    async def get(self, path: str) -> str:
        answer = await self._document("GET", path, "/read")
        assert answer.status_code == 200, answer.text
        return answer.content.decode()

    async def paths(self) -> list[str]:
        answer = await self._document("GET", "", params={"dir": "", "recursive": "true", "include_generated": "true"})
        return sorted(item["path"] for item in answer.json()["items"] if not item["is_dir"])

    async def notes(self) -> dict[str, str]:
        """All that is in the brain, by path."""
        return {path: await self.get(path) for path in await self.paths() if not path.startswith("_")}

    async def _document(self, method: str, path: str, route: str = "", **request: Any) -> httpx.Response:
        request.setdefault("params", {"path": path})
        async with httpx.AsyncClient(trust_env=False) as http:
            return await http.request(method, f"{self.upstream}/v1/brains/{self.brain}/documents{route}", **request)


def path_of(memo_id: str, project: str = PROJECT) -> str:
    return f"memory/project/{project}/memo/{memo_id}.md"


@contextmanager
def desk(kind: str, folder: Path, daemon: FakeDaemon | None = None, **settings: Any) -> Iterator[Desk]:
    """With the reference platform, or with the fake of a daemon."""
    with ExitStack() as stack:
        if kind == "platform":
            store = Store.open(folder / "store")
            stack.callback(store.close)
            counted = Counted(create_app(store, token=None, fetch=None))
        else:
            counted = Counted((daemon or FakeDaemon()).app())
        upstream = stack.enter_context(listening(counted))
        served = stack.enter_context(serving(folder / "data", None, upstream_url=upstream, **settings))
        yield Desk(served, upstream, counted, kind)


async def with_brain(desk: Desk) -> AsyncIterator[Desk]:
    """The desk with a brain of its own, of which the gateway knows what it needs to."""
    slug = f"b-{uuid4().hex[:12]}"
    async with httpx.AsyncClient(trust_env=False) as http:
        body = {"name": slug, "slug": slug, "visibility": "private", "brainId": slug}
        made = (await http.post(f"{desk.upstream}/v1/brains", json=body)).json()
    desk.brain = made.get("id") or made["brainId"]
    await desk.search("anything")
    yield desk
