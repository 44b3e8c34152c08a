"""One call of a tool, one request of it harmed: what the caller was told, and what is really there."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.client.client import CallToolResult
from mcp_types import TextContent

from gateway.brain.brain import Brain
from gateway.ingest.files import Roots
from gateway.ingest.web_page import Page
from gateway.mcp.run import tools_of
from gateway.operations.errors import CATALOGUE
from gateway.surfaces.kv.schema import PutInput
from gateway.surfaces.kv.surface import Kv, path_of, putting
from gateway.surfaces.memory.surface import Memory
from gateway.upstream.credentials import Endpoint
from gateway.upstream.deadlines import Deadlines
from gateway.upstream.pipeline import Upstream
from tests.faults.faults import Fault, Kind, Request
from tests.faults.proxy import Proxy, proxying
from tests.faults.worlds import PAGE, URL, World


def deadlines(seconds: float) -> Deadlines:
    return Deadlines(seconds, seconds, seconds, seconds, seconds, seconds, seconds)


# Whoever is kept waiting gives up soon; nobody else does, however busy the machine is.
QUICK, PATIENT = deadlines(1.0), deadlines(15.0)
STALLS = {Kind.stall_before, Kind.late, Kind.stall_after}
AGAIN = 3
AT_ONCE = 6
SESSION = "s1"
SAID = (("user", "The pump is leaking."), ("assistant", "Which seal is it?"), ("user", "The upper one."))
FILE = "ship.md"
FILED = "# Ship\n\nThe ship carries salt."
CRASHED = "The gateway failed; its log says why."

# Those that take long come first, so that the others run beside them.
FAULTS: dict[str, Fault] = {
    **{kind.value: Fault(kind) for kind in sorted(Kind, key=lambda kind: kind not in STALLS) if kind is not Kind.hold},
    "refuse_429": Fault(Kind.refuse_429, seconds=0),
    "refuse_503": Fault(Kind.refuse_503, seconds=1, as_date=True),
    "refuse_429_for_long": Fault(Kind.refuse_429, seconds=60),
}
# Delivered when the gateway has long since looked, and the client has long since asked again.
LATER = Fault(Kind.late, delay=2.2)
# One of each sort, where the whole list would tell nothing new.
FEW = [
    "late",
    "cut_before",
    "cut_in_body",
    "cut_after_request",
    "drop_answer",
    "cut_in_answer_body",
    "duplicate",
    "double_answer",
    "commit_then_500",
    "commit_then_503",
]


@dataclass
class Once:
    """A plan: the n-th request that is meant meets the fault, and no other."""

    meant: str
    fault: Fault | None
    nth: int = 1
    met: int = 0

    def __call__(self, request: Request) -> Fault | None:
        if not re.fullmatch(self.meant, self.name(request)):
            return None
        self.met += 1
        return self.fault if self.met == self.nth else None

    @staticmethod
    def name(request: Request) -> str:
        return f"{request.method} {request.path.partition('?')[0]}"


@dataclass(frozen=True)
class Found:
    """What the platform holds of a write: how much of it, of how much, and whether that is all of it and no more."""

    count: int
    whole: bool


Look = Callable[[World, str], Found]


def _document(is_it: Callable[[str, bytes], bool]) -> Look:
    def look(world: World, brain: str) -> Found:
        count = sum(is_it(path, body) for path, body in world.documents(brain).items())
        return Found(count, count == 1)

    return look


def _messages(world: World, brain: str) -> Found:
    there = tuple(world.messages(brain, SESSION))
    # What is not the beginning of what was said is counted as too much.
    return Found(len(there) if there == SAID[: len(there)] else 1000, there == SAID)


def _brain(world: World, brain: str) -> Found:
    made = [slug for slug in world.brains() if slug.startswith(f"new-{brain}")]
    return Found(len(made), len(made) == 1 and world.named(made[0], f"New {brain}"))


@dataclass(frozen=True)
class Write:
    """A call that stores something, and the request of it that does."""

    name: str
    tool: str
    arguments: Callable[[str], dict[str, Any]]
    look: Look
    on_platform: str
    on_daemon: str
    nth: int = 1
    given: dict[str, str] = field(default_factory=dict)
    """The notes that are there before."""

    def meant(self, world: World) -> str:
        return self.on_platform if world.name == "platform" else self.on_daemon


_BRAIN = "/v1/brains/[^/]+"
_POST, _PUT = f"POST {_BRAIN}/documents", f"PUT {_BRAIN}/documents"
_MESSAGE, _APPEND = f"POST {_BRAIN}/sessions/{SESSION}/messages", f"POST {_BRAIN}/documents/append"
_NOTE = "# Otters\n\nOtters hold hands while they sleep."
_messages_said = [{"role": role, "content": content} for role, content in SAID]


def _remember(**more: str) -> Callable[[str], dict[str, Any]]:
    return lambda brain: {"brain": brain, "content": _NOTE, **more}


def _extract(**more: str) -> Callable[[str], dict[str, Any]]:
    return lambda brain: {"brain": brain, "messages": _messages_said, **more}


def _kv(value: str) -> PutInput:
    return PutInput(key="otters", value=value)


def _kept(put: PutInput) -> dict[str, str]:
    path = path_of(put.namespace, put.key)
    draft = putting(put, path)(None)
    assert draft is not None
    return {path: draft.body.decode()}


def _put(world: World, brain: str) -> Found:
    """The new value in its note; and what it replaced, if anything, beside it."""
    documents = world.documents(brain)
    count = sum(b"Otters hold hands" in body for path, body in documents.items() if "/_" not in path)
    aside = sum("/_versions/" in path for path in documents)
    return Found(count, count == 1 and aside <= 1 and len(documents) == 1 + aside)


def _deleted(world: World, brain: str) -> Found:
    documents = world.documents(brain)
    count = sum("/_deleted/" in path for path in documents)
    return Found(count, count == 1 == len(documents))


_holds_note = _document(lambda _path, body: b"Otters hold hands" in body)

WRITES = {
    write.name: write
    for write in [
        Write("remember", "memory_remember", _remember(), _holds_note, _POST, _PUT),
        Write("remember_at", "memory_remember", _remember(path="zoo/otters.md"), _holds_note, _POST, _PUT),
        Write(
            "ingest_file",
            "memory_ingest_file",
            lambda brain: {"brain": brain, "path": FILE},
            _document(lambda _path, body: b"carries salt" in body),
            f"POST {_BRAIN}/documents/ingest/file",
            f"POST {_BRAIN}/ingest/file",
        ),
        Write(
            "ingest_url",
            "memory_ingest_url",
            lambda brain: {"brain": brain, "url": URL},
            _document(lambda _path, body: PAGE in body),
            f"POST {_BRAIN}/documents/ingest/url",
            _PUT,
        ),
        Write("say", "memory_extract", _extract(session_id=SESSION), _messages, _MESSAGE, _APPEND),
        Write("say_last", "memory_extract", _extract(session_id=SESSION), _messages, _MESSAGE, _APPEND, 3),
        Write(
            "transcript",
            "memory_extract",
            _extract(),
            _document(lambda path, _body: path.startswith("raw/documents/transcript-")),
            _POST,
            _PUT,
        ),
        Write(
            "create_brain",
            "memory_create_brain",
            lambda brain: {"name": f"New {brain}"},
            _brain,
            "POST /v1/brains",
            "POST /v1/brains",
        ),
        Write(
            "create_brain_as",
            "memory_create_brain",
            lambda brain: {"name": f"New {brain}", "slug": f"new-{brain}"},
            _brain,
            "POST /v1/brains",
            "POST /v1/brains",
        ),
        Write("put", "jettson_memory_put", lambda _brain: {"key": "otters", "value": _NOTE}, _put, _POST, _PUT),
        Write(
            "put_over",
            "jettson_memory_put",
            lambda _brain: {"key": "otters", "value": _NOTE},
            _put,
            _PUT,
            _PUT,
            2,
            _kept(_kv("before")),
        ),
        Write(
            "delete",
            "jettson_memory_delete",
            lambda _brain: {"key": "otters"},
            _deleted,
            f"POST {_BRAIN}/documents/rename",
            f"POST {_BRAIN}/documents/rename",
            given=_kept(_kv(_NOTE)),
        ),
    ]
}


@dataclass(frozen=True)
class Told:
    """What a caller was told, and what was there at that moment."""

    code: str | None
    error: dict[str, Any]
    found: Found
    text: str

    def __str__(self) -> str:
        return f"{self.code or 'success'} with {self.found.count} there"


@dataclass
class Story:
    """What became of a call and of its repeats."""

    told: list[Told] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    """Those of the first call, up to its answer."""
    harmed: bool = False
    end: Found = Found(0, False)
    next_is_right: bool = True
    settled: bool = True


@asynccontextmanager
async def gateway(
    world: World, proxy: Proxy, root: Path, fault: Fault | None = None, brain_slug: str | None = None
) -> AsyncIterator[Client[Any]]:
    """A gateway of its own, so that no case eats another's budget or opens its breaker."""
    patience = QUICK if fault is not None and fault.kind in STALLS else PATIENT

    async def endpoint() -> Endpoint:
        return Endpoint(proxy.url)

    upstream = Upstream((world.dialect,), endpoint, deadlines=patience)
    brain = Brain(upstream, roots=Roots((root,)), fetch=_fetched, default=brain_slug)
    try:
        async with Client(FastMCP("faults", tools=[*tools_of(Memory(brain)), *tools_of(Kv(brain))])) as client:
            yield client
    finally:
        await brain.close(5)
        await upstream.close()


async def _fetched(url: str) -> Page:
    return Page(url, "text/markdown", PAGE)


async def called(client: Client[Any], tool: str, arguments: dict[str, Any]) -> CallToolResult:
    async with asyncio.timeout(40):
        return await client.call_tool(tool, arguments, raise_on_error=False)


def text_of(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


def code_of(result: CallToolResult) -> str | None:
    """The code of a failure; from its text where there is nothing else, as in the errors of an answer stream."""
    if not result.is_error:
        return None
    return (result.structured_content or {}).get("code") or text_of(result).partition(":")[0]


async def written(world: World, write: Write, fault: Fault | None, root: Path, nth: int | None = None) -> Story:
    """A write that meets a fault, sent again as long as the answer says that it may be; and once more by another.

    It is the request that writes that is harmed; or, with `nth`, the n-th of all.
    """
    brain, story = f"b{secrets.token_hex(5)}", Story()
    world.begin(brain, write.given)
    plan = Once(write.meant(world), fault, write.nth) if nth is None else Once(".*", fault, nth)
    with proxying(world.url, plan) as proxy:
        async with gateway(world, proxy, root, fault, brain) as client:
            for _ in range(1 + AGAIN):
                story.told.append(await told(client, world, write, brain))
                story.requests = story.requests or [plan.name(passed.request) for passed in proxy.seen]
                if not story.told[-1].error.get("retryable"):
                    break
            result = await called(client, "memory_search", {"brain": brain, "query": "nothing"})
            story.next_is_right = result.is_error or "hits" in (result.structured_content or {})
        # The client may never have heard of it, and has come to a gateway that knows nothing.
        async with gateway(world, proxy, root, brain_slug=brain) as client:
            story.told.append(await told(client, world, write, brain))
        # The proxy keeps what it still delivers open: once it has settled nothing more can arrive. What a gateway
        # left open would be closed by the platform in the end, but not so soon.
        story.settled = await asyncio.to_thread(proxy.settled, 2.0 + (fault.delay if fault else 0.0))
    story.harmed = plan.met >= plan.nth
    story.end = await asyncio.to_thread(write.look, world, brain)
    return story


async def told(client: Client[Any], world: World, write: Write, brain: str) -> Told:
    result = await called(client, write.tool, write.arguments(brain))
    error = dict(result.structured_content or {}) if result.is_error else {}
    there = await asyncio.to_thread(write.look, world, brain)
    return Told(code_of(result), error, there, text_of(result))


def complaints(story: Story, *, may_be_unknown: bool, may_be_double: bool) -> list[str]:
    """What is wrong with a story: nothing, if the caller was told the truth and the write was made once."""
    found: list[str] = []
    if not story.harmed:
        found.append("the request that was meant was never made")
    if not story.settled:
        found.append("a connection is left open")
    if not story.next_is_right:
        found.append("the call after it got an answer that is not its own")
    for told in story.told:
        found += _complaints_of(told, may_be_unknown, may_be_double)
    if story.told[-1].code is not None and not may_be_unknown:
        found.append(f"it ended with {story.told[-1]}")
    if not story.end.whole and not may_be_double and not (may_be_unknown and story.end.count <= len(SAID)):
        found.append(f"in the end {story.end.count} are there")
    return found


def _complaints_of(told: Told, may_be_unknown: bool, may_be_double: bool) -> list[str]:
    if told.code is None:
        return [] if told.found.whole or may_be_double else [f"called stored: {told}"]
    if CRASHED in told.text or told.code not in CATALOGUE:
        return [f"a crash: {told.text}"]
    if told.code == "outcome_unknown":
        return [] if may_be_unknown else [f"left open: {told}"]
    there = int(told.error.get("appended", 0))
    return [] if told.found.count == there or may_be_double else [f"called not stored: {told}"]


async def all_of(cases: Sequence[Callable[[], Any]]) -> list[Any]:
    """The cases, a few at a time: most of them wait, and none shall wait for another's processor time."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(case: Callable[[], Any]) -> Any:
        async with gate:
            return await case()

    return await asyncio.gather(*(one(case) for case in cases))
