"""Sessions of both kinds in memory: kept by the platform, and as a log; and a time of day that passes when told to."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from gateway.operations import names, notes
from gateway.operations.errors import Doubt, GatewayError
from gateway.operations.steps import sessions
from gateway.operations.steps.session_log import read_log
from gateway.operations.table import Args, JsonObject, Op
from tests.gateway.operations.steps.inmemory import BRAIN, InMemory, unsure

PATH = names.session_log_path("c0ffee", "s")


@dataclass
class Wall:
    """The time of day, which passes when it is told to."""

    now: datetime = datetime(2026, 11, 16, 12, tzinfo=UTC)

    def __call__(self) -> str:
        return self.now.isoformat()

    def pass_by(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)


def call(*contents: str, key: str | None = None, actor: str | None = None) -> dict[str, Any]:
    messages = [{"role": "user", "content": content} for content in contents]
    return {"brain": BRAIN, "session_id": "s", "messages": messages, "actor_id": actor, "key": key}


@dataclass
class Talking(InMemory):
    """Has sessions of its own, and tells what was said in one."""

    said: list[JsonObject] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.answers |= {Op.APPEND_MESSAGE: self._appended, Op.LIST_MESSAGES: self._listed}

    def _appended(self, args: Args) -> JsonObject:
        record = {"id": f"m{len(self.said)}", "role": args["role"], "content": args["content"]}
        self.said.append({**record, "created_at": notes.now()})
        return {**self.said[-1], "metadata": args["metadata"]}

    def _listed(self, args: Args) -> JsonObject:
        return {"items": self.said[-int(args["limit"]) :]}

    async def say(self, *contents: str, **how: Any) -> JsonObject:
        return await sessions.append_one_by_one(self, call(*contents, **how))

    async def contents(self) -> list[str]:
        return [record["content"] for record in self.said]


class Logging(InMemory):
    """Has none: a log is kept."""

    async def say(self, *contents: str, **how: Any) -> JsonObject:
        return await sessions.append_to_log(self, call(*contents, **how))

    async def contents(self) -> list[str]:
        return [entry["content"] for entry in (await read_log(self, BRAIN, "s")).messages]


@dataclass
class Tearing(Logging):
    """Keeps a part of what is added, or keeps it late, and does not say so."""

    wounds: list[tuple[int, Doubt, bool]] = field(default_factory=list)
    """In per cent what is kept at once; why nobody hears of it; and whether all of it arrives after the next."""
    under_way: bytes = b""

    async def send(self, op: Op, args: Args) -> JsonObject:
        if op is not Op.APPEND_DOCUMENT:
            return await super().send(op, args)
        wound = self.wounds.pop(0) if self.wounds else None
        percent, doubt, is_late = wound or (100, Doubt.LOST, False)
        body = bytes(args["body"])
        self.files[PATH] = self.files.get(PATH, b"") + body[: len(body) * percent // 100] + self.under_way
        self.under_way = body if is_late else b""
        if wound is not None:
            raise unsure(doubt)
        return {}

    def arrive(self) -> None:
        """What is under way arrives."""
        self.files[PATH] = self.files.get(PATH, b"") + self.under_way
        self.under_way = b""


World = Talking | Logging


async def until_said(work: World, times: int, *contents: str, wall: Wall, insists: bool = False, **how: Any) -> None:
    """The same call so many times, as a client does that is told that it may try again, or does so anyway.

    Raises:
        GatewayError: it may not.
    """
    for _ in range(times):
        wall.pass_by(0.1)
        try:
            await work.say(*contents, **how)
        except GatewayError as error:
            if not error.retryable and not insists:
                raise
