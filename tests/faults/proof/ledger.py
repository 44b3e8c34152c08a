"""What was written, what was said of it, and what is there: plain data, and the judge of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# The client's own connection broke: nothing was said.
BROKEN = "broken"
KEPT = frozenset({"stored", "queued"})
SILENT = frozenset({BROKEN, "outcome_unknown"})
FAILED_THOUGH_STORED, STORED_THOUGH_ABSENT = "failed though stored", "stored though absent"
# A repeat that stored nothing, and says so, of a write that an earlier try had stored: true, and of little comfort.
STORED_BEFORE = "stored by an earlier try"


@dataclass(frozen=True)
class Answer:
    """What one call came to: `stored`, `queued`, the code of an error, or `broken`."""

    said: str
    retryable: bool = False
    # Of the messages of a session's call, so many are said to be there although it failed.
    appended: int = 0
    retry_after: float = 0.0
    request_id: str = ""
    gateway: int = 0

    def __str__(self) -> str:
        return f"{self.said}+{self.appended}" if self.appended else self.said


@dataclass
class Write:
    """One write of a client, however often it had to be sent.

    `keys` are what it is counted by in the storage: one for a document or a brain, one for each message.
    """

    kind: str
    tool: str
    arguments: dict[str, Any]
    keys: tuple[str, ...]
    # Keys that other writes have too: the same words said again in a session, which is no repeat.
    shared: frozenset[str] = frozenset()
    session: str = ""
    answers: list[Answer] = field(default_factory=list)
    # Answers that the storage contradicted at the time: (which way, the story of it).
    misreports: list[tuple[str, str]] = field(default_factory=list)

    @property
    def kept(self) -> bool:
        """Whether the last thing its client heard is that it is there."""
        return bool(self.answers) and self.answers[-1].said in KEPT

    def told(self) -> str:
        return f"{self.tool} ({self.kind}) {self.keys[0]!r}: " + ", ".join(str(answer) for answer in self.answers)


def misreported(write: Write, answer: Answer, copies: Sequence[int], before: Sequence[int] = ()) -> str | None:
    """Which way an answer differs from what is there, if it does; `copies` are of each key, now and before the call."""
    earlier = before or [0] * len(copies)
    own = [(n, count) for n, (key, count) in enumerate(zip(write.keys, copies, strict=True)) if key not in write.shared]
    claimed = len(copies) if answer.said == "stored" else answer.appended
    if any(count == 0 for n, count in own if n < claimed):
        return STORED_THOUGH_ABSENT
    if answer.said in KEPT | SILENT:
        return None
    # Every other code says: of the rest nothing is there.
    denied = [(count, earlier[n]) for n, count in own if n >= claimed]
    if any(count > was for count, was in denied):
        return FAILED_THOUGH_STORED
    return STORED_BEFORE if any(count for count, _ in denied) else None


@dataclass
class Tally:
    """The figures of one kind of write."""

    sent: int = 0
    calls: int = 0
    faults: int = 0
    once: int = 0
    doubled: int = 0
    lost: int = 0
    failed_though_stored: int = 0
    stored_though_absent: int = 0
    stored_before: int = 0
    unknown: int = 0
    gave_up: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        mine, theirs = vars(self), vars(other)
        return Tally(**{name: mine[name] + theirs[name] for name in mine})

    @property
    def wrong(self) -> int:
        return self.doubled + self.lost + self.failed_though_stored + self.stored_though_absent

    def row(self) -> tuple[str, ...]:
        share = f"{self.unknown} ({self.unknown / self.calls:.2%})" if self.unknown else "0"
        before = (self.sent, self.calls, self.faults, self.once, self.doubled, self.lost)
        after = (self.failed_though_stored, self.stored_though_absent)
        return (*(f"{n:,}" for n in before + after), share, f"{self.gave_up:,}")


HEADERS = (
    "writes",
    "calls",
    "faults met",
    "stored once",
    "doubled",
    "lost",
    FAILED_THOUGH_STORED,
    STORED_THOUGH_ABSENT,
    "`outcome_unknown`",
    "gave up",
)


@dataclass
class Judgement:
    tallies: dict[str, Tally]
    failures: list[str]

    @property
    def total(self) -> Tally:
        return sum(self.tallies.values(), Tally())


def judge(writes: Sequence[Write], held: Mapping[str, int]) -> Judgement:
    """The figures by kind, and a line for each thing that should not be."""
    sent = Counter(key for write in writes for key in write.keys)
    promised = Counter(key for write in writes if write.kept for key in write.keys)
    tallies: dict[str, Tally] = {}
    failures: list[str] = []
    for write in writes:
        tally = tallies.setdefault(write.kind, Tally())
        tally.sent += 1
        tally.calls += len(write.answers)
        tally.unknown += sum(answer.said == "outcome_unknown" for answer in write.answers)
        tally.gave_up += not write.kept
        for which, story in write.misreports:
            tally.failed_though_stored += which == FAILED_THOUGH_STORED
            tally.stored_though_absent += which == STORED_THOUGH_ABSENT
            tally.stored_before += which == STORED_BEFORE
            failures += [f"{which}: {story}"] if which != STORED_BEFORE else []
        doubled = [key for key in write.keys if held.get(key, 0) > sent[key]]
        lost = [key for key in write.keys if write.kept and held.get(key, 0) < promised[key]]
        tally.doubled += bool(doubled)
        tally.lost += bool(lost)
        tally.once += not doubled and not lost and all(held.get(key, 0) for key in write.keys)
        failures += [f"doubled ({held[key]} of {sent[key]}): {key!r} in {write.told()}" for key in doubled]
        failures += [f"lost ({held.get(key, 0)} of {promised[key]}): {key!r} in {write.told()}" for key in lost]
    return Judgement(tallies, failures)


def disordered(writes: Sequence[Write], logs: Mapping[str, Sequence[str]]) -> list[str]:
    """Sessions whose log has messages in another order than they were said; `writes` are in that order."""
    failures = []
    for session, log in logs.items():
        said = [key for write in writes if write.session == session for key in write.keys if key not in write.shared]
        place = {key: n for n, key in enumerate(log)}
        found = [place[key] for key in said if key in place]
        if found != sorted(found):
            failures.append(f"out of order: session {session}")
    return failures
