"""When a request is sent again: one table, and one policy from what is known of a failure."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from tenacity import RetryCallState, wait_random_exponential

from gateway.operations.errors import GatewayError
from gateway.operations.table import Kind, Op
from gateway.upstream import retry
from gateway.upstream.exchange import Heard
from gateway.upstream.retry import (
    Collided,
    TurnedAway,
    raise_if_turned_away,
    raise_if_worth_another,
    retrying,
)

NOT_SENT = [httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout]
LOST = [httpx.ReadError, httpx.WriteError, httpx.CloseError, httpx.RemoteProtocolError]
NEVER_REPEATED = [
    httpx.ReadTimeout,
    httpx.WriteTimeout,
    httpx.DecodingError,
    httpx.LocalProtocolError,
    httpx.UnsupportedProtocol,
]
SENT = sorted(set(Op) - {Op.FETCH_PAGE})
# What a model makes costs anew each time, like an answer.
READS = {op for op in SENT if op.reads} - {Op.DERIVE}
STORES = {op for op in SENT if op.stores}
SAME = {
    Op.CREATE_BRAIN,
    Op.CREATE_BARE_BRAIN,
    Op.CREATE_DOCUMENT,
    Op.WRITE_DOCUMENT,
    Op.BATCH_WRITE,
    Op.INGEST_TEXT,
}
REPEATED = sorted(READS | SAME)
ONCE = sorted(set(SENT) - READS - SAME)
# All others: three.
ATTEMPTS = {Op.EXTRACT: 2, Op.ASK: 2, Op.DERIVE: 2, Op.INGEST_TEXT: 2}
BACKOFF = retry._BACKOFF


def always() -> bool:
    return True


async def attempts(
    op: Op, *failures: Exception, seconds: float = 30, may_repeat: Callable[[], bool] = always
) -> tuple[int, Exception | None, list[float]]:
    """How often a request is sent that fails like this, what comes of it in the end, and the waits between."""
    waits: list[float] = []

    async def no_wait(seconds: float) -> None:
        waits.append(seconds)

    sent = 0
    try:
        async for attempt in retrying(op, seconds=seconds, may_repeat=may_repeat).copy(sleep=no_wait):
            with attempt:
                sent += 1
                if sent <= len(failures):
                    raise failures[sent - 1]
    except (httpx.HTTPError, GatewayError, TurnedAway, Collided) as error:
        return sent, error, waits
    return sent, None, waits


def turned_away(status: int, retry_after: str | None = None) -> TurnedAway:
    headers = {} if retry_after is None else {"retry-after": retry_after}
    return TurnedAway(Heard(httpx.Response(status, headers=headers), b""))


# The table.


def test_every_operation_that_is_sent_has_a_policy() -> None:
    assert {op for op in SENT if op.policy.repeats} == set(REPEATED)
    assert {op: op.policy.attempts for op in SENT} == {op: ATTEMPTS.get(op, 3) for op in SENT}


def test_what_fails_together_is_of_one_kind() -> None:
    assert {op for op in SENT if op.policy.kind is Kind.READ} == READS
    assert {op for op in SENT if op.policy.kind is Kind.ASK} == {Op.ASK}
    assert {op for op in SENT if op.policy.kind is Kind.DERIVE} == {Op.DERIVE}
    assert {op for op in SENT if op.policy.kind is Kind.WRITE} >= STORES


def test_every_operation_has_a_deadline() -> None:
    named = {
        "first_event": {Op.ASK},
        "ingest": {Op.INGEST_FILE, Op.INGEST_TEXT, Op.INGEST_URL},
        "stage": {Op.EXTRACT, Op.CLOSE_SESSION, Op.REFLECT, Op.CONSOLIDATE, Op.COMPILE, Op.DERIVE},
    }
    for op in SENT:
        assert op.policy.deadline == next((name for name, ops in named.items() if op in ops), "read"), op


# Not sent.


@pytest.mark.parametrize("failure", NOT_SENT)
@pytest.mark.parametrize("op", SENT)
async def test_what_never_left_is_sent_again_whatever_it_is(op: Op, failure: type[httpx.HTTPError]) -> None:
    assert (await attempts(op, failure("x")))[:2] == (2, None)


@pytest.mark.parametrize("op", SENT)
async def test_so_many_attempts_are_all_and_the_last_failure_is_told(op: Op) -> None:
    failures = [httpx.ConnectError(str(n)) for n in range(5)]
    most = ATTEMPTS.get(op, 3)
    assert (await attempts(op, *failures))[:2] == (most, failures[most - 1])


async def test_a_write_that_lost_a_race_on_the_platforms_disk_is_made_again() -> None:
    assert (await attempts(Op.WRITE_DOCUMENT, Collided()))[:2] == (2, None)


# Maybe sent.


@pytest.mark.parametrize("failure", [*(kind("x") for kind in LOST), *map(turned_away, (502, 503, 504))], ids=repr)
@pytest.mark.parametrize("op", REPEATED)
async def test_what_may_have_arrived_is_sent_again_where_a_repeat_is_the_same(op: Op, failure: Exception) -> None:
    assert (await attempts(op, failure))[:2] == (2, None)
    assert (await attempts(op, *[failure] * 5))[:2] == (ATTEMPTS.get(op, 3), failure)


@pytest.mark.parametrize("failure", [*(kind("x") for kind in LOST), *map(turned_away, (502, 503, 504))], ids=repr)
@pytest.mark.parametrize("op", ONCE)
async def test_what_may_have_arrived_is_never_sent_again_otherwise(op: Op, failure: Exception) -> None:
    assert (await attempts(op, failure))[:2] == (1, failure)
    not_sent = httpx.ConnectError("x")
    assert (await attempts(op, not_sent, failure))[:2] == (2, failure)


@pytest.mark.parametrize("failure", [kind("x") for kind in NEVER_REPEATED] + [GatewayError("forbidden")], ids=repr)
@pytest.mark.parametrize("op", SENT)
async def test_what_ran_out_of_time_or_made_no_sense_is_not_repeated(op: Op, failure: Exception) -> None:
    assert (await attempts(op, failure))[:2] == (1, failure)


# Refused.


def in_seconds(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("op", SENT)
async def test_what_was_told_to_wait_waits_and_is_sent_again_whatever_it_is(op: Op, status: int) -> None:
    for header in ("7", in_seconds(7)):
        sent, error, waits = await attempts(op, turned_away(status, header))
        assert (sent, error) == (2, None)
        assert 5.9 <= waits[0] <= 7.7


@pytest.mark.parametrize("op", SENT)
async def test_what_was_asked_to_slow_down_waits_a_moment_even_if_not_told_how_long(op: Op) -> None:
    sent, error, (wait,) = await attempts(op, turned_away(429))
    assert (sent, error) == (2, None)
    assert wait <= 2


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(("header", "seconds"), [("31", 300.0), ("10", 5.0), ("3600", 300.0)])
async def test_nobody_waits_longer_than_the_deadline_or_half_a_minute(status: int, header: str, seconds: float) -> None:
    refused = turned_away(status, header)
    assert await attempts(Op.SEARCH, refused, seconds=seconds) == (1, refused, [])


async def test_what_may_come_back_at_once_does() -> None:
    assert await attempts(Op.APPEND_MESSAGE, turned_away(503, "0")) == (2, None, [0.0])


async def test_a_wait_that_was_asked_for_ends_within_the_deadline() -> None:
    """Else the call would end in the middle of it, and be told of a timeout."""
    for _ in range(50):
        sent, _, waits = await attempts(Op.CREATE_DOCUMENT, turned_away(429, "10"), seconds=10.1)
        assert sent == 1 or waits[0] <= 10.1


async def test_not_all_come_back_at_the_same_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = {(await attempts(Op.SEARCH, turned_away(429, "10")))[2][0] for _ in range(20)}
    assert len(waits) > 10
    assert all(10 <= wait <= 11 for wait in waits)


@pytest.mark.parametrize("header", [None, "soon", "-1"])
async def test_a_503_that_does_not_say_when_is_no_refusal(header: str | None) -> None:
    failure = turned_away(503, header)
    assert not failure.is_refusal
    assert (await attempts(Op.APPEND_MESSAGE, failure))[:2] == (1, failure)


@pytest.mark.parametrize(
    ("status", "is_busy"), [(200, 0), (404, 0), (429, 0), (500, 0), (501, 0), (502, 1), (503, 1), (504, 1)]
)
def test_a_proxys_answer_is_no_answer_unless_the_platform_wrote_it(status: int, is_busy: int) -> None:
    own = httpx.Response(status, json={"code": "fetch_failed"})
    raise_if_turned_away(Heard(own, own.content))
    page = httpx.Response(status, html="<h1>Bad Gateway</h1>")
    if is_busy:
        with pytest.raises(TurnedAway) as caught:
            raise_if_turned_away(Heard(page, page.content))
        assert caught.value.heard == Heard(page, page.content)
    else:
        raise_if_turned_away(Heard(page, page.content))


@pytest.mark.parametrize("op", [Op.SEARCH, Op.WRITE_DOCUMENT, Op.ASK])
@pytest.mark.parametrize("status", [200, 400, 428, 430, 501, 503])
def test_only_429_asks_to_slow_down(status: int, op: Op) -> None:
    raise_if_worth_another(op, Heard(httpx.Response(status), b""))
    with pytest.raises(TurnedAway):
        raise_if_worth_another(op, Heard(httpx.Response(429), b""))


@pytest.mark.parametrize("op", sorted(set(Op) - {Op.FETCH_PAGE}))
def test_a_question_that_the_platform_failed_to_answer_is_asked_again_and_a_write_is_not_made_again(op: Op) -> None:
    with pytest.raises(TurnedAway) if op.reads else nullcontext():
        raise_if_worth_another(op, Heard(httpx.Response(500), b""))


# How long, and how often.


def after_attempt(number: int) -> float:
    state = RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]
    state.attempt_number = number
    return float(BACKOFF(state))


@pytest.mark.parametrize(("attempt", "most"), [(1, 0.1), (2, 0.2), (3, 0.4), (5, 1.6), (6, 2), (30, 2)])
def test_waits_are_anything_from_nothing_to_twice_the_one_before(attempt: int, most: float) -> None:
    """Full jitter: what failed together does not come back together."""
    assert isinstance(BACKOFF, wait_random_exponential)
    waits = [after_attempt(attempt) for _ in range(400)]
    assert 0 <= min(waits) < 0.1 * most
    assert 0.9 * most < max(waits) <= most


async def test_nothing_is_repeated_without_a_budget() -> None:
    failure = httpx.ConnectError("x")
    assert await attempts(Op.SEARCH, failure, may_repeat=lambda: False) == (1, failure, [])


@pytest.mark.parametrize(
    ("op", "failures", "asked"),
    [
        (Op.SEARCH, [], 0),
        (Op.SEARCH, [httpx.ConnectError("x")], 1),
        (Op.SEARCH, [httpx.ConnectError("x")] * 3, 2),
        (Op.SEARCH, [httpx.ReadTimeout("x")], 0),
        (Op.APPEND_MESSAGE, [httpx.ReadError("x")], 0),
        (Op.SEARCH, [turned_away(429, "31")], 0),
        (Op.SEARCH, [GatewayError("forbidden")], 0),
    ],
)
async def test_the_budget_is_asked_last(op: Op, failures: list[Exception], asked: int) -> None:
    """What is given up for another reason takes nothing from it."""
    times: list[float] = []

    def may_repeat() -> bool:
        times.append(time.monotonic())
        return True

    await attempts(op, *failures, may_repeat=may_repeat)
    assert len(times) == asked
