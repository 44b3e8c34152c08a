"""A platform in memory, as steps see one: documents by path, canned answers for the rest, and faults on demand."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, Self

import pytest

from gateway.brain.locks import Locks
from gateway.ingest.web_page import Page, read_text
from gateway.operations import names
from gateway.operations.context import StepContext
from gateway.operations.errors import Absent, Doubt, GatewayError, Unsure
from gateway.operations.steps import brains, certainty
from gateway.operations.table import Args, JsonObject, Op

BRAIN = "b"
STORE = frozenset(
    {
        Op.RENAME_DOCUMENT,
        Op.DELETE_DOCUMENT,
        Op.READ_DOCUMENT,
        Op.STAT_DOCUMENT,
        Op.LIST_DOCUMENTS,
        Op.WRITE_DOCUMENT,
        Op.APPEND_DOCUMENT,
        Op.BATCH_WRITE,
    }
)

Answer = Callable[[Args], JsonObject]
Job = Callable[[StepContext], Awaitable[None]]


@dataclass
class Fault:
    """What goes wrong with one request, and whether it was done nevertheless."""

    error: Exception
    done: bool = False
    passed_over: int = 0
    """So many requests of its kind go well before."""


# What a write in doubt is, should it prove not to be made.
FAILURES: Final = {Doubt.LOST: "upstream_unavailable", Doubt.LATE: "timeout", Doubt.ANSWERED: "upstream_error"}


def unsure(doubt: Doubt = Doubt.LOST) -> Unsure:
    return Unsure(GatewayError(FAILURES[doubt]), doubt)


def lost(*, done: bool, doubt: Doubt = Doubt.LOST) -> Fault:
    """A request without a telling answer."""
    return Fault(unsure(doubt), done=done)


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look as often as ever, and never wait in between."""
    for module in (certainty, brains):
        monkeypatch.setattr(module, "PAUSES", (0.0,) * len(certainty.PAUSES))


@dataclass
class InMemory:
    """Keeps one brain. It has the routes of a store, and those it has an answer for, but for those it lacks."""

    files: dict[str, bytes] = field(default_factory=dict)
    answers: dict[Op, Answer] = field(default_factory=dict)
    lacks: set[Op] = field(default_factory=set)
    """Routes that are known not to be there."""
    gone: set[Op] = field(default_factory=set)
    """Routes that are thought to be there, and are not."""
    faults: dict[Op, list[Fault]] = field(default_factory=dict)
    changed: dict[str, object] = field(default_factory=dict)
    caller: str = "c0ffee"
    own_tree: str | None = None
    unfindable: tuple[str, ...] = ()
    indexes: bool = False
    sent: list[tuple[Op, dict[str, Any]]] = field(default_factory=list)
    made: list[Op] = field(default_factory=list)
    """What was done, in order."""
    wrote: bool = False
    vetted: list[str] = field(default_factory=list)
    blocked: set[str] = field(default_factory=set)
    jobs: dict[str, Job] = field(default_factory=dict)
    locks: Locks = field(default_factory=Locks)

    @property
    def ops(self) -> list[Op]:
        return [op for op, _ in self.sent]

    def fails(self, op: Op, *faults: Fault | str) -> Self:
        """The next requests of this kind go wrong so; a word is the code of a refusal."""
        self.faults[op] = [Fault(GatewayError(fault)) if isinstance(fault, str) else fault for fault in faults]
        return self

    @property
    def may_have_written(self) -> bool:
        return self.wrote

    async def open(self, op: Op, args: Args) -> AbstractAsyncContextManager[Any]:
        """Frames as they are given in the answer."""
        return nullcontext(aiter_of((await self.send(op, args)).get("frames", [])))

    async def text_of(self, content_type: str, body: bytes) -> str:
        return await read_text(Page("", content_type, body))

    async def send(self, op: Op, args: Args) -> JsonObject:
        if not await self.has(op):
            raise Absent
        self.sent.append((op, dict(args)))
        if op in self.gone:
            raise Absent
        fault = self._fault(op)
        if fault is not None and not fault.done:
            self.wrote |= op.writes and isinstance(fault.error, Unsure)
            raise fault.error
        answer = self._done(op, args)
        self.made.append(op)
        self.wrote |= op.writes
        if fault is not None:
            raise fault.error
        return answer

    async def has(self, op: Op) -> bool:
        return op not in self.lacks and (op in STORE or op in self.answers)

    def project_of(self, actor: str | None) -> str | None:
        return None if actor is None else names.actor_folder(actor)

    def finds(self, path: str) -> bool:
        return not path.startswith(self.unfindable) if self.unfindable else True

    def writes_index(self) -> bool:
        return self.indexes

    async def vet(self, url: str) -> None:
        self.vetted.append(url)
        if url in self.blocked:
            raise GatewayError("fetch_blocked")

    def alone(
        self, name: str, *, among_all: bool = False, among_replicas: bool = False
    ) -> AbstractAsyncContextManager[None]:
        return self.locks.alone(name, among_replicas=among_replicas)

    def later(self, name: str, job: Job) -> None:
        self.jobs[name] = job

    async def after_the_answer(self) -> None:
        """Do what was left for later."""
        jobs, self.jobs = self.jobs, {}
        for job in jobs.values():
            await job(self)

    def _fault(self, op: Op) -> Fault | None:
        faults = self.faults.get(op, [])
        if not faults:
            return None
        if faults[0].passed_over:
            faults[0].passed_over -= 1
            return None
        return faults.pop(0)

    def _done(self, op: Op, args: Args) -> JsonObject:
        if op in self.answers:
            return self.answers[op](args)
        path = str(args.get("path", ""))
        match op:
            case Op.READ_DOCUMENT | Op.STAT_DOCUMENT | Op.RENAME_DOCUMENT | Op.DELETE_DOCUMENT if (
                path not in self.files
            ):
                raise GatewayError("not_found")
            case Op.READ_DOCUMENT:
                return {"body": self.files[path]}
            case Op.STAT_DOCUMENT:
                return {"path": path, "size": len(self.files[path])}
            case Op.LIST_DOCUMENTS:
                return {"items": [self._entry(p) for p in self.files if p.startswith(str(args.get("dir", "")))]}
            case Op.RENAME_DOCUMENT:
                self.files[str(args["to"])] = self.files.pop(path)
            case Op.DELETE_DOCUMENT:
                del self.files[path]
            case Op.WRITE_DOCUMENT:
                self.files[path] = args["body"]
            case Op.APPEND_DOCUMENT:
                self.files[path] = self.files.get(path, b"") + args["body"]
            case _:
                self.files |= args["writes"]
        return {}

    def _entry(self, path: str) -> JsonObject:
        entry: JsonObject = {"path": path, "size": len(self.files[path]), "is_dir": False}
        return {**entry, "mtime": self.changed[path]} if path in self.changed else entry


async def aiter_of(items: Iterable[JsonObject]) -> AsyncIterator[JsonObject]:
    for item in items:
        yield item


async def refusal(sending: Awaitable[object]) -> GatewayError:
    """The failure that must come of this."""
    try:
        answer = await sending
    except GatewayError as error:
        return error
    raise AssertionError(f"it went well: {answer}")
