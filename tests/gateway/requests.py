"""How many requests each tool makes upstream, by dialect: counted, and written as the table of docs/platforms.md.

python -m tests.gateway.requests     rewrites that table
"""

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from unittest.mock import patch

from starlette.types import ASGIApp, Receive, Scope, Send

from contract.platform.app import create_app
from contract.platform.ingest import Page as PlatformPage
from contract.platform.store import Store
from gateway.app.embedded import convert_in_child
from gateway.brain import background
from gateway.brain.brain import Brain
from gateway.ingest.files import Roots
from gateway.ingest.web_page import Page
from gateway.operations.caller import Call, Caller
from gateway.operations.table import Upload
from gateway.surfaces.kv import schema as kv_schema
from gateway.surfaces.kv.surface import Kv
from gateway.surfaces.memo import schema as memo_schema
from gateway.surfaces.memo.surface import Memo
from gateway.upstream.credentials import Endpoint
from gateway.upstream.dialects.catalog import DIALECTS
from gateway.upstream.pipeline import Upstream
from tests.daemons.fake import FakeDaemon, Script, T, Y
from tests.served import listening

PAGE = Path(__file__).parents[2] / "docs" / "platforms.md"
BEGIN, END = "<!-- requests: generated -->", "<!-- requests: end -->"
URL = "https://example.com/otters"
NOTE = "# Otters\n\nOtters hold hands while they sleep."
SAID = [{"role": "user", "content": "I prefer tea."}, {"role": "assistant", "content": "Noted."}]
COLUMNS = ("platform", "daemon", "daemon that searches a part")

Do = Callable[[Brain, Call], Awaitable[object]]


def remember(content: str) -> Do:
    return lambda brain, call: brain.remember(call, "b", content, None, ["animals"], None)


def search(**query: str) -> Do:
    return lambda brain, call: brain.serve(call, "b", "search", {"query": "otters", **query})


def recall(**query: str) -> Do:
    return lambda brain, call: brain.recall(call, "b", {"query": "otters", **query})


def ingest_file(name: str) -> Do:
    return lambda brain, call: brain.ingest_file(call, "b", name, lambda body: Upload(name, "text/plain", body))


def put(value: str) -> Do:
    return lambda brain, call: Kv(brain).put(kv_schema.PutInput(key="a", value=value), call)


def record(brain: Brain, _call: Call) -> Awaitable[object]:
    return Memo(brain).record(memo_schema.RecordInput(content=NOTE, metadata={"file": "a.md"}), in_project())


def search_memos(brain: Brain, _call: Call) -> Awaitable[object]:
    return Memo(brain).search(memo_schema.SearchInput(query="otters"), in_project())


def in_project() -> Call:
    return Call(Caller(project="p"))


async def ask(brain: Brain, call: Call) -> None:
    async for _frame in brain.ask(call, "b", {"query": "What do otters do?"}):
        pass


# In this order, because some find what others have stored.
CASES: dict[str, Do] = {
    "`memory_list_brains` of one brain": lambda brain, call: brain.list_brains(call),
    "`memory_create_brain`": lambda brain, call: brain.create_brain(call, "Otters", None, "private"),
    "`memory_create_brain`, again": lambda brain, call: brain.create_brain(call, "Otters", None, "private"),
    "`memory_remember`": remember(NOTE),
    "`memory_remember`, again": remember(NOTE),
    "`memory_remember`, over 2 MiB": remember("# Large\n\n" + "otters " * 350_000),
    "`memory_search`": search(),
    "`memory_search`, sorted": search(sort="recency"),
    "`memory_search` of the agent's notes": search(scope="agent"),
    "`memory_recall`": recall(),
    "`memory_extract` of two messages in a session": lambda brain, call: brain.append_messages(
        call, "b", "s", SAID, None
    ),
    "`memory_recall` in that session": recall(session_id="s"),
    "`memory_reflect`": lambda brain, call: brain.close_session(call, "b", "s"),
    "`memory_reflect`, again": lambda brain, call: brain.close_session(call, "b", "s"),
    "`memory_extract` without a session": lambda brain, call: brain.store_transcript(call, "b", SAID, None),
    "`memory_ingest_file`": ingest_file("otters.txt"),
    "`memory_ingest_file`, again": ingest_file("otters.txt"),
    "`memory_ingest_url`": lambda brain, call: brain.ingest_url(call, "b", URL),
    "`memory_ingest_url`, again": lambda brain, call: brain.ingest_url(call, "b", URL),
    "`memory_ask`": ask,
    "`memory_consolidate`": lambda brain, call: brain.serve(call, "b", "consolidate", {}),
    "`memory_ask` that draws on an index of notes": ask,
    "`jettson_memory_put`": put("Otters"),
    "`jettson_memory_put`, again": put("Otters"),
    "`jettson_memory_put` of another value": put("Seals"),
    "`jettson_memory_get`": lambda brain, call: Kv(brain).get(kv_schema.GetInput(key="a"), call),
    "`jettson_memory_search` that finds one": lambda brain, call: Kv(brain).search(
        kv_schema.SearchInput(query="Seals"), call
    ),
    "`jettson_memory_list` of one": lambda brain, call: Kv(brain).list_(kv_schema.ListInput(), call),
    "`jettson_memory_delete`": lambda brain, call: Kv(brain).delete(kv_schema.DeleteInput(key="a"), call),
    "`jettson_memory_delete`, again": lambda brain, call: Kv(brain).delete(kv_schema.DeleteInput(key="a"), call),
    "`memoai_memo_record`": record,
    "`memoai_memo_record`, again": record,
    "`memoai_memo_search` that finds one": search_memos,
}


class Counted:
    """An application, and how often it was asked."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.requests = 0
        self.paths: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.requests += scope["type"] == "http"
        self.paths.add(str(scope.get("path")))
        await self._app(scope, receive, send)


@contextmanager
def platform(dialect: str, folder: Path) -> Iterator[Counted]:
    if dialect == "platform":
        store = Store.open(folder / "store")
        try:
            yield Counted(create_app(store, token=None, fetch=fetched_there, convert=convert_in_child))
        finally:
            store.close()
        return
    script = Script(memories=[{"filename": "tea.md", "name": "Tea", "content": "Tea.", "type": "user"}])
    script.reflection = {"outcome": "success", "summary": "Tea.", "shouldRecordEpisode": True}
    yield Counted(FakeDaemon(T if dialect == "daemon" else Y, llm=script).app())


async def fetched_there(url: str) -> PlatformPage:
    return PlatformPage(url, "text/plain", NOTE.encode())


async def fetched_here(url: str) -> Page:
    return Page(url, "text/plain", NOTE.encode())


@asynccontextmanager
async def brain_on(url: str, folder: Path) -> AsyncIterator[Brain]:
    async def endpoint() -> Endpoint:
        return Endpoint(url)

    upstream = Upstream(tuple(DIALECTS.values()), endpoint)
    try:
        yield Brain(upstream, roots=Roots((folder,)), fetch=fetched_here, default="b")
    finally:
        await upstream.close()


@contextmanager
def held_back(answered: asyncio.Event) -> Iterator[None]:
    """What goes on after an answer waits for it; else it may be under way while the answer is."""
    job_of = background._run_and_log

    async def waiting(name: str, job: background.Job) -> None:
        await answered.wait()
        await job_of(name, job)

    with patch.object(background, "_run_and_log", waiting):
        yield


async def counted(dialect: str) -> dict[str, tuple[int, int]]:
    """For each case the requests until its answer, and those after it."""
    counts: dict[str, tuple[int, int]] = {}
    answer = asyncio.Event()
    with held_back(answer), tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "otters.txt").write_text(NOTE, encoding="utf-8")
        with platform(dialect, folder) as app, listening(app) as url:
            async with brain_on(url, folder) as brain:
                await brain.create_brain(Call(), "b", "b", "private")
                # Once by slug, so that the id behind it is known.
                for first in (Call(), in_project()):
                    await brain.serve(first, "b", "search", {"query": "x"})
                for name, do in CASES.items():
                    answer.clear()
                    before = app.requests
                    await do(brain, Call())
                    answered = app.requests
                    answer.set()
                    await brain.close(10)
                    counts[name] = (answered - before, app.requests - answered)
    return counts


async def table() -> str:
    columns = [await counted(dialect) for dialect in COLUMNS]
    rows = [f"| Tool | {' | '.join(COLUMNS)} |", "|---" * (1 + len(COLUMNS)) + "|"]
    rows += [f"| {name} | {' | '.join(_cell(*column[name]) for column in columns)} |" for name in CASES]
    return "\n".join(rows)


def _cell(answered: int, after: int) -> str:
    return f"{answered}, and {after} after the answer" if after else str(answered)


def with_table(text: str, made: str) -> str:
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    assert pattern.search(text), f"{PAGE.name} has no place for the table of requests"
    return pattern.sub(lambda _match: f"{BEGIN}\n{made}\n{END}", text)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), asyncio.run(table())), encoding="utf-8")
