"""What one caller may take: by a clock of our own, and as HTTP tells it on both wires."""

import asyncio
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from gateway.brain.limits import _CALLERS, Allowance, Bucket, LimitReached, Limits
from tests.gateway.conftest import eventually
from tests.served import Era
from tests.tenants.people import House, Person, house, result_of

pytestmark = pytest.mark.not_quick

ERAS: tuple[Era, ...] = ("modern", "legacy")
ANN, BEN = Person("ann", "web", "red"), Person("ben", "web", "red")
# A public address, so that nothing is looked up; the platform only says that it fetched it.
PAGE = "https://93.184.216.34/page"


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


ALLOWED = Allowance(calls_per_second=5, asks_at_once=3, fetches_per_minute=6, bytes_per_minute=6000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limits(clock: Clock) -> Limits:
    return Limits(ALLOWED, clock)


def wait_told(take: object, *arguments: object) -> int:
    """The seconds that a refusal tells to wait."""
    assert callable(take)
    with pytest.raises(LimitReached) as refused:
        take(*arguments)
    assert refused.value.code == "rate_limited"
    assert refused.value.retryable
    assert refused.value.retry_after_seconds is not None
    return refused.value.retry_after_seconds


def fetch(limits: Limits, caller: str) -> None:
    with limits.hold_fetch(caller):
        pass


def test_a_bucket_is_full_at_first_empties_and_fills_steadily_to_the_brim_and_no_further() -> None:
    bucket = Bucket(per_second=2, holds=4, now=0)
    assert [bucket.take(1, 0) for _ in range(5)] == [0, 0, 0, 0, 0.5]
    assert bucket.take(1, 0.4) == pytest.approx(0.1)
    assert bucket.take(1, 0.5) == 0
    assert [bucket.take(1, 1000) for _ in range(5)] == [0, 0, 0, 0, 0.5]


def test_more_than_a_bucket_holds_is_possible_when_it_is_full_and_is_paid_for_afterwards() -> None:
    bucket = Bucket(per_second=1, holds=10, now=0)
    assert bucket.take(1, 0) == 0
    assert bucket.take(25, 0) == 1
    assert bucket.take(25, 1) == 0
    assert bucket.take(1, 1) == 16
    assert bucket.take(1, 17) == 0


def test_what_is_refused_takes_nothing() -> None:
    bucket = Bucket(per_second=1, holds=5, now=0)
    assert bucket.take(5, 0) == 0
    assert {bucket.take(5, 1) for _ in range(100)} == {4}
    assert bucket.take(5, 5) == 0


def test_calls_come_in_bursts_of_two_seconds_and_then_at_their_rate(limits: Limits, clock: Clock) -> None:
    for _ in range(10):
        limits.count_call("ann")
    assert wait_told(limits.count_call, "ann") == 1
    for _ in range(50):
        clock.now += 0.2001
        limits.count_call("ann")
        assert wait_told(limits.count_call, "ann") == 1


def test_a_rate_of_less_than_one_a_second_still_lets_one_through(clock: Clock) -> None:
    limits = Limits(replace(ALLOWED, calls_per_second=0.1), clock)
    limits.count_call("ann")
    assert wait_told(limits.count_call, "ann") == 10
    clock.now += 10
    limits.count_call("ann")


def test_so_many_answers_at_once_and_another_when_one_is_over(limits: Limits) -> None:
    with ExitStack() as under_way:
        for _ in range(3):
            under_way.enter_context(limits.hold_answer("ann"))
        for _ in range(5):
            assert wait_told(under_way.enter_context, limits.hold_answer("ann")) == 2
    with ExitStack() as under_way:
        for _ in range(3):
            under_way.enter_context(limits.hold_answer("ann"))
        wait_told(under_way.enter_context, limits.hold_answer("ann"))


def test_an_answer_that_fails_is_over_too(limits: Limits) -> None:
    for _ in range(10):
        with pytest.raises(ZeroDivisionError), limits.hold_answer("ann"), limits.hold_fetch("ben"):
            raise ZeroDivisionError
        # One page a call: by the clock, not to run out of them.
        limits._clock.now += 10  # type: ignore[attr-defined]  # the clock of this test
    with ExitStack() as under_way:
        for _ in range(3):
            under_way.enter_context(limits.hold_answer("ann"))


def test_so_many_pages_a_minute_and_two_at_once(limits: Limits, clock: Clock) -> None:
    with limits.hold_fetch("ann"), limits.hold_fetch("ann"):
        assert wait_told(fetch, limits, "ann") == 2
    for _ in range(4):
        fetch(limits, "ann")
    assert wait_told(fetch, limits, "ann") == 10
    clock.now += 10
    fetch(limits, "ann")
    assert wait_told(fetch, limits, "ann") == 10


def test_so_many_bytes_a_minute(limits: Limits, clock: Clock) -> None:
    for _ in range(6):
        limits.count_stored("ann", b"x" * 1000)
    assert wait_told(limits.count_stored, "ann", b"x") == 1
    assert wait_told(limits.count_stored, "ann", b"x" * 1000) == 10
    clock.now += 10
    limits.count_stored("ann", b"x" * 1000)
    clock.now += 60
    limits.count_stored("ann", b"x" * 60_000)
    assert wait_told(limits.count_stored, "ann", b"x") == 541


def test_what_one_caller_does_touches_no_other(limits: Limits) -> None:
    with ExitStack() as under_way:
        for _ in range(3):
            under_way.enter_context(limits.hold_answer("ann"))
        for _ in range(2):
            under_way.enter_context(limits.hold_fetch("ann"))
        for _ in range(10):
            limits.count_call("ann")
        limits.count_stored("ann", b"x" * 6000)
        for refused in (
            limits.count_call,
            lambda caller: limits.count_stored(caller, "x"),
            lambda caller: fetch(limits, caller),
        ):
            wait_told(refused, "ann")
            refused("ben")
        with limits.hold_answer("ben"), limits.hold_answer("ben"), limits.hold_answer("ben"):
            pass


def test_one_kind_of_limit_touches_no_other_kind(limits: Limits) -> None:
    for _ in range(10):
        limits.count_call("ann")
    wait_told(limits.count_call, "ann")
    limits.count_stored("ann", b"x" * 6000)
    wait_told(limits.count_stored, "ann", b"x")
    for _ in range(6):
        fetch(limits, "ann")
    with limits.hold_answer("ann"):
        pass


def test_without_an_allowance_nobody_is_limited_and_nobody_is_kept() -> None:
    limits = Limits()
    with ExitStack() as under_way:
        for _ in range(1000):
            limits.count_call("ann")
            limits.count_stored("ann", b"x" * 10**6)
            under_way.enter_context(limits.hold_answer("ann"))
            under_way.enter_context(limits.hold_fetch("ann"))
    assert not limits._uses


@pytest.mark.slow
def test_a_hundred_thousand_made_up_callers_take_no_more_memory_than_ten_thousand(limits: Limits) -> None:
    for n in range(_CALLERS):
        limits.count_call(f"made up {n}")
    tracemalloc.start()
    try:
        for n in range(_CALLERS, 100_000):
            limits.count_call(f"made up {n}")
            assert len(limits._uses) <= _CALLERS
        grown, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # What was there before was not traced: so this is all of what is kept now.
    assert grown < _CALLERS * 1500


def test_a_crowd_of_made_up_callers_does_not_make_anybody_forget_what_is_under_way(limits: Limits) -> None:
    with ExitStack() as under_way:
        for _ in range(3):
            under_way.enter_context(limits.hold_answer("ann"))
        for _ in range(2):
            under_way.enter_context(limits.hold_fetch("ben"))
        for n in range(3 * _CALLERS):
            limits.count_call(f"made up {n}")
        wait_told(under_way.enter_context, limits.hold_answer("ann"))
        wait_told(fetch, limits, "ben")
        assert len(limits._uses) <= _CALLERS + 2
    for n in range(3 * _CALLERS):
        limits.count_call(f"made up again {n}")
    assert "ann" not in limits._uses
    assert len(limits._uses) <= _CALLERS


@pytest.fixture
def small(tmp_path: Path) -> Iterator[House]:
    """A gateway that allows little of everything but calls."""
    with house(tmp_path, [ANN, BEN], asks_at_once=2, fetches_per_minute=1, stored_per_minute=1024) as found:
        yield found


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("tool", "arguments", "longest"),
    [
        ("memory_ingest_url", {"url": PAGE}, 60),
        ("memory_remember", {"content": "x" * 1024}, 60),
        ("memory_extract", {"messages": [{"role": "user", "content": "x" * 1024}]}, 60),
        ("memory_extract", {"messages": [{"role": "user", "content": "x" * 1024}], "session_id": "s"}, 60),
    ],
)
async def test_too_much_is_429_with_retry_after_and_in_the_answer_too(
    small: House, era: Era, tool: str, arguments: dict[str, object], longest: int
) -> None:
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        first, second, other = [
            await small.call(http, person, era, tool, {**arguments, "brain": "notes"}) for person in (ANN, ANN, BEN)
        ]
    assert (first.status_code, second.status_code, other.status_code) == (200, 429, 200)
    told = result_of(second)["structuredContent"]
    assert told["code"] == "rate_limited"
    assert told["retryable"]
    assert 1 <= told["retry_after_seconds"] <= longest
    assert second.headers["retry-after"] == str(told["retry_after_seconds"])
    assert not result_of(other)["isError"]
    assert "retry-after" not in first.headers


@pytest.mark.parametrize("era", ERAS)
async def test_too_many_answers_at_once_are_429_until_one_is_over(small: House, era: Era) -> None:
    small.platform.stalled.add("ann")
    arguments = {"query": "x", "brain": "notes"}

    async def are_waiting(count: int) -> bool:
        return small.platform.waiting == count

    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        asking = [asyncio.create_task(small.call(http, ANN, era, "memory_ask", arguments)) for _ in range(2)]
        await eventually(lambda: are_waiting(2))
        refused = await small.call(http, ANN, era, "memory_ask", arguments)
        other = await small.call(http, BEN, era, "memory_ask", arguments)
        for task in asking:
            task.cancel()
        # Whoever leaves gives back what they took.
        await eventually(lambda: are_waiting(0))
        small.platform.stalled.clear()
        again = await small.call(http, ANN, era, "memory_ask", arguments)
    assert (refused.status_code, other.status_code, again.status_code) == (429, 200, 200)
    assert refused.headers["retry-after"] == str(result_of(refused)["structuredContent"]["retry_after_seconds"]) == "2"


def test_so_many_calls_at_once_and_another_when_one_is_over(limits: Limits) -> None:
    with ExitStack() as under_way:
        for _ in range(ALLOWED.calls_at_once):
            under_way.enter_context(limits.hold_call("ann"))
        assert wait_told(under_way.enter_context, limits.hold_call("ann")) == 2
        under_way.enter_context(limits.hold_call("ben"))
        for n in range(_CALLERS):
            limits.count_call(f"made up {n}")
        wait_told(under_way.enter_context, limits.hold_call("ann"))
    with limits.hold_call("ann"):
        pass


@pytest.mark.parametrize("era", ERAS)
async def test_too_many_calls_at_once_are_429_until_one_is_over(tmp_path: Path, era: Era) -> None:
    """A brain that hangs is its tenant's trouble: calls that wait for it are not piled up here."""
    arguments = {"query": "x", "brain": "notes"}
    with house(tmp_path, [ANN, BEN], calls_at_once=2) as strict:
        strict.platform.stalled.add("ann")

        async def are_waiting(count: int) -> bool:
            return strict.platform.waiting == count

        async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
            searching = [asyncio.create_task(strict.call(http, ANN, era, "memory_search", arguments)) for _ in range(2)]
            await eventually(lambda: are_waiting(2))
            refused = await strict.call(http, ANN, era, "memory_search", arguments)
            other = await strict.call(http, BEN, era, "memory_search", arguments)
            for task in searching:
                task.cancel()
            await eventually(lambda: are_waiting(0))
            strict.platform.stalled.clear()
            again = await strict.call(http, ANN, era, "memory_search", arguments)
    assert (refused.status_code, other.status_code, again.status_code) == (429, 200, 200)
    assert refused.json()["code"] == "rate_limited"
    assert refused.headers["retry-after"] == "2"


@pytest.mark.parametrize("era", ERAS)
async def test_too_many_calls_are_429_before_anything_is_read(tmp_path: Path, era: Era) -> None:
    with house(tmp_path, [ANN, BEN], calls_per_second=0.001) as strict:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
            first, second, other = [
                await strict.call(http, person, era, "memory_list_brains", {}) for person in (ANN, ANN, BEN)
            ]
    assert (first.status_code, second.status_code, other.status_code) == (200, 429, 200)
    assert second.json()["code"] == "rate_limited"
    assert 900 < int(second.headers["retry-after"]) <= 1000


@pytest.mark.parametrize("era", ERAS)
async def test_those_who_share_a_tenant_have_limits_of_their_own_too(tmp_path: Path, era: Era) -> None:
    with house(tmp_path, [ANN, BEN], calls_per_second=0.001, single_tenant=True) as strict:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
            answers = [await strict.call(http, person, era, "memory_list_brains", {}) for person in (ANN, ANN, BEN)]
    assert [answer.status_code for answer in answers] == [200, 429, 200]


@pytest.mark.parametrize("era", ERAS)
async def test_a_refusal_by_the_platform_is_no_429_of_ours(small: House, era: Era) -> None:
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        answer = await small.call(http, ANN, era, "memory_search", {"query": "x", "brain": "none"})
    assert answer.status_code == 200
    assert result_of(answer)["isError"]


async def test_bytes_are_counted_and_not_characters(small: House) -> None:
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        arguments = {"content": "ä" * 500, "brain": "notes"}
        answers = [await small.call(http, ANN, "modern", "memory_remember", {**arguments, "title": t}) for t in "ab"]
    # Each is 500 characters and 1000 bytes, of which there may be 1024.
    assert [answer.status_code for answer in answers] == [200, 429]


class Elsewhere:
    """Buckets and places of others, which say what they are told to."""

    def __init__(self, *says: float | None, places: int | None = 1000) -> None:
        self.says, self.places = list(says), places
        self.held: list[str] = []
        self.asked: list[tuple[str, float, float, float]] = []

    async def take(self, bucket: str, per_second: float, holds: float, amount: float) -> float | None:
        self.asked.append((bucket, per_second, holds, amount))
        return self.says.pop(0)

    async def hold(self, name: str, most: int) -> str | None:
        if self.places is None:
            return None
        if len(self.held) >= min(self.places, most):
            return ""
        self.held.append(f"{name}#{len(self.held)}")
        return self.held[-1]

    def give_back(self, place: str) -> None:
        self.held.remove(place)


async def test_what_others_count_is_not_counted_here() -> None:
    others = Elsewhere(0, 0, 0)
    limits = Limits(Allowance(1, 8, 1, 6000), shared=others)
    await limits.admit_call("ann")
    await limits.admit_stored("ann", b"x" * 5000, "é")
    async with limits.hold_page("ann"):
        pass
    assert others.asked == [("calls:ann", 1, 2, 1), ("bytes:ann", 100, 6000, 5002), ("fetches:ann", 1 / 60, 1, 1)]
    # All of ours is still there.
    limits.count_call("ann")
    limits.count_stored("ann", b"x" * 6000)
    with limits.hold_fetch("ann"):
        pass


async def test_what_others_refuse_is_refused_in_the_same_words_as_ours() -> None:
    limits = Limits(Allowance(1, 8, 1, 6000), shared=Elsewhere(3.2, 7, 9))
    with pytest.raises(LimitReached, match="More than 1 calls a second") as caught:
        await limits.admit_call("ann")
    assert caught.value.retry_after_seconds == 4
    with pytest.raises(LimitReached, match="MiB a minute"):
        await limits.admit_stored("ann", b"x")
    with pytest.raises(LimitReached, match="More than 1 pages a minute"):
        async with limits.hold_page("ann"):
            raise AssertionError("it was let in")


async def test_while_others_do_not_say_our_own_limit_holds() -> None:
    limits = Limits(Allowance(1, 8, 1, 6000), shared=Elsewhere(None, None, None))
    await limits.admit_call("ann")
    await limits.admit_call("ann")
    with pytest.raises(LimitReached):
        await limits.admit_call("ann")


async def test_places_that_others_have_are_taken_and_are_given_back() -> None:
    others = Elsewhere(0, 0, 0, 0)
    limits = Limits(Allowance(1, 1, 1, 6000, calls_at_once=1), shared=others)
    place = await limits.admit_call("ann")
    with limits.hold_call("ann", place), pytest.raises(LimitReached, match="1 calls are under way already"):
        await limits.admit_call("ann")
    async with limits.hold_ask("ann"):
        assert [place.partition("#")[0] for place in others.held] == ["asking:ann"]
        with pytest.raises(LimitReached, match="1 answers are under way already"):
            async with limits.hold_ask("ann"):
                raise AssertionError("it was let in")
    async with limits.hold_page("ann"):
        assert [place.partition("#")[0] for place in others.held] == ["fetching:ann"]
    assert others.held == []


async def test_a_place_is_given_back_if_our_own_limit_refuses() -> None:
    others = Elsewhere(places=2)
    limits = Limits(Allowance(1, 1, 1, 6000), shared=others)
    with limits.hold_answer("ann"), pytest.raises(LimitReached):
        async with limits.hold_ask("ann"):
            raise AssertionError("it was let in")
    assert others.held == []


async def test_while_others_do_not_say_what_is_under_way_our_own_limit_holds() -> None:
    limits = Limits(Allowance(1, 1, 1, 6000), shared=Elsewhere(places=None))
    async with limits.hold_ask("ann"):
        with pytest.raises(LimitReached):
            async with limits.hold_ask("ann"):
                raise AssertionError("it was let in")


async def test_where_nobody_is_limited_others_are_not_asked() -> None:
    others = Elsewhere()
    limits = Limits(None, shared=others)
    await limits.admit_call("ann")
    await limits.admit_stored("ann", b"x")
    async with limits.hold_page("ann"):
        assert others.asked == []
