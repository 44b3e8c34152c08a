"""A gateway with every surface in front of one platform of each dialect, and two people who may write there."""

import asyncio
import itertools
import json
import re
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx

from contract.platform.app import create_app
from contract.platform.store import Store
from gateway.config import token_file
from gateway.surfaces.catalog import SURFACES
from tests.daemons.fake import FakeDaemon, Script, T
from tests.embeddings import offline_embedder
from tests.served import listening, messages_of, raw_call, serving

T_ = TypeVar("T_")
PROJECT = "apollo"
PEOPLE = ("ann", "ben")
DIALECTS = ("platform", "daemon")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(\+00:00|Z)")


@dataclass(frozen=True)
class Said:
    """What a tool answered."""

    result: dict[str, Any]

    @property
    def is_error(self) -> bool:
        return bool(self.result.get("isError"))

    @property
    def everything(self) -> str:
        return json.dumps(self.result, ensure_ascii=False)

    @property
    def text(self) -> str:
        return str(self.result["content"][0]["text"])

    @property
    def structured(self) -> dict[str, Any]:
        return dict(self.result["structuredContent"])


@dataclass
class World:
    url: str
    upstream: str
    tokens: dict[str, str]
    loop: asyncio.AbstractEventLoop
    http: httpx.AsyncClient
    dialect: str
    _names: Iterator[int] = field(default_factory=itertools.count)

    def run(self, work: Coroutine[Any, Any, T_]) -> T_:
        return self.loop.run_until_complete(work)

    async def new_brain(self) -> str:
        name = f"law-{next(self._names)}"
        said = {"brainId": name} if self.dialect == "daemon" else {"name": name, "slug": name}
        assert (await self.http.post(f"{self.upstream}/v1/brains", json=said)).status_code == 201
        return name

    async def call(self, brain: str, who: str, surface: str, tool: str, arguments: dict[str, Any]) -> Said:
        call = raw_call("modern", tool, arguments)
        call["headers"] |= {"authorization": f"Bearer {self.tokens[who]}", "x-memoai-project": PROJECT}
        if surface != "memo":
            call["headers"]["x-project"] = PROJECT
        answer = await self.http.post(f"{self.url}/{surface}/mcp/{brain}", **call)
        assert answer.status_code == 200, answer.text
        return Said(messages_of(answer)[-1]["result"])

    async def paths(self, brain: str) -> list[str]:
        asked = {"recursive": "true", "include_generated": "true"}
        listed = await self.http.get(f"{self.upstream}/v1/brains/{brain}/documents", params=asked)
        return sorted(item["path"] for item in listed.json()["items"] if not item["is_dir"])

    async def read(self, brain: str, path: str) -> bytes:
        answer = await self.http.get(f"{self.upstream}/v1/brains/{brain}/documents/read", params={"path": path})
        assert answer.status_code == 200, answer.text
        return answer.content

    async def write(self, brain: str, path: str, body: bytes) -> None:
        answer = await self.http.put(
            f"{self.upstream}/v1/brains/{brain}/documents", params={"path": path}, content=body
        )
        assert answer.status_code == 204, answer.text

    async def notes(self, brain: str) -> dict[str, str]:
        """All that is kept in a brain, but for counters; without the times, which differ from run to run."""
        kept = [path for path in await self.paths(brain) if "/_hits/" not in path]
        return {path: _TIME.sub("<time>", (await self.read(brain, path)).decode()) for path in kept}


@contextmanager
def world(dialect: str, folder: Path) -> Iterator[World]:
    """Both people are one tenant's, so that they share its brains; private is what they do not share."""
    made = {who: token_file.make_token() for who in PEOPLE}
    path = folder / "tokens.json"
    records = [
        token_file.Record(
            id=who,
            sha256=token_file.digest(made[who]),
            name=who,
            subject=who,
            scope="brains:admin",
            projects=(PROJECT,),
            created="2026-01-01T00:00:00Z",  # type: ignore[arg-type]  # read as a time
        )
        for who in PEOPLE
    ]
    with token_file.change(path) as kept:
        kept += records
    with _platform(dialect, folder) as upstream:
        settings = {"auth": "tokens", "tokens_file": path, "single_tenant": True, "calls_per_second": 1e6}
        with serving(folder / "data", None, upstream_url=upstream, surfaces=tuple(SURFACES), **settings) as served:
            loop = asyncio.new_event_loop()
            http = httpx.AsyncClient(trust_env=False, timeout=60)
            try:
                yield World(served.url, upstream, made, loop, http, dialect)
            finally:
                loop.run_until_complete(http.aclose())
                loop.close()


@contextmanager
def _platform(dialect: str, folder: Path) -> Iterator[str]:
    if dialect == "daemon":
        with listening(FakeDaemon(T, llm=Script(tokens=["That is ", "so."])).app()) as url:
            yield url
        return
    store = Store.open(folder / "store", offline_embedder())
    try:
        with listening(create_app(store, token=None)) as url:
            yield url
    finally:
        store.close()
