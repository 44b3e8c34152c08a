"""A crowd of answer streams through one gateway, half of the callers leaving midway: nothing is mixed up or left."""

import asyncio
import json
import resource
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.plain import Asked, Platform, Told, call, memory_mib, open_files, percentile
from tests.faults.proof.part import Part
from tests.gateway.test_processes import process
from tests.served import Era

ERAS: tuple[Era, ...] = ("modern", "legacy")
KEPT_ALIVE = 100
"""Connections the gateway may keep for the next request."""
EXPIRY_SECONDS = 8.5
"""After this long it keeps none of them."""
GONE_SECONDS = 1.0
MORE_MIB = 8.0
MORE_FILES = 3
HEADERS = (
    "Round",
    "Streams",
    "Open at once",
    "Stayed",
    "Whole and own",
    "Left",
    "Upstream gone after, p50",
    "max",
    "Upstream open right after",
    "after a pause and a call",
    "Files before → after",
    "Memory before → after, MiB",
)


@dataclass(frozen=True)
class Size:
    """How many, how long, and how often."""

    streams: int
    deltas: int
    pause: float
    rounds: int
    arrivals: int = 100
    """How many come in a second: a thousand in the same instant is another question."""

    def words(self, name: str) -> list[str]:
        """The answer to one caller: nobody else's words."""
        return [f"{name}/{n} " for n in range(self.deltas)]


FULL = Size(streams=1000, deltas=20, pause=2.0, rounds=3)
SMALL = Size(streams=100, deltas=10, pause=0.5, rounds=2)


@dataclass
class Storyteller:
    """A platform that tells each caller its own words, slowly, and notes when one of them is gone.

    Nobody hears the first word before as many listen as were announced: all of them are open at once.
    """

    size: Size
    listening: int = 0
    most: int = 0
    gone_at: dict[str, float] = field(default_factory=dict)
    done: dict[str, float] = field(default_factory=dict)
    """When each had been told everything."""
    all_listen: threading.Event = field(default_factory=threading.Event)
    awaited: int = 0

    async def __call__(self, asked: Asked) -> None:
        if not asked.path.endswith("/ask"):
            await asked.answer("200 OK", b'{"hits":[]}')
            return
        name = str(json.loads(asked.body)["query"])
        asked.begin_events()
        await asked.event(type="retrieve", chunks=[])
        self.listening += 1
        self.most = max(self.most, self.listening)
        if self.listening >= self.awaited:
            self.all_listen.set()
        try:
            await self._tell(asked, name)
        finally:
            self.listening -= 1

    async def _tell(self, asked: Asked, name: str) -> None:
        # Nothing is said to a platform while it answers: whatever there is to read is the end of the connection.
        leaving = asyncio.ensure_future(asked.reader.read(1))
        try:
            await self._together(leaving)
            for word in self.size.words(name):
                await asked.event(type="answer_delta", delta=word)
                if (await asyncio.wait({leaving}, timeout=self.size.pause))[0]:
                    raise ConnectionResetError
        except OSError:
            self.gone_at[name] = time.monotonic()
            raise
        finally:
            leaving.cancel()
            await asyncio.wait({leaving})
            if not leaving.cancelled():
                leaving.exception()
        await asked.event(type="done", ok=True)
        await asked.end_events()
        self.done[name] = time.monotonic()

    async def _together(self, leaving: "asyncio.Future[bytes]") -> None:
        for _ in range(1200):
            if self.all_listen.is_set() or leaving.done():
                return
            await asyncio.sleep(0.1)


@dataclass
class Crowd:
    """One round of callers: every second one leaves, one after another word."""

    size: Size
    round: int
    told: dict[str, Told] = field(default_factory=dict)

    def leave_after(self, n: int) -> int | None:
        return None if n % 4 < 2 else 1 + n // 4 % (self.size.deltas - 2)

    async def come(self, port: int) -> None:
        await asyncio.gather(*(self._one(port, n) for n in range(self.size.streams)))

    async def _one(self, port: int, n: int) -> None:
        await asyncio.sleep(n / self.size.arrivals)
        name = f"r{self.round}c{n}"
        arguments = {"query": name, "brain": "main"}
        leave = self.leave_after(n)
        asking = call(port, ERAS[n % 2], "memory_ask", arguments, token=name, leave_after=leave)
        self.told[name] = await asyncio.wait_for(asking, 300)

    @property
    def stayed(self) -> dict[str, Told]:
        return {name: told for name, told in self.told.items() if told.left_at is None}

    @property
    def left(self) -> dict[str, float]:
        return {name: told.left_at for name, told in self.told.items() if told.left_at is not None}

    def wrong(self) -> list[str]:
        """Who did not get the whole of their own answer, or heard a word of another's."""
        complaints = []
        for name, told in self.told.items():
            words = self.size.words(name)
            if told.left_at is not None:
                if told.progress != words[: len(told.progress)]:
                    complaints.append(f"{name} left, and had heard {told.progress[-2:]}")
            elif told.code != "ok" or told.result is None:
                complaints.append(f"{name} got {told.code} after {len(told.progress)} words")
            elif told.progress != words or told.result["structuredContent"]["answer"] != "".join(words):
                complaints.append(f"{name} heard {len(told.progress)} words, the last {told.progress[-1:]}")
        return complaints

    def closed_after(self, story: Storyteller) -> list[float]:
        """For each who left midway, the seconds until the platform saw that; infinite where it told on to the end."""
        never = float("inf")
        midway = {name: at for name, at in self.left.items() if at < story.done.get(name, never)}
        return [story.gone_at.get(name, never) - at for name, at in midway.items()]


def settled(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether it came to be within so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def come_and_go(size: Size, number: int, port: int, story: Storyteller, platform: Platform) -> Crowd:
    """One round, from the first who comes to the moment the platform has nobody left to talk to."""
    crowd = Crowd(size, number)
    story.all_listen.clear()
    story.awaited, story.most = size.streams, 0
    asyncio.run(crowd.come(port))
    settled(lambda: story.listening == 0 and platform.connections <= KEPT_ALIVE, 5)
    return crowd


def one_call(port: int) -> Told:
    return asyncio.run(call(port, "modern", "memory_search", {"query": "x", "brain": "main"}))


def judged(crowd: Crowd, story: Storyteller, right_after: int, later: int) -> list[str]:
    which = f"round {crowd.round}"
    after = crowd.closed_after(story)
    found = [f"{which}: {line}" for line in crowd.wrong()[:5]]
    if story.most < crowd.size.streams:
        found.append(f"{which}: only {story.most} of {crowd.size.streams} streams were open at once")
    if percentile(after, 0.5) > GONE_SECONDS:
        found.append(
            f"{which}: half of the upstream connections outlived their callers by {percentile(after, 0.5):.2f} s"
        )
    if len(after) < 0.8 * len(crowd.left):
        found.append(f"{which}: only {len(after)} of {len(crowd.left)} left before the platform had said everything")
    if float("inf") in after:
        found.append(f"{which}: {after.count(float('inf'))} upstream connections were not closed for callers who left")
    if right_after > KEPT_ALIVE or later > 1:
        found.append(f"{which}: {right_after} upstream connections right after, {later} later")
    return found


def run(full: bool) -> Part:
    """Some rounds in one gateway process: what the first one leaves behind, the others must not add to."""
    size, started = FULL if full else SMALL, time.monotonic()
    _allow_files(4 * size.streams)
    story = Storyteller(size)
    rows: list[tuple[str, ...]] = []
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder, Platform(story).running() as platform:
        settings = {"BRAINS_UPSTREAM_URL": platform.url, "BRAINS_DIALECT": "platform", "BRAINS_LOG_LEVEL": "error"}
        with process(Path(folder), **settings) as served:
            pid, marks = served.process.pid, []
            one_call(served.port)
            for number in range(1, size.rounds + 1):
                before = (open_files(pid), memory_mib(pid))
                crowd = come_and_go(size, number, served.port, story, platform)
                right_after = platform.connections
                time.sleep(EXPIRY_SECONDS)  # the gateway has dropped by then what it kept alive
                one_call(served.port)
                settled(lambda: platform.connections <= 1, 2)
                after = (open_files(pid), memory_mib(pid))
                marks.append(after)
                failures += judged(crowd, story, right_after, platform.connections)
                rows.append(_row(crowd, story, right_after, platform.connections, before, after))
    failures += _grown(marks)
    claim = (
        f"Of {size.streams:,} answer streams at once every caller who stays gets the whole of their own answer; "
        "nothing is left of those who leave, and most of their upstream connections are gone within a second."
    )
    return Part("A crowd of answers", claim, HEADERS, rows, failures, time.monotonic() - started, _notes(size))


def _grown(marks: list[tuple[int, float]]) -> list[str]:
    """What the later rounds added to what the first one had left."""
    (files, memory), (files_at_last, memory_at_last) = marks[0], marks[-1]
    found = []
    if files_at_last - files > MORE_FILES:
        found.append(f"{files} open files after the first round, {files_at_last} after the last")
    if memory_at_last - memory > MORE_MIB:
        found.append(f"{memory:.1f} MiB after the first round, {memory_at_last:.1f} MiB after the last")
    return found


def _row(
    crowd: Crowd, story: Storyteller, right_after: int, later: int, before: tuple[int, float], after: tuple[int, float]
) -> tuple[str, ...]:
    closed = crowd.closed_after(story)
    wrong = {line.split()[0] for line in crowd.wrong()}
    return (
        str(crowd.round),
        f"{crowd.size.streams:,}",
        f"{story.most:,}",
        f"{len(crowd.stayed):,}",
        f"{len(crowd.stayed.keys() - wrong):,}",
        f"{len(crowd.left):,}",
        f"{percentile(closed, 0.5) * 1000:.0f} ms",
        f"{max(closed) * 1000:.0f} ms",
        str(right_after),
        str(later),
        f"{before[0]} → {after[0]}",
        f"{before[1]:.1f} → {after[1]:.1f}",
    )


def _notes(size: Size) -> list[str]:
    return [
        f"One gateway process, both protocol eras by turns; each answer is {size.deltas} words, one every "
        f"{size.pause} s, and begins once all are open; {size.arrivals} callers come in a second. "
        "Callers, platform and gateway share the machine.",
        f"The gateway keeps at most {KEPT_ALIVE} idle connections, for 4 to 8 s.",
    ]


def _allow_files(count: int) -> None:
    """So many open files, for this process and those it starts, where the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
