"""A platform that fails under steady load: it gets no more than it was offered, and is used again once it is back."""

import asyncio
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.plain import Asked, Platform, call
from tests.faults.proof.part import Part
from tests.gateway.test_processes import process
from tests.served import Era

ERAS: tuple[Era, ...] = ("modern", "legacy")
BACK_SECONDS = 10.0
MOST = 1.1
REPEATS, WINDOW_SECONDS = 0.1, 10.0
"""Of what was sent in any ten seconds, so much may be repeats."""
TYPED = {"upstream_unavailable", "upstream_error", "outcome_unknown", "rate_limited", "timeout"}
# What agents do: mostly look, often write, sometimes ask.
_SEARCH, _REMEMBER, _ASK = "memory_search", "memory_remember", "memory_ask"
MIX = (_SEARCH, _REMEMBER, _SEARCH, _ASK, _SEARCH, _REMEMBER, _SEARCH, _ASK, _SEARCH, _REMEMBER)
HEADERS = (
    "The platform, for a while",
    "Seconds",
    "Calls meanwhile",
    "Offered",
    "Reached it",
    "Ratio",
    "Allowed",
    "What callers were told",
    "Slowest failure",
    "First success after",
    "99% again after",
)


@dataclass(frozen=True)
class Trouble:
    """How the platform fails. Without a status, nobody listens there."""

    name: str
    status: str = ""
    fields: tuple[str, ...] = ()

    @property
    def is_a_refusal(self) -> bool:
        """Whether it says that there were too many: reason to wait, none to leave it alone."""
        return self.status.startswith("429")


TROUBLES = (
    Trouble("503", "503 Service Unavailable"),
    Trouble("503, Retry-After: 1", "503 Service Unavailable", ("retry-after: 1",)),
    Trouble("429, Retry-After: 1", "429 Too Many Requests", ("retry-after: 1",)),
    Trouble("connection refused"),
)


@dataclass(frozen=True)
class Size:
    """Calls a second, and how long it is well, in trouble, and well again."""

    rate: int
    well: float
    trouble: float
    after: float
    at_once: int
    """How many troubles are tried at the same time."""
    failed: float
    """However a call fails meanwhile, it has failed after so many seconds."""


FULL = Size(rate=40, well=5, trouble=60, after=14, at_once=1, failed=15)
# The suite shares its machine with others: no call may outlive its deadline of 30 s, and that is all.
SMALL = Size(rate=20, well=2, trouble=8, after=9, at_once=4, failed=35)


@dataclass
class Moody:
    """Answers well, or as its trouble has it; notes when it was asked for what."""

    trouble: Trouble | None = None
    asked: list[tuple[float, str]] = field(default_factory=list)

    async def __call__(self, asked: Asked) -> None:
        self.asked.append((time.monotonic(), _tool_behind(asked.path)))
        if self.trouble is not None:
            body = json.dumps({"status": int(self.trouble.status[:3]), "title": self.trouble.status[4:]}).encode()
            await asked.answer(self.trouble.status, body, *self.trouble.fields)
        elif asked.path.endswith("/search"):
            await asked.answer("200 OK", b'{"query":"x","brain_id":"main","hits":[],"took_ms":1}')
        elif asked.path.endswith("/ask"):
            asked.begin_events()
            await asked.event(type="retrieve", chunks=[])
            await asked.event(type="answer_delta", delta="word")
            await asked.event(type="done", ok=True)
            await asked.end_events()
        elif asked.method == "POST" and asked.path.endswith("/documents"):
            sent = json.loads(asked.body)
            receipt = {"id": sent["path"], "path": sent["path"], "byte_size": len(sent["content"])}
            await asked.answer("201 Created", json.dumps(receipt).encode())
        else:
            await asked.answer("404 Not Found", b'{"status":404,"title":"Not Found","code":"not_found"}')

    def reached(self, since: float, until: float) -> Counter[str]:
        return Counter(tool for when, tool in self.asked if since <= when < until)


def _tool_behind(path: str) -> str:
    """Whose request this is; a look at a document belongs to the write."""
    if "/documents" in path:
        return "memory_remember"
    return {"search": "memory_search", "ask": "memory_ask"}.get(path.rpartition("/")[2], path)


@dataclass
class Called:
    """One call of the load, and what came of it."""

    tool: str
    started: float
    code: str = "nothing"
    ended: float = float("inf")


class Load:
    """Calls at a steady rate, whatever comes of them: nobody waits for an answer before the next one."""

    def __init__(self, port: int, rate: int) -> None:
        self.calls: list[Called] = []
        self._port, self._rate = port, rate
        self._under_way: set[asyncio.Task[None]] = set()

    async def go_on(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for n in range(int(seconds * self._rate)):
            await asyncio.sleep(max(0.0, begun + n / self._rate - loop.time()))
            task = asyncio.ensure_future(self._one(len(self.calls)))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        await asyncio.sleep(max(0.0, begun + seconds - loop.time()))

    async def finish(self) -> None:
        if self._under_way:
            await asyncio.wait(set(self._under_way), timeout=60)
        for task in self._under_way:
            task.cancel()

    async def _one(self, n: int) -> None:
        made = Called(MIX[n % len(MIX)], time.monotonic())
        self.calls.append(made)
        try:
            told = await call(self._port, ERAS[n // len(MIX) % 2], made.tool, _arguments(made.tool, n))
            made.code = told.code
        except OSError as error:
            made.code = f"nothing ({type(error).__name__})"
        made.ended = time.monotonic()


def _arguments(tool: str, n: int) -> dict[str, Any]:
    said = {"content": f"memory {n}"} if tool == "memory_remember" else {"query": f"question {n}"}
    return {**said, "brain": "main"}


@dataclass
class Course:
    """One trouble from beginning to end: what was called, what was asked of the platform, and when it turned."""

    size: Size
    trouble: Trouble
    calls: list[Called]
    moody: Moody
    per_call: dict[str, float]
    """Requests that one call of a tool makes while all is well."""
    began: float
    ended: float
    over: float

    def started_in(self, since: float, until: float) -> list[Called]:
        return [made for made in self.calls if since <= made.started < until]

    def offered(self, since: float, until: float) -> float:
        """Requests that the calls of a while would make, one try each."""
        return sum(self.per_call[made.tool] for made in self.started_in(since, until))

    def reached(self, since: float, until: float) -> int:
        return self.moody.reached(since, until).total()

    @property
    def ratio(self) -> float:
        return self.reached(self.began, self.ended) / self.offered(self.began, self.ended)

    @property
    def most(self) -> float:
        """How many times the offered requests may reach it.

        After a 429 a platform is not left alone, so that this is all that the budget of repeats lets through; and the
        last seconds before the trouble count towards that, which makes it a little more than a tenth.
        """
        if not self.trouble.is_a_refusal:
            return MOST
        before = self.offered(self.began - WINDOW_SECONDS, self.began)
        return 1 + REPEATS * (1 + before / self.offered(self.began, self.ended))

    @property
    def codes(self) -> Counter[str]:
        return Counter(made.code for made in self.started_in(self.began, self.ended))

    @property
    def slowest_failure(self) -> float:
        failed = [made for made in self.started_in(self.began, self.over) if made.code != "ok"]
        return max((made.ended - made.started for made in failed), default=0.0)

    @property
    def first_success(self) -> float:
        """Seconds from the return until every tool has been served once."""
        firsts = []
        for tool in sorted(set(MIX)):
            ends = [m.ended for m in self.calls if m.tool == tool and m.code == "ok" and m.ended > self.ended]
            firsts.append(min(ends, default=float("inf")) - self.ended)
        return max(firsts)

    @property
    def back(self) -> float:
        """Seconds from the return until 99% of all calls from there on are served."""
        for n in range(int((self.over - self.ended - 1) * 4)):
            calls = self.started_in(self.ended + n / 4, self.over)
            if sum(made.code == "ok" for made in calls) >= 0.99 * len(calls):
                return n / 4
        return float("inf")

    def failures(self) -> list[str]:
        untyped = {code for code in self.codes if code != "ok" and code not in TYPED}
        checks: list[tuple[bool, str]] = [
            (
                self.ratio > self.most,
                f"{self.ratio:.3f} times the offered requests reached the platform, of {self.most:.3f}",
            ),
            (bool(untyped), f"callers were told {sorted(untyped)}"),
            (self.slowest_failure > self.size.failed, f"a call failed after {self.slowest_failure:.1f} s only"),
            (self.first_success > BACK_SECONDS, f"first served {self.first_success:.1f} s after its return"),
            (self.back > BACK_SECONDS, f"served as before {self.back:.1f} s after its return"),
        ]
        if self.trouble.is_a_refusal:
            checks.append((self.ratio < 0.95, f"only {self.ratio:.2f} of the offered requests were tried: left alone"))
            others = set(self.codes) - {"ok", "rate_limited"}
            checks.append((bool(others), f"who was refused was told {sorted(others)}"))
        return [f"{self.trouble.name}: {complaint}" for failed, complaint in checks if failed]

    def row(self) -> tuple[str, ...]:
        return (
            self.trouble.name,
            f"{self.ended - self.began:.0f}",
            f"{len(self.started_in(self.began, self.ended)):,}",
            f"{self.offered(self.began, self.ended):,.0f}",
            f"{self.reached(self.began, self.ended):,}",
            f"{self.ratio:.3f}",
            f"{self.most:.3f}",
            ", ".join(f"{code} {count:,}" for code, count in self.codes.most_common()),
            f"{self.slowest_failure:.1f} s",
            f"{self.first_success:.1f} s",
            f"{self.back:.1f} s",
        )


async def course(size: Size, trouble: Trouble, port: int, platform: Platform, moody: Moody) -> Course:
    """Well, in trouble, well again, under the same load all the time."""
    load = Load(port, size.rate)
    since = time.monotonic()
    await load.go_on(size.well)
    await load.finish()
    reached, made = moody.reached(since, time.monotonic()), Counter(called.tool for called in load.calls)
    per_call = {tool: reached[tool] / made[tool] for tool in made}
    assert {called.code for called in load.calls} == {"ok"}, Counter(called.code for called in load.calls)
    await asyncio.to_thread(_begin(trouble, platform, moody))
    began = time.monotonic()
    await load.go_on(size.trouble)
    # What was called in the trouble also ends in it, however busy this machine is: nothing counts on the wrong side.
    await load.finish()
    ended = time.monotonic()
    await asyncio.to_thread(_end(trouble, platform, moody))
    await load.go_on(size.after)
    over = time.monotonic()
    await load.finish()
    return Course(size, trouble, load.calls, moody, per_call, began, ended, over)


def _begin(trouble: Trouble, platform: Platform, moody: Moody) -> Callable[[], None]:
    return (lambda: setattr(moody, "trouble", trouble)) if trouble.status else platform.go


def _end(trouble: Trouble, platform: Platform, moody: Moody) -> Callable[[], None]:
    return (lambda: setattr(moody, "trouble", None)) if trouble.status else platform.come


def run_one(size: Size, trouble: Trouble) -> Course:
    """One trouble, with a platform and a gateway process of its own."""
    moody = Moody()
    with tempfile.TemporaryDirectory() as folder, Platform(moody).running() as platform:
        settings = {"BRAINS_UPSTREAM_URL": platform.url, "BRAINS_DIALECT": "platform", "BRAINS_LOG_LEVEL": "error"}
        with process(Path(folder), **settings) as served:
            return asyncio.run(course(size, trouble, served.port, platform, moody))


def run(full: bool) -> Part:
    size, started = FULL if full else SMALL, time.monotonic()
    with ThreadPoolExecutor(size.at_once) as threads:
        courses = list(threads.map(lambda trouble: run_one(size, trouble), TROUBLES))
    claim = (
        f"A platform that answers 503 or nothing for {size.trouble:.0f} s under steady load is sent at most {MOST} "
        "times the requests it was offered, one that answers 429 what the budget of repeats allows; every caller "
        f"meanwhile is told what happened within {size.failed:.0f} s, and it is used as before within "
        f"{BACK_SECONDS:.0f} s of its return."
    )
    notes = [
        f"{size.rate} calls a second through one gateway process, half of them searches, three in ten writes, the rest "
        "questions; offered is what they would ask of the platform at one try each.",
        "Where connections are refused, nothing can reach the platform. After a 429 it is never left alone: a tenth of "
        "what was sent in any ten seconds is repeated, those before the trouble included.",
    ]
    rows, failures = [made.row() for made in courses], [line for made in courses for line in made.failures()]
    return Part("A platform in trouble", claim, HEADERS, rows, failures, time.monotonic() - started, notes)
