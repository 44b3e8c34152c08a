"""What became of a write: sent, looked for, sent again; every way that can go."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import pytest

from gateway.operations.errors import Absent, Doubt, GatewayError, Unsure
from gateway.operations.steps import certainty
from gateway.operations.steps.certainty import make_certain, make_certain_by_asking, make_certain_once
from tests.gateway.operations.steps.inmemory import FAILURES, unsure

LOST, LATE, ANSWERED = Doubt
NONE = ["none"]
UNKNOWN = "outcome_unknown, again"
UNAVAILABLE = "upstream_unavailable, again"
FAILED = "upstream_error, never again"
UNSEEN = ("forbidden", "no_brain", "absent")
SILENT = ["timeout", "timeout"]
PASSING = ("upstream_unavailable", "upstream_error")
ONE_LATE: list[tuple[Doubt | str, ...]] = [
    (LOST, LATE),
    *((LATE, second) for second in (*Doubt, "rate_limited", "upstream_unavailable")),
]
Certain = Callable[..., Awaitable[str]]


@dataclass
class Script:
    """What each sending comes to, and what each look finds. A word is a code; one thing too many is a failure."""

    sends: Sequence[Doubt | str]
    looks: Sequence[str] = ()
    sent: int = 0
    looked: int = 0
    order: str = ""
    error: GatewayError = field(init=False)
    _sends: Iterator[Doubt | str] = field(init=False)
    _looks: Iterator[str] = field(init=False)

    def __post_init__(self) -> None:
        self._sends, self._looks = iter(self.sends), iter(self.looks)

    async def send(self) -> str:
        self.sent, self.order = self.sent + 1, self.order + "s"
        outcome = next(self._sends)
        if isinstance(outcome, Doubt):
            raise unsure(outcome)
        if outcome != "stored":
            raise GatewayError(outcome)
        return outcome

    async def look(self) -> str | None:
        self.looked, self.order = self.looked + 1, self.order + "l"
        seen = next(self._looks)
        if seen == "absent":
            raise Absent
        if seen not in {"found", "none"}:
            raise GatewayError(seen)
        return seen if seen == "found" else None

    async def outcome(self, of: Certain, *, can_look: bool = True) -> str:
        try:
            return await (of(self.send, self.look) if can_look else of(self.send))
        except GatewayError as error:
            self.error = error
            return f"{error.code}, {'again' if error.retryable else 'never again'}"


Sends = Sequence[Doubt | str]
Row = tuple[Sends, list[str], str]
ROWS: list[Row] = [
    # It was answered.
    (["stored"], [], "stored"),
    (["forbidden"], [], "forbidden, never again"),
    (["rate_limited"], [], "rate_limited, again"),
    (["upstream_unavailable"], [], UNAVAILABLE),
    # It was not, and a look finds it.
    *[([doubt], ["found"], "found") for doubt in Doubt],
    # Nobody can look, now or ever: it is not sent again, for somebody else may have written there since.
    *[([doubt], [look], UNKNOWN) for doubt in Doubt for look in UNSEEN],
    *[([doubt], [look] * 4, UNKNOWN) for doubt in Doubt for look in PASSING],
    *[([doubt], SILENT, UNKNOWN) for doubt in Doubt],
    *[([doubt], [*PASSING, "timeout", "found"], "found") for doubt in Doubt],
    *[([doubt, "stored"], ["timeout", *PASSING, "none"], "stored") for doubt in (LOST, LATE)],
    ([ANSWERED], [*PASSING, "none"], FAILED),
    ([LOST, LOST], ["none", *PASSING, *NONE * 2], UNAVAILABLE),
    ([LOST, LOST], [*NONE * 4, "rate_limited"], UNKNOWN),
    # Something else is there.
    *[([doubt], ["conflict"], "conflict, never again") for doubt in Doubt],
    # It is not there, and it was answered: it was not made.
    ([ANSWERED], NONE, FAILED),
    # It is not there: it is sent again.
    ([LOST, "stored"], NONE, "stored"),
    ([LATE, "stored"], NONE, "stored"),
    # And again without a telling answer: it is looked for, for a while.
    *[
        ([first, last], [*NONE * before, "found"], "found")
        for first in (LOST, LATE)
        for last in Doubt
        for before in (1, 4)
    ],
    ([LOST, "rate_limited"], [*NONE * 2, "found"], "found"),
    ([LOST, LOST], NONE * 5, UNAVAILABLE),
    ([LOST, ANSWERED], NONE * 5, FAILED),
    ([LOST, "rate_limited"], NONE * 5, "rate_limited, again"),
    ([LOST, "forbidden"], NONE * 5, "forbidden, never again"),
    ([LOST, "upstream_unavailable"], NONE * 5, UNAVAILABLE),
    # One of them may still be under way: four times in all.
    *[([first, *second, "stored"], NONE * 5, "stored") for first, *second in ONE_LATE],
    *[([first, *second, LOST, "stored"], NONE * 9, "stored") for first, *second in ONE_LATE],
    *[([first, *second, last], [*NONE * 5, "found"], "found") for first, *second in ONE_LATE for last in Doubt],
    *[([first, *second, LOST, last], NONE * 13, UNKNOWN) for first, *second in ONE_LATE for last in Doubt],
    ([LATE, "rate_limited", "upstream_unavailable", "rate_limited"], NONE * 13, UNKNOWN),
    ([LATE, LOST, LOST], [*NONE * 5, *SILENT], UNKNOWN),
    ([LOST, LOST], ["none", *SILENT], UNKNOWN),
    ([LOST, LOST], ["none", "none", "absent"], UNKNOWN),
    ([LOST, "conflict"], ["none", "conflict"], "conflict, never again"),
]


def named(value: object) -> str | None:
    return "-".join(map(str, value)) or "no look" if isinstance(value, list) else None


@pytest.mark.parametrize(("sends", "looks", "expected"), ROWS, ids=named)
async def test_a_write_whose_repeat_is_the_same(sends: Sends, looks: list[str], expected: str) -> None:
    script = Script(sends, looks)
    assert await script.outcome(make_certain) == expected
    assert (script.sent, script.looked) == (len(sends), len(looks)), "neither more nor less than that"


async def test_it_is_looked_for_before_it_is_sent_again() -> None:
    script = Script([LOST, LOST], NONE * 5)
    await script.outcome(make_certain)
    assert script.order == "slsllll"


ONCE: list[Row] = [
    (["stored"], [], "stored"),
    (["forbidden"], [], "forbidden, never again"),
    *[([doubt], [*NONE * before, "found"], "found") for doubt in Doubt for before in (0, 1, 3)],
    # Whether it may be tried again depends: one that is late could arrive beside its repeat.
    *[([doubt], looks, UNKNOWN) for doubt in (LOST, ANSWERED) for looks in (SILENT, ["forbidden"], ["absent"])],
    *[([LATE], looks, "outcome_unknown, never again") for looks in (SILENT, ["forbidden"], ["absent"])],
    # Only what never arrived is sent again, and only after the last look.
    ([LOST, "stored"], NONE * 4, "stored"),
    ([LATE], NONE * 4, "outcome_unknown, never again"),
    ([ANSWERED], NONE * 4, FAILED),
    ([LOST, "rate_limited"], NONE * 4, "rate_limited, again"),
    ([LOST, LOST], [*NONE * 4, "found"], "found"),
    ([LOST, LOST], NONE * 8, UNAVAILABLE),
    ([LOST, ANSWERED], NONE * 8, FAILED),
    ([LOST, LATE], NONE * 8, "outcome_unknown, never again"),
    ([LOST, LOST], [*NONE * 4, *SILENT], UNKNOWN),
    # A look that fails is tried again, for as long.
    *[([doubt], [*PASSING, "found"], "found") for doubt in Doubt],
    ([LOST, "stored"], [*PASSING, "none", "none"], "stored"),
    ([ANSWERED], [*PASSING, "none", "none"], FAILED),
    ([ANSWERED], ["none", "none", "none", "rate_limited"], UNKNOWN),
    ([LATE], ["rate_limited"] * 4, "outcome_unknown, never again"),
]


@pytest.mark.parametrize(("sends", "looks", "expected"), ONCE, ids=named)
async def test_a_write_that_must_not_be_made_twice(sends: Sends, looks: list[str], expected: str) -> None:
    script = Script(sends, looks)
    assert await script.outcome(make_certain_once) == expected
    assert (script.sent, script.looked) == (len(sends), len(looks)), "neither more nor less than that"


@pytest.mark.parametrize("looks", [NONE * 4, SILENT, ["absent"]], ids=named)
async def test_what_may_arrive_late_without_harm_may_be_tried_again(looks: list[str]) -> None:
    script = Script([LATE], looks)
    assert await script.outcome(partial(make_certain_once, late_is_harmless=True)) == UNKNOWN
    assert (script.sent, script.looked) == (1, len(looks))


ASKED: list[Row] = [
    (["stored"], [], "stored"),
    (["fetch_failed"], [], "fetch_failed, again"),
    (["validation_error"], [], "validation_error, never again"),
    *[([doubt], ["found"], "found") for doubt in Doubt],
    # That it is not where it may be, or that nobody can look there, proves nothing.
    *[([doubt, "stored"], [look], "stored") for doubt in Doubt for look in ("none", "timeout", "absent", "conflict")],
    *[([doubt, doubt], ["none", "found"], "found") for doubt in Doubt],
    *[([doubt, doubt, "stored"], NONE * 2, "stored") for doubt in Doubt],
    *[([doubt] * 3 + ["stored"], NONE * 3, "stored") for doubt in Doubt],
    *[([doubt] * 4, NONE * 4, UNKNOWN) for doubt in Doubt],
    # That one certainly failed says nothing of the one before.
    *[([doubt, *[code] * 3], NONE * 4, UNKNOWN) for doubt in Doubt for code in ("validation_error", "rate_limited")],
    ([LOST, "rate_limited", "stored"], NONE * 2, "stored"),
    ([LOST, "rate_limited"], ["none", "found"], "found"),
]


@pytest.mark.parametrize(("sends", "looks", "expected"), ASKED, ids=named)
async def test_a_write_that_the_platform_names_is_asked_for_four_times_at_most(
    sends: Sends, looks: list[str], expected: str
) -> None:
    script = Script(sends, looks)
    assert await script.outcome(make_certain_by_asking) == expected
    assert (script.sent, script.looked) == (len(sends), len(looks)), "neither more nor less than that"


@pytest.mark.parametrize(
    ("sends", "expected"),
    [([LOST, "stored"], "stored"), ([LATE, LOST, LOST, ANSWERED], UNKNOWN), (["conflict"], "conflict, never again")],
)
async def test_where_there_is_nothing_to_look_at_it_is_only_asked_for(sends: Sends, expected: str) -> None:
    script = Script(sends)
    assert await script.outcome(make_certain_by_asking, can_look=False) == expected
    assert script.sent == len(sends)


FAILING = [(make_certain, *row) for row in ROWS] + [(make_certain_once, *row) for row in ONCE]


@pytest.mark.parametrize(("of", "sends", "looks", "expected"), [row for row in FAILING if ", " in row[-1]], ids=named)
async def test_only_who_knows_says_that_nothing_was_stored(
    of: Certain, sends: Sends, looks: list[str], expected: str
) -> None:
    script = Script(sends, looks)
    assert await script.outcome(of) == expected
    says_so = "Nothing was stored." in script.error.message
    invites = "Send the same call again" in script.error.message
    assert invites is (expected == UNKNOWN)
    assert not (says_so and script.error.code in {"outcome_unknown", "conflict"})
    if isinstance(sends[-1], Doubt) and set(looks) == {"none"} and script.error.code != "outcome_unknown":
        assert says_so
        assert script.error.message.count("Nothing was stored.") == 1


async def test_how_long_to_wait_survives_the_doubt() -> None:
    failure = GatewayError("upstream_unavailable", retry_after_seconds=7)

    async def send() -> str:
        raise Unsure(failure, Doubt.ANSWERED)

    async def look() -> None:
        return None

    with pytest.raises(GatewayError) as caught:
        await make_certain(send, look)
    assert (caught.value.code, caught.value.retry_after_seconds) == ("upstream_unavailable", 7)


async def test_a_look_waits_as_long_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(certainty, "PAUSES", (0.0, 0.2, 0.5))
    monkeypatch.setattr("gateway.operations.steps.certainty.asyncio.sleep", sleep)
    await Script([LOST, LOST], NONE * 4).outcome(make_certain)
    assert slept == [0.0, 0.0, 0.2, 0.5]


def test_every_doubt_has_a_failure_of_its_own() -> None:
    assert set(FAILURES) == set(Doubt)
