"""Every tool that writes, of every surface, while the provider of models is in trouble; and what is there later."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
from fastmcp import Client
from fastmcp.client.client import CallToolResult
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from contract.platform.llm import backlog, work
from contract.platform.llm.client import Chat, Deadlines
from contract.platform.meaning import remote
from contract.platform.models import ModelEndpoint
from contract.platform.store import Store
from gateway.operations.errors import CATALOGUE
from tests.faults.matrix import CRASHED, code_of, text_of
from tests.faults.provider import KEY, WORTH, Provider, Trouble, provider
from tests.faults.worlds import PlatformWorld
from tests.served import Served, listening, serving
from tests.web import web_on

BRAIN = "main"
SURFACES = ("memory", "kv", "memo", "team", "being")
PATIENT = Deadlines()
# Whoever is kept waiting gives up soon.
QUICK = Deadlines(connect=0.3, first=0.3, idle=0.3, whole=0.3)
SETTLED_SECONDS = 60.0

Documents = dict[str, bytes]


@dataclass(frozen=True)
class Write:
    """A call that writes, and the documents that hold it when it is stored once."""

    surface: str
    tool: str
    arguments: dict[str, Any]
    paths: str
    """A pattern of where it is kept."""
    says: str
    count: int = 1
    lasts: bool = True
    """Whether no later call of the same round takes it away again."""

    def copies(self, documents: Documents) -> int:
        return sum(
            re.fullmatch(self.paths, path) is not None and self.says.encode() in body
            for path, body in documents.items()
        )


def said(n: int) -> list[dict[str, str]]:
    contents = [f"{WORTH} {n} is leaking.", "Which seal is it?", f"I prefer the upper seal of house {n}."]
    return [{"role": role, "content": text} for role, text in zip(("user", "assistant", "user"), contents, strict=True)]


def scene(n: int, deed: str) -> dict[str, Any]:
    return {"action": f"Rin {deed} in house {n}.", "actors": ["Rin"], "when": ["2026-04-14"]}


_KV, _TEAM, _BEING = "memory/global/kv/default/", "memory/global/team/", "memory/global/being/"
_NODES = rf"{_BEING}nodes/[^/]+/[0-9a-f-]+\.md"


def of_memory(n: int) -> Iterator[Write]:
    """The house number tells rounds apart."""
    house, transcript = f"house {n}.", {"messages": said(n)}
    yield Write(
        "memory", "memory_remember", {"content": f"An automobile stands at {house}"}, r"memory/global/an-.*", house
    )
    yield Write("memory", "memory_ingest_file", {"path": f"ship{n}.md"}, r"raw/documents/ship.*", house)
    yield Write("memory", "memory_ingest_url", {"url": f"https://example.com/page{n}"}, r"raw/documents/page.*", house)
    yield Write("memory", "memory_extract", transcript, r"raw/documents/transcript-.*", f"seal of {house}")
    session = {**transcript, "session_id": f"s{n}"}
    yield Write("memory", "memory_extract", session, rf"sessions/s{n}/\d+\.md", "", count=len(said(n)))
    yield Write("memory", "memory_reflect", {"session_id": f"s{n}"}, rf"reflections/s{n}\.md", "Outcome")
    yield Write("memory", "memory_consolidate", {}, r"wiki/_overview\.md", house)


def of_others(n: int) -> Iterator[Write]:
    house, key = f"house {n}.", f"k{n}"
    first, second = {"key": key, "value": f"One of {house}"}, {"key": key, "value": f"Two of {house}"}
    yield Write("kv", "jettson_memory_put", first, rf"{_KV}{key}\.md", "One", lasts=False)
    yield Write(
        "kv", "jettson_memory_put", second, rf"{_KV}({key}\.md|_versions/{key}-.*)", house, count=2, lasts=False
    )
    lamp = {"key": f"l{n}", "value": f"The lamp of {house}"}
    yield Write("kv", "jettson_memory_put", lamp, rf"{_KV}l{n}\.md", house)
    yield Write("kv", "jettson_memory_delete", {"key": key}, rf"{_KV}({key}\.md|_deleted/{key}-.*)", "Two")
    yield Write(
        "memo", "memoai_memo_record", {"content": f"Fixed the door of {house}"}, r"memory/project/.*/memo/.*", house
    )
    entry = {"content": f"We paint {house}", "type": "decision", "scope": "global"}
    yield Write("team", "memory_remember", entry, rf"{_TEAM}.*", f"paint {house}")
    yield Write("team", "memory_remember", {**entry, "key": key}, rf"{_TEAM}{key}\.md", house, lasts=False)
    yield Write("team", "memory_forget", {"scope": "global", "key": key}, rf"{_TEAM}{key}\.md", "", count=0)
    told = {"scenes": [scene(n, "baked"), scene(n, "sang")]}
    yield Write("being", "update_notes", told, rf"{_BEING}scenes/[0-9a-f-]+\.md", f"in {house}", count=2, lasts=False)
    moved = {"messages": [{"role": "user", "content": f"I moved to {house}"}]}
    yield Write("being", "trigger_patrol", moved, _NODES, f"to {house}")
    diary = {"target": "diary", "action": "append", "content": f"A day in {house}"}
    yield Write("being", "update_memory", diary, rf"{_BEING}diary/.*", house)
    friend = {"entity_name": f"Ken{n}", "relation_type": "friend", "action": "upsert", "content": f"He owns {house}"}
    yield Write("being", "update_relation", friend, rf"{_BEING}relations/.*", house)


@dataclass
class Outcome:
    """What became of all writes under one trouble, and what was wrong with them."""

    trouble: str
    writes: int = 0
    once: int = 0
    tools: set[tuple[str, str]] = field(default_factory=set)
    reads: int = 0
    chunks: int = 0
    """Pieces of notes that had no vector when the trouble was over, and have one now."""
    derived: int = 0
    complaints: list[str] = field(default_factory=list)


@dataclass
class Stage:
    """A gateway with an embedded brain, its provider, a look at what is stored, and clients of every surface."""

    served: Served
    provider: Provider
    world: PlatformWorld
    chats: list[Chat]
    clients: dict[str, Client[Any]]
    outcome: Outcome

    async def call(self, surface: str, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        async with asyncio.timeout(60):
            return await self.clients[surface].call_tool(tool, arguments, raise_on_error=False)

    def documents(self) -> Documents:
        return self.world.documents(BRAIN)

    async def embedding(self) -> dict[str, Any]:
        """How far the vectors are, as anybody may know."""
        async with httpx.AsyncClient(trust_env=False) as http:
            said = (await http.get(f"{self.served.url}/readyz")).json()
        return dict(said["models"]["embedding"])

    async def is_settled(self, check: Callable[[], Awaitable[bool]]) -> bool:
        """Whether it comes to be, before long."""
        ends = time.monotonic() + SETTLED_SECONDS
        while not await check():
            if time.monotonic() > ends:
                return False
            await asyncio.sleep(0.05)
        return True

    def complain(self, what: str) -> None:
        self.outcome.complaints.append(f"{self.outcome.trouble}: {what}")

    async def write(self, write: Write) -> CallToolResult:
        """Make a write, and compare what its caller is told with what is there."""
        result = await self.call(write.surface, write.tool, write.arguments)
        there = write.copies(self.documents())
        self.outcome.writes += 1
        self.outcome.tools.add((write.surface, write.tool))
        self.outcome.once += there == write.count
        if result.is_error or CRASHED in text_of(result):
            self.complain(f"{write.tool} failed: {text_of(result)}")
        if there != write.count:
            self.complain(f"{write.tool} left {there} instead of {write.count}")
        return result

    async def round(self, n: int) -> list[Write]:
        """Every write once, those that need what others answered last; and then every way to find things."""
        made = [*of_memory(n), *of_others(n)]
        ids: list[str] = []
        for write in made:
            result = await self.write(write)
            if write.tool == "update_notes":
                ids = json.loads(text_of(result))["scene_ids"]
            if write.tool in {"memory_ingest_file", "memory_ingest_url"}:
                self.compare_count(write.tool, result)
        merged = {"node_ids": ",".join(ids), "summary": f"Rin was happy in house {n}."}
        made.append(Write("being", "merge_nodes", merged, _NODES, f"happy in house {n}."))
        await self.write(made[-1])
        await self.create_brain(n)
        if self.world.messages(BRAIN, f"s{n}") != [(one["role"], one["content"]) for one in said(n)]:
            self.complain(f"the messages of session s{n} are others than were said")
        return made

    def compare_count(self, tool: str, result: CallToolResult) -> None:
        told = (result.structured_content or {}).get("embedded_count", 0)
        if self.provider.trouble is not None and told:
            self.complain(f"{tool} says that {told} chunks are embedded, and none is")

    async def create_brain(self, n: int) -> None:
        result = await self.call("brains", "memory_create_brain", {"name": f"House {n}"})
        there = sum(slug.startswith(f"house-{n}") for slug in self.world.brains())
        self.outcome.writes += 1
        self.outcome.tools.add(("memory", "memory_create_brain"))
        self.outcome.once += there == 1
        if result.is_error or there != 1:
            self.complain(f"memory_create_brain made {there}: {text_of(result)}")

    async def read(self, n: int) -> None:
        """Whatever is asked for by its words is found."""
        for surface, tool, query, wanted in (
            ("memory", "memory_search", f"automobile house {n}", f"automobile stands at house {n}"),
            ("memory", "memory_recall", f"pump of house {n}", f"{WORTH} {n}"),
            ("kv", "jettson_memory_search", f"lamp of house {n}", f"lamp of house {n}"),
            ("memo", "memoai_memo_search", f"door of house {n}", f"door of house {n}"),
            ("team", "memory_recall", f"paint house {n}", f"paint house {n}"),
            ("being", "search_memory", f"happy in house {n}", f"happy in house {n}"),
        ):
            result = await self.call(surface, tool, {"query": query})
            self.outcome.reads += 1
            if result.is_error or wanted not in text_of(result):
                self.complain(f"{tool} did not find what was stored: {text_of(result)}")
            method = (result.structured_content or {}).get("method")
            if tool == "memory_search" and method != "keyword":
                self.complain(f"{tool} claims to have searched by {method}")
            if tool == "search_memory" and not text_of(result).startswith("Keyword search"):
                self.complain(f"{tool} claims to have searched by vector: {text_of(result)}")
        asked = await self.call("memory", "memory_ask", {"query": f"What stands at house {n}?"})
        self.outcome.reads += 1
        if asked.is_error and code_of(asked) not in CATALOGUE:
            self.complain(f"memory_ask failed without a code: {text_of(asked)}")

    async def recover(self, rounds: int) -> None:
        """End the trouble, and see what was waiting for it: vectors, and the facts that a model finds."""
        before, state = self.documents(), await self.embedding()
        self.outcome.chunks = state["chunks"] - state["embedded"]
        _be_patient(self.chats)
        self.provider.recover()

        async def is_embedded() -> bool:
            now = await self.embedding()
            return bool(now["embedded"] == now["chunks"] and now["state"] == "ready")

        async def is_derived() -> bool:
            return len(self._derived(before)) >= rounds

        if not await self.is_settled(is_derived):
            self.complain(f"of {rounds} facts for a model, {len(self._derived(before))} are there in the end")
        if not await self.is_settled(is_embedded):
            self.complain(f"not all is embedded: {await self.embedding()}")
        after = self.documents()
        self.outcome.derived = len(self._derived(before))
        if any(after.get(path) != body for path, body in before.items()):
            self.complain("what was stored is gone or changed")
        if len(after) != len(before) + rounds:
            self.complain(f"{len(after) - len(before) - rounds} documents too many came to be")
        found = await self.call("memory", "memory_search", {"query": "car"})
        if (found.structured_content or {}).get("method") != "hybrid" or "automobile" not in text_of(found):
            self.complain(f"a search by meaning finds nothing: {text_of(found)}")

    def _derived(self, before: Documents) -> list[bytes]:
        return [body for path, body in self.documents().items() if path not in before and WORTH.encode() in body]


@contextmanager
def _in_haste(trouble: Trouble) -> Iterator[list[Chat]]:
    """Pauses are short; whoever is kept waiting gives up soon; and nobody else, however busy the machine is."""
    chats: list[Chat] = []

    def made(endpoint: ModelEndpoint) -> Chat:
        chats.append(Chat(endpoint, QUICK if trouble.keeps_waiting else PATIENT))
        return chats[-1]

    seconds = QUICK.first if trouble.keeps_waiting else 20.0
    # What is wrong with one text is tried a few times, which would be over at this pace before the trouble is.
    attempts = backlog.MOST_ATTEMPTS if trouble.is_of_all else 10_000
    with (
        patch("contract.platform.app.Chat", made),
        patch.multiple(remote, QUERY_SECONDS=seconds, EMBED_SECONDS=seconds, PAUSE_SECONDS=0.02),
        patch.multiple(remote, LONGEST_PAUSE_SECONDS=0.05),
        patch.multiple(work, PAUSE_SECONDS=0.05, LONGEST_PAUSE=0.2),
        patch.multiple(backlog, MOST_ATTEMPTS=attempts),
    ):
        yield chats


def _be_patient(chats: list[Chat]) -> None:
    remote.QUERY_SECONDS = remote.EMBED_SECONDS = 20.0
    for chat in chats:
        chat.deadlines = PATIENT


async def _page(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"The lighthouse of house {request.path_params['path'].removeprefix('page')}.")


@asynccontextmanager
async def _stage(folder: Path, trouble: Trouble, rounds: int) -> AsyncIterator[Stage]:
    data, root = folder / "data", folder / "files"
    root.mkdir(parents=True)
    for n in range(rounds):
        (root / f"ship{n}.md").write_text(f"The ship of house {n}.", encoding="utf-8")
    with (
        _in_haste(trouble) as chats,
        provider() as source,
        listening(Starlette(routes=[Route("/{path:path}", _page)])) as web,
        web_on(web),
    ):
        if trouble.from_the_start:
            source.fail(trouble)
        models = {"embed_url": source.url, "embed_model": "vectors", "llm_url": source.url, "llm_model": "words"}
        with serving(data, root, project="apollo", **models, embed_key=KEY, llm_key=KEY) as served:
            store = Store.open(data)
            try:
                async with AsyncExitStack() as opened:
                    paths = {"brains": "/mcp", **{name: f"/{name}/mcp/{BRAIN}" for name in SURFACES}}
                    clients = {
                        name: await opened.enter_async_context(served.over_http("modern", path))
                        for name, path in paths.items()
                    }
                    world = PlatformWorld(store, served.url)
                    yield Stage(served, source, world, chats, clients, Outcome(trouble.name))
            finally:
                store.close()


async def played(folder: Path, trouble: Trouble, rounds: int = 1) -> Outcome:
    """Every write while the provider is in trouble, and what became of it when that was over."""
    async with _stage(folder, trouble, rounds) as stage:
        await stage.call("memory", "memory_remember", {"content": "A first note."})
        if not trouble.from_the_start:
            # What its vectors are like is known by then.
            async def is_known() -> bool:
                return bool((await stage.embedding())["state"] == "ready")

            if not await stage.is_settled(is_known):
                stage.complain("it was not well to begin with")
            stage.provider.fail(trouble)
        made = [write for n in range(rounds) for write in await stage.round(n)]
        for n in range(rounds):
            await stage.read(n)
        there = stage.documents()
        for write in made:
            if write.lasts and write.copies(there) != write.count:
                stage.complain(f"of {write.tool}, {write.copies(there)} are there later instead of {write.count}")
        await stage.recover(rounds)
        return stage.outcome
