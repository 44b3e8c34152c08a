"""Part one of the proof: writes of every kind, a third of their requests harmed on the way to the platform."""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.faults.faults import Kind
from tests.faults.proof import stages
from tests.faults.proof.clients import Clients
from tests.faults.proof.gateways import DEADLINE_SECONDS, gateways
from tests.faults.proof.ledger import HEADERS, Judgement, Write, disordered, judge
from tests.faults.proof.part import Part
from tests.faults.proof.progress import Progress
from tests.faults.proof.shelves import held
from tests.faults.proof.stages import STAGES
from tests.faults.proof.weather import Weather
from tests.faults.proof.workload import MIX, PAGE, SESSION, Workload
from tests.faults.proxy import proxying
from tests.served import raw_call

CLIENTS = 24
SETTLE_SECONDS = 10.0
UNKNOWN_SHARE = 0.01
# A page that the platform fetches has no name to look for; and a message that is late is not there, and may yet arrive.
MAY_BE_UNKNOWN = frozenset({PAGE, SESSION})
_SHOWN = 8


@dataclass(frozen=True)
class Setup:
    """One run: which platform, how many writes, and what they have to live with."""

    stage: str
    full: int
    small: int
    said: str = ""
    without: tuple[Kind, ...] = ()
    gateways: int = 2
    # So many of the calls are left by their client before the answer comes, and sent again.
    leaving: float = 0.0


SETUPS = {
    "platform": Setup("platform", 10_000, 150),
    "platform, clients leave": Setup(
        "platform",
        1_000,
        50,
        "a fifth of the calls are left by their client, which sends them again: one gateway, because two that are at "
        "work on the same call of a session know nothing of each other.",
        gateways=1,
        leaving=0.2,
    ),
    "daemon": Setup("daemon", 2_000, 60, without=(Kind.cut_in_body,)),
    "daemon, dying": Setup(
        "daemon",
        500,
        20,
        "with requests that break off in their body, which is the end of the daemon; it is restarted.",
    ),
}


@dataclass
class Run:
    """What came of the writes on one platform."""

    writes: list[Write]
    judgement: Judgement
    weather: Weather
    restarts: int

    def gave_up(self) -> Counter[str]:
        """What the last answers were of the writes that were given up."""
        last = [write.answers[-1] for write in self.writes if not write.kept]
        return Counter(f"{answer.said} ({self.weather.met(answer.request_id)})" for answer in last)

    def unknown(self) -> Counter[str]:
        """What the calls met whose outcome was not known, by kind of write."""
        answers = [(w.kind, a) for w in self.writes for a in w.answers if a.said == "outcome_unknown"]
        return Counter(f"{kind} ({self.weather.met(answer.request_id)})" for kind, answer in answers)


def run(full: bool) -> Part:
    began = time.monotonic()
    rows: list[tuple[str, ...]] = []
    failures: list[str] = []
    notes = [
        f"{CLIENTS} clients, two gateway processes; a third of the writing requests, and 2% of the looks at "
        "what is stored, meet a fault on the way. A client sends again after an error that says so, at most five "
        "times, through either gateway. The platform gives no idempotency aid."
    ]
    for name, setup in SETUPS.items():
        if (reason := stages.missing(setup.stage)) is not None:
            notes.append(f"{name}: {reason}.")
            continue
        result = written(name, setup.full if full else setup.small)
        rows += _rows(name, result.judgement)
        failures += [f"{name}: {failure}" for failure in result.judgement.failures]
        notes += [f"{name}: {note}" for note in (*filter(None, [setup.said]), *_notes(result))]
    return Part(
        title="Writes",
        claim="No write is doubled, lost, called failed when it was stored or stored when it was not; "
        "where the platform stays up, and over a thousand calls or more, at most 1% are `outcome_unknown`, and "
        "none whose read-back settles it: all but pages that the platform fetches, and messages of its sessions.",
        headers=("platform", "write", *HEADERS),
        rows=rows,
        failures=failures,
        seconds=time.monotonic() - began,
        notes=notes,
    )


def written(name: str, count: int, seed: int | None = None, deadline: float = DEADLINE_SECONDS) -> Run:
    """So many writes in one of the set-ups, and the judgement of them."""
    setup, seed = SETUPS[name], count if seed is None else seed
    with tempfile.TemporaryDirectory(prefix="brains-proof-") as made:
        directory = Path(made)
        (directory / "files").mkdir()
        weather = Weather(seed, without=setup.without)
        conversations = list(Workload(seed, directory / "files").conversations(count))
        writes = [write for conversation in conversations for write in conversation]
        with STAGES[setup.stage](directory) as stage, proxying(stage.url, weather.plan) as proxy:
            with gateways(setup.gateways, proxy.url, directory, deadline, stage.pages) as running:
                urls = [gateway.url for gateway in running]
                _warm(urls)
                weather.fair = False
                clients = Clients(
                    urls, stage.shelf, seed=seed, story=lambda write: _story(write, weather), wrote=weather.wrote
                )
                clients.leaving = setup.leaving
                progress = Progress(name, len(writes))
                asyncio.run(clients.write(conversations, CLIENTS, lambda _write: progress.step()))
                weather.fair = True
            # What is on its way when the last client has left is there when the proxy has nothing left to pass.
            proxy.settled(SETTLE_SECONDS)
            return Run(writes, _judged(writes, stage, weather), weather, stage.restarts())


def _judged(writes: list[Write], stage: stages.Stage, weather: Weather) -> Judgement:
    there, logs = held(stage.shelf, sorted({write.session for write in writes if write.session}))
    judgement = judge(writes, there)
    judgement.failures += disordered(writes, logs)
    for kind, tally in judgement.tallies.items():
        tally.faults = weather.by_write[kind]
    # While a platform is down nobody can look.
    total = judgement.total
    if not stage.restarts() and total.calls >= 1000 and total.unknown > UNKNOWN_SHARE * total.calls:
        judgement.failures.append(f"outcome_unknown: {total.unknown} of {total.calls} calls")
    if not stage.restarts():
        judgement.failures += unsettled(judgement)
    return judgement


def unsettled(judgement: Judgement) -> list[str]:
    """A line for each kind of write whose outcome was not known although a look could have told."""
    return [
        f"outcome_unknown where a look tells: {tally.unknown} of {tally.calls} calls of {kind}"
        for kind, tally in judgement.tallies.items()
        if tally.unknown and kind not in MAY_BE_UNKNOWN
    ]


def _warm(urls: list[str]) -> None:
    """What a gateway has to find out about the platform is found out in fair weather."""
    with httpx.Client(trust_env=False, timeout=60) as http:
        for url in urls:
            http.post(url + "/mcp", **raw_call("modern", "memory_list_brains", {})).raise_for_status()


def _story(write: Write, weather: Weather) -> str:
    met = [fault for answer in write.answers for fault in weather.by_request.get(answer.request_id, ())]
    return f"{write.told()} [{'; '.join(met)}]"


def _notes(result: Run) -> Iterator[str]:
    met = result.weather.by_kind
    yield f"{met.total():,} faults at {len(met)} points: {_counted(met, len(met))}."
    if unknown := result.unknown():
        yield f"`outcome_unknown`, by write and what its requests met: {_counted(unknown)}."
    if gave_up := result.gave_up():
        yield f"the last answers of what was given up: {_counted(gave_up)}."
    if before := result.judgement.total.stored_before:
        yield f"{before} repeats stored nothing and said so, of a write that an earlier try had stored."
    if result.restarts:
        yield f"it ended {result.restarts} times."


def _counted(counts: Counter[str], most: int = _SHOWN) -> str:
    shown = ", ".join(f"{name} {n:,}" for name, n in counts.most_common(most))
    rest = sum(n for _, n in counts.most_common()[most:])
    return f"{shown}, others {rest:,}" if rest else shown


def _rows(name: str, judgement: Judgement) -> list[tuple[str, ...]]:
    rows = [(name, kind, *judgement.tallies[kind].row()) for kind in MIX if kind in judgement.tallies]
    return [*rows, (f"**{name}**", "**all**", *judgement.total.row())]
