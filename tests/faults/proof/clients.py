"""Clients as they are: they call a tool, and after an error that says so, or a broken connection, call it again."""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from tests.faults.proof.ledger import BROKEN, FAILED_THOUGH_STORED, STORED_BEFORE, Answer, Write, misreported
from tests.faults.proof.shelves import Shelf, copies
from tests.served import messages_of, raw_call

RESENDS = 5
PAUSE_SECONDS, LONGEST_PAUSE = 0.2, 6.0
# After an answer that says "not stored": so long a late commit is waited for before it counts as true.
LATE_SECONDS = 1.0
CALL_SECONDS = 30.0


async def called(
    http: httpx.AsyncClient, urls: Sequence[str], n: int, write: Write, seconds: float = CALL_SECONDS
) -> Answer:
    """One call, by one of the gateways; whoever has no answer in time leaves."""
    try:
        # All of it: comments that keep a stream alive would keep a time limit between two bytes at bay.
        async with asyncio.timeout(seconds):
            response = await http.post(urls[n] + "/mcp", **raw_call("modern", write.tool, write.arguments))
        message = messages_of(response)[-1]
    except (httpx.HTTPError, TimeoutError, ValueError, IndexError):
        return Answer(BROKEN, retryable=True, gateway=n)
    return _answer(message, n)


def _answer(message: dict[str, Any], n: int) -> Answer:
    result = message.get("result") or {"isError": True, "structuredContent": {"code": "protocol_error"}}
    said = result["structuredContent"]
    if not result.get("isError"):
        return Answer(said["outcome"], gateway=n)
    return Answer(
        said["code"],
        retryable=bool(said.get("retryable")),
        appended=int(said.get("appended") or 0),
        retry_after=float(said.get("retry_after_seconds") or 0),
        request_id=str(said.get("request_id", "")),
        gateway=n,
    )


class Clients:
    """Several at once, each with one conversation at a time."""

    def __init__(
        self,
        urls: Sequence[str],
        shelf: Shelf,
        *,
        seed: int = 0,
        story: Callable[[Write], str] = Write.told,
        wrote: Callable[[str], bool] = lambda _request_id: True,
    ) -> None:
        """`wrote` tells whether a call, by the id in its answer, has sent anything that writes."""
        self._wrote = wrote
        self._urls, self._shelf, self._story = urls, shelf, story
        self._random = random.Random(seed)
        # So many calls are left by their client before an answer comes, and then sent again.
        self.leaving = 0.0

    async def write(self, conversations: Sequence[list[Write]], at_once: int, done: Callable[[Write], None]) -> None:
        waiting = iter(conversations)
        limits = httpx.Limits(max_connections=at_once, max_keepalive_connections=at_once)
        async with httpx.AsyncClient(trust_env=False, timeout=CALL_SECONDS, limits=limits) as http:

            async def client() -> None:
                for conversation in waiting:
                    for write in conversation:
                        await self.send(http, write)
                        done(write)

            await asyncio.gather(*(client() for _ in range(at_once)))

    async def send(self, http: httpx.AsyncClient, write: Write, first: int | None = None) -> None:
        """Until it is stored, or refused for good, or it was sent often enough."""
        gateway = self._random.randrange(len(self._urls)) if first is None else first
        for attempt in range(1 + RESENDS):
            before = copies(self._shelf, write)
            leaves = self._random.random() < self.leaving
            seconds = self._random.uniform(0.01, 0.3) if leaves else CALL_SECONDS
            answer = await called(http, self._urls, gateway, write, seconds)
            write.answers.append(answer)
            waited = await self._compare(write, answer, before)
            if not answer.retryable or attempt == RESENDS:
                return
            pause = max(PAUSE_SECONDS * (1 + self._random.random()), min(answer.retry_after, LONGEST_PAUSE))
            await asyncio.sleep(max(0.0, pause - waited))
            gateway = self._random.randrange(len(self._urls))

    async def _compare(self, write: Write, answer: Answer, before: Sequence[int]) -> float:
        """Hold an answer to what is there, now and sometimes a little later; the seconds that took."""
        waited = 0.0
        found = misreported(write, answer, copies(self._shelf, write), before)
        # Half of them are sent again at once, as clients do; the others wait for what may be on its way.
        if found is None and _denies(answer) and self._random.random() < 0.5:
            waited = LATE_SECONDS
            await asyncio.sleep(LATE_SECONDS)
            found = misreported(write, answer, copies(self._shelf, write), before)
            found = found if found == FAILED_THOUGH_STORED else None
        if found == FAILED_THOUGH_STORED and not self._wrote(answer.request_id):
            # It came while this call was under way, from an earlier one: this one sent nothing to be stored.
            found = STORED_BEFORE
        if found is not None:
            write.misreports.append((found, self._story(write)))
        return waited


def _denies(answer: Answer) -> bool:
    return answer.said not in {"stored", "queued", "outcome_unknown", BROKEN}
