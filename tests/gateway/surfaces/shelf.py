"""A brain whose notes can be looked at and edited by hand, behind the gateway's back."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastmcp import Client

from contract.platform.app import create_app
from contract.platform.store import Store
from tests.daemons.fake import FakeDaemon, T
from tests.gateway.conftest import structured, text_of
from tests.gateway.requests import Counted
from tests.served import Served, listening, serving

BRAIN = "shelf"


@dataclass
class Shelf:
    """A gateway in front of a platform that anybody may write to."""

    served: Served
    upstream: str
    counted: Counted
    http: httpx.Client

    def documents(self, path: str = "") -> str:
        return f"{self.upstream}/v1/brains/{BRAIN}/documents{path}"

    def put(self, path: str, text: str | bytes) -> None:
        body = text.encode() if isinstance(text, str) else text
        self.http.put(self.documents(), params={"path": path}, content=body).raise_for_status()

    def read(self, path: str) -> str:
        found = self.http.get(self.documents("/read"), params={"path": path}).raise_for_status()
        return found.content.decode()

    def paths(self, folder: str) -> list[str]:
        """What lies in a folder and below it."""
        listed = self.http.get(self.documents(), params={"dir": folder, "recursive": "true"}).raise_for_status()
        items = listed.json()["items"]
        return sorted(item["path"].removeprefix("/") for item in items if not item.get("is_dir"))

    @asynccontextmanager
    async def client(self, surface: str, **headers: str) -> AsyncIterator["Agent"]:
        async with self.served.over_http("modern", f"/{surface}/mcp/{BRAIN}", headers) as client:
            yield Agent(client)


@dataclass
class Agent:
    client: Client[Any]

    async def good(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments, raise_on_error=False)
        assert not result.is_error, text_of(result)
        return structured(result)


@contextmanager
def platform(kind: str, folder: Path) -> Iterator[Counted]:
    if kind == "daemon":
        yield Counted(FakeDaemon(T).app())
        return
    store = Store.open(folder / "store")
    try:
        yield Counted(create_app(store, token=None))
    finally:
        store.close()


@contextmanager
def shelf_on(kind: str, folder: Path, **settings: Any) -> Iterator[Shelf]:
    brain = {"name": BRAIN, "slug": BRAIN, "brainId": BRAIN, "visibility": "private"}
    with (
        platform(kind, folder) as counted,
        listening(counted) as upstream,
        serving(folder, None, upstream_url=upstream, **settings) as served,
        httpx.Client(trust_env=False) as http,
    ):
        http.post(f"{upstream}/v1/brains", json=brain).raise_for_status()
        yield Shelf(served, upstream, counted, http)
