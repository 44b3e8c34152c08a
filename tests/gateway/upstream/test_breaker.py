"""A platform that fails is left alone, and looked at now and then."""

import asyncio
from typing import Any

import httpx
import pytest

from gateway.operations.errors import GatewayError
from gateway.upstream.breaker import Breaker
from gateway.upstream.exchange import Heard
from gateway.upstream.retry import FAILURES, TurnedAway
from tests.gateway.upstream.platforms import Clock

WELL = None
DOWN = httpx.ConnectError("down")


class Watched:
    """A breaker, its clock, and requests that go as they are told."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.breaker = Breaker("read", self.clock)

    def request(self, *ends: BaseException | None) -> list[str]:
        """What becomes of requests that would end so: `well`, `failed`, or `refused` without being made."""
        return [self._one(end) for end in ends]

    def _one(self, end: BaseException | None) -> str:
        was_made = False
        try:
            self.breaker.let_through()
            was_made = True
            if end is not None:
                # As the pipeline does.
                if isinstance(end, FAILURES):
                    self.breaker.fail()
                raise end
            self.breaker.succeed()
        except GatewayError as error:
            if was_made:
                return "failed"
            self.refusal = error
            return "refused"
        except (httpx.HTTPError, TurnedAway, LookupError, asyncio.CancelledError):
            return "failed"
        return "well"


@pytest.fixture
def watched() -> Watched:
    return Watched()


def is_open(watched: Watched) -> bool:
    return watched.request(WELL) == ["refused"]


def opened() -> Watched:
    watched = Watched()
    watched.request(*[DOWN] * 20)
    return watched


@pytest.mark.parametrize(
    ("well", "down", "opens"),
    [(0, 19, False), (0, 20, True), (10, 9, False), (10, 10, True), (11, 10, False), (11, 11, True), (100, 99, False)],
)
def test_it_opens_once_half_of_twenty_failed(watched: Watched, well: int, down: int, opens: bool) -> None:
    watched.request(*[WELL] * well, *[DOWN] * down)
    assert is_open(watched) is opens


def test_failures_of_long_ago_do_not_count(watched: Watched) -> None:
    watched.request(*[DOWN] * 19)
    watched.clock.now += 11.1
    watched.request(DOWN)
    assert not is_open(watched)


def test_failures_spread_over_ten_seconds_count(watched: Watched) -> None:
    for _ in range(20):
        watched.request(DOWN)
        watched.clock.now += 0.45
    assert is_open(watched)


def test_while_it_is_open_nothing_is_sent_and_how_long_is_told() -> None:
    watched = opened()
    assert watched.request(*[WELL] * 50) == ["refused"] * 50
    error = watched.refusal
    assert (error.code, error.retryable, error.retry_after_seconds) == ("upstream_unavailable", True, 5)
    watched.clock.now += 3.5
    assert is_open(watched)
    assert watched.refusal.retry_after_seconds == 2


def test_one_request_every_five_seconds_is_let_through() -> None:
    watched = opened()
    for _ in range(5):
        watched.clock.now += 4.9
        assert is_open(watched)
        watched.clock.now += 0.1
        assert watched.request(DOWN, DOWN, WELL) == ["failed", "refused", "refused"]


def test_while_one_is_on_its_way_no_other_is_let_through() -> None:
    watched = opened()
    watched.clock.now += 5
    watched.breaker.let_through()
    assert is_open(watched)
    watched.breaker.succeed()
    assert not is_open(watched)


def test_one_that_never_comes_back_does_not_keep_it_open_for_ever() -> None:
    """As when its caller leaves."""
    watched = opened()
    watched.clock.now += 5
    assert watched.request(asyncio.CancelledError(), WELL) == ["failed", "refused"]
    watched.clock.now += 5
    assert watched.request(WELL, WELL) == ["well", "well"]


def test_a_success_closes_it_and_what_was_is_forgotten() -> None:
    watched = opened()
    watched.clock.now += 5
    assert watched.request(WELL, *[DOWN] * 5, WELL) == ["well", *["failed"] * 5, "well"]
    watched.request(*[DOWN] * 20)
    assert is_open(watched), "it opens again, for new reasons"


def turned_away(status: int, **headers: str) -> TurnedAway:
    response = httpx.Response(status, headers={k.replace("_", "-"): v for k, v in headers.items()})
    return TurnedAway(Heard(response, b""))


@pytest.mark.parametrize(
    "failure",
    [
        httpx.ConnectError("x"),
        httpx.ConnectTimeout("x"),
        httpx.ReadError("x"),
        httpx.ReadTimeout("x"),
        httpx.WriteError("x"),
        httpx.RemoteProtocolError("x"),
        turned_away(502),
        turned_away(503),
        turned_away(503, retry_after="3"),
        turned_away(504),
    ],
    ids=repr,
)
def test_what_could_not_be_reached_or_heard_counts(watched: Watched, failure: Exception) -> None:
    watched.request(*[failure] * 20)
    assert is_open(watched)


@pytest.mark.parametrize(
    "failure", [GatewayError("forbidden"), GatewayError("upstream_error"), httpx.PoolTimeout("x"), KeyError()], ids=repr
)
def test_what_is_no_failure_of_the_platform_does_not_count(watched: Watched, failure: Any) -> None:
    watched.request(*[failure] * 50)
    assert not is_open(watched)


def test_a_timeout_that_is_told_to_it_counts(watched: Watched) -> None:
    for _ in range(20):
        watched.breaker.fail()
    assert is_open(watched)


def test_where_callers_are_many_one_of_them_alone_does_not_open_it() -> None:
    """What fails for one may be their brain alone: the others go on."""
    clock = Clock()
    breaker = Breaker("read", clock, shared=True)
    for _ in range(40):
        breaker.fail("noisy")
    assert not breaker.is_open
    breaker.fail("other")
    assert breaker.is_open


def test_where_callers_are_many_a_failure_of_long_ago_is_nobody_s() -> None:
    clock = Clock()
    breaker = Breaker("read", clock, shared=True)
    breaker.fail("other")
    clock.now += 11
    for _ in range(40):
        breaker.fail("noisy")
    assert not breaker.is_open
