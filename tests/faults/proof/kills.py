"""Part two of the proof: a gateway is killed at every point of a call, and the client sends it again by another one."""

import asyncio
import random
import tempfile
import threading
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx

from tests.faults.faults import Fault, Point, Request, hold
from tests.faults.proof import stages
from tests.faults.proof.clients import Clients, called
from tests.faults.proof.gateways import PATIENT_SECONDS, gateways
from tests.faults.proof.ledger import BROKEN, HEADERS, Judgement, Write, disordered, judge
from tests.faults.proof.nursery import Child, Nursery, nursery
from tests.faults.proof.part import Part
from tests.faults.proof.progress import Progress
from tests.faults.proof.shelves import held
from tests.faults.proof.stages import STAGES, Stage
from tests.faults.proof.weather import is_writing
from tests.faults.proof.workload import BRAIN, FILE, PAGE, REMEMBER, SESSION, TRANSCRIPT, WITH_PATH, Workload
from tests.faults.proxy import proxying
from tests.served import raw_call

POINTS = tuple(Point)
KINDS = (REMEMBER, SESSION, BRAIN, FILE, SESSION, TRANSCRIPT, WITH_PATH, PAGE)
# Requests that write in one call: a kill comes at any of them.
REQUESTS = {("platform", SESSION): 3, ("daemon", BRAIN): 2}
FULL, SMALL = 30, {"platform": 2, "daemon": 1}
LANES, TRIES = 4, 5
START_SECONDS = 60.0
SETTLE_SECONDS = 2.0


class Trap:
    """Kills a gateway at one point of its n-th writing request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._victim: Child | None = None
        self._point, self._countdown, self._cut = Point.head, 0, False

    def set(self, victim: Child, point: Point, nth: int, cut: bool) -> None:
        """`cut`: what is still on its way dies with the process."""
        with self._lock:
            self._victim, self._point, self._countdown, self._cut = victim, point, nth, cut

    def plan(self, request: Request) -> Fault | None:
        if self._point is Point.connected or not is_writing(request):
            return None
        return self._spring()

    def on_connect(self) -> Fault | None:
        return self._spring() if self._point is Point.connected else None

    def _spring(self) -> Fault | None:
        with self._lock:
            if self._victim is None:
                return None
            self._countdown -= 1
            if self._countdown > 0:
                return None
            victim, self._victim = self._victim, None
        return hold(self._point, lambda: self._kill(victim))

    def _kill(self, victim: Child) -> None:
        victim.kill()
        if self._cut:
            raise ConnectionAbortedError


@dataclass(frozen=True)
class Job:
    """One kill that is to be."""

    point: Point
    kind: str
    nth: int
    cut: bool
    tries: int = 0

    def write(self, workload: Workload) -> Write:
        made = workload.session(3) if self.kind == SESSION else workload.single(self.kind)
        return replace(made, kind=self.point.value)


def jobs(dialect: str, each: int, seed: int) -> deque[Job]:
    """Every point so many times, the kinds of write in turn, mixed."""
    chance = random.Random(seed)
    made = []
    for n, point in enumerate(POINTS):
        for turn in range(each):
            kind = KINDS[(n + turn) % len(KINDS)]
            nth = 1 if point is Point.connected else chance.randint(1, REQUESTS.get((dialect, kind), 1))
            made.append(Job(point, kind, nth, cut=bool(turn % 2)))
    chance.shuffle(made)
    return deque(made)


def run(full: bool) -> Part:
    began = time.monotonic()
    rows: list[tuple[str, ...]] = []
    failures: list[str] = []
    notes = [
        "The kind of write changes from kill to kill, and in a session's call the kill comes at any of its messages. "
        "In half of the kills the bytes under way arrive all the same, in the others they die with the process. "
        "`killed`: calls whose client got no answer, and sent it again through another gateway."
    ]
    for name, small in SMALL.items():
        if (reason := stages.missing(name)) is not None:
            notes.append(f"{name}: {reason}.")
            continue
        judgement = killed(name, FULL if full else small, seed=31)
        rows += [(name, point.value, *judgement.tallies[point.value].row()) for point in POINTS]
        rows.append((f"**{name}**", "**all**", *judgement.total.row()))
        failures += [f"{name}: {failure}" for failure in judgement.failures]
    return Part(
        title="`kill -9` of the gateway in the middle of a call",
        claim="Whenever the gateway dies, the client's second try through another one leaves the write there once.",
        headers=("platform", "killed at", *(header.replace("faults met", "killed") for header in HEADERS)),
        rows=rows,
        failures=failures,
        seconds=time.monotonic() - began,
        notes=notes,
    )


def killed(name: str, each: int, seed: int) -> Judgement:
    """So many kills at each point on one platform, and the judgement of the writes."""
    with tempfile.TemporaryDirectory(prefix="brains-proof-") as made, ExitStack() as stack:
        directory = Path(made)
        (directory / "files").mkdir()
        course = Course(
            jobs(name, each, seed), Workload(seed, directory / "files"), Progress(f"{name}, kills", each * len(POINTS))
        )
        stage = stack.enter_context(STAGES[name](directory))
        # Nothing stalls here: who gives up a call on a busy machine would tell of the machine.
        (survivor,) = stack.enter_context(gateways(1, stage.url, directory, PATIENT_SECONDS, stage.pages))
        young = stack.enter_context(nursery(directory, stage.pages))
        lanes = []
        for _ in range(LANES):
            trap = Trap()
            proxy = stack.enter_context(proxying(stage.url, trap.plan, trap.on_connect))
            lanes.append(Lane(proxy.url, trap, young, Clients([survivor.url], stage.shelf, seed=seed), course))
        asyncio.run(_all(lanes))
        time.sleep(SETTLE_SECONDS)
        return _judged(course.writes, stage)


async def _all(lanes: "list[Lane]") -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        await asyncio.gather(*(lane.work(http) for lane in lanes))


def _judged(writes: list[Write], stage: Stage) -> Judgement:
    there, logs = held(stage.shelf, sorted({write.session for write in writes if write.session}))
    judgement = judge(writes, there)
    judgement.failures += disordered(writes, logs)
    for write in writes:
        judgement.tallies[write.kind].faults += write.answers[0].said == BROKEN
    return judgement


@dataclass
class Course:
    """What is still to do, and what was written."""

    waiting: deque[Job]
    workload: Workload
    progress: Progress
    writes: list[Write] = field(default_factory=list)

    def missed(self, job: Job) -> None:
        """There was an answer first, if only that the platform was just down: another time."""
        if job.tries < TRIES:
            self.waiting.append(replace(job, tries=job.tries + 1))


class Lane:
    """One kill after the other, by a proxy of its own. The next gateway starts while one is being killed."""

    def __init__(self, proxy_url: str, trap: Trap, young: Nursery, clients: Clients, course: Course) -> None:
        self._proxy_url, self._trap, self._young = proxy_url, trap, young
        self._clients, self._course = clients, course

    async def work(self, http: httpx.AsyncClient) -> None:
        following = asyncio.create_task(self._grown(http))
        while self._course.waiting:
            job = self._course.waiting.popleft()
            victim = await following
            following = asyncio.create_task(self._grown(http))
            if await self._one(http, job, victim):
                self._course.progress.step()
            else:
                self._course.missed(job)
        (await following).kill()

    async def _one(self, http: httpx.AsyncClient, job: Job, victim: Child) -> bool:
        """A write whose gateway is killed; whether that came before an answer."""
        write = job.write(self._course.workload)
        self._course.writes.append(write)
        if job.point is not Point.connected:
            # In fair weather, so that the call's own requests are all there is to count.
            await http.post(victim.url + "/mcp", **raw_call("modern", "memory_list_brains", {}))
        self._trap.set(victim, job.point, job.nth, job.cut)
        answer = await called(http, [victim.url], 0, write)
        write.answers.append(answer)
        victim.kill()
        if answer.retryable:
            await asyncio.sleep(0.2)
            await self._clients.send(http, write)
        return answer.said == BROKEN

    async def _grown(self, http: httpx.AsyncClient) -> Child:
        """A gateway that answers."""
        child = await asyncio.to_thread(self._young.born, self._proxy_url)
        async with asyncio.timeout(START_SECONDS):
            while True:
                try:
                    if (await http.get(child.url + "/healthz")).is_success:
                        return child
                except httpx.TransportError:
                    await asyncio.sleep(0.05)
