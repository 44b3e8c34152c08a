"""What the client makes of requests that are sent again: the last word, the deadline, the budget and the breakers."""

import asyncio
import itertools
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, suppress
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import respx

from gateway.operations.caller import Call, Caller
from gateway.operations.errors import Absent, Doubt, GatewayError, Unsure
from gateway.operations.table import Op, Upload
from gateway.upstream import pipeline as client_module
from gateway.upstream import retry
from gateway.upstream.deadlines import Deadlines
from gateway.upstream.dialects.platform import PLATFORM
from gateway.upstream.pipeline import Upstream
from tests.gateway.operations.steps.inmemory import refusal
from tests.gateway.upstream.platforms import PLATFORM_URL, Clock, client_of, reaching

ARGS: dict[str, Any] = {
    "brain": "b1",
    "session_id": "s1",
    "query": "x",
    "path": "a.md",
    "title": "A",
    "content": "x",
    "metadata": {},
    "role": "user",
    "body": b"x",
    "upload": Upload("a.md", "text/markdown", b"# A"),
}
GOOD = 200


def answers(
    platform: respx.MockRouter, *told: int | str | type[httpx.TransportError], body: Any = None
) -> respx.MockRouter:
    """Each request is answered as the next says: a status, a failure on the wire; the last says it for all the rest."""

    def effects() -> Iterator[httpx.Response | type[httpx.TransportError]]:
        for told_now in itertools.chain(told, itertools.repeat(told[-1])):
            if isinstance(told_now, type):
                yield told_now
                continue
            status, _, wait = str(told_now).partition(" after ")
            said = {} if int(status) >= 300 else {"id": "d", "items": []} if body is None else body
            yield httpx.Response(int(status), json=said, headers={"retry-after": wait} if wait else {})

    platform.route().mock(side_effect=effects())
    return platform


def upstream_to(platform: respx.MockRouter, **options: Any) -> AbstractAsyncContextManager[Upstream]:
    return reaching(PLATFORM_URL, PLATFORM, http=client_of(platform), **options)


async def failed(upstream: Upstream, op: Op, caller: str = "local") -> GatewayError:
    return await refusal(upstream.send(Call(Caller(caller)), op, ARGS))


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a platform asks to wait is not waited for here."""
    monkeypatch.setattr(retry, "_wait", lambda _state: 0.0)


# The last word.


@pytest.mark.parametrize("op", [Op.SEARCH, Op.CREATE_DOCUMENT, Op.APPEND_MESSAGE, Op.CONSOLIDATE])
@pytest.mark.parametrize("refused", ["429", "429 after 3", "503 after 3"])
@pytest.mark.usefixtures("unhurried")
async def test_what_was_told_to_wait_is_sent_again_and_answered(
    op: Op, refused: str, platform: respx.MockRouter
) -> None:
    answers(platform, refused, refused, GOOD)
    async with upstream_to(platform) as upstream:
        assert ((await upstream.send(Call(), op, ARGS)).answer)["id"] == "d"
    assert platform.calls.call_count == 3


@pytest.mark.parametrize(
    ("refused", "code", "seconds"),
    [("429", "rate_limited", None), ("429 after 3", "rate_limited", 3), ("503 after 3", "upstream_unavailable", 3)],
)
@pytest.mark.parametrize("op", [Op.SEARCH, Op.CREATE_DOCUMENT, Op.APPEND_MESSAGE])
@pytest.mark.usefixtures("unhurried")
async def test_what_is_refused_three_times_was_not_made(
    op: Op, refused: str, code: str, seconds: int | None, platform: respx.MockRouter
) -> None:
    answers(platform, refused)
    async with upstream_to(platform) as upstream:
        error = await failed(upstream, op)
    assert (error.code, error.retryable, error.retry_after_seconds) == (code, True, seconds)
    assert platform.calls.call_count == 3


LATER = [httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, "429", "429 after 31", "503 after 31"]


@pytest.mark.parametrize("later", LATER, ids=lambda later: getattr(later, "__name__", later))
@pytest.mark.parametrize("first", [httpx.ReadError, httpx.RemoteProtocolError, 502])
@pytest.mark.usefixtures("unhurried")
async def test_a_write_that_may_have_arrived_once_is_in_doubt_whatever_became_of_its_repeats(
    first: Any, later: Any, platform: respx.MockRouter
) -> None:
    """That the second never left, or was refused, says nothing of the first."""
    async with upstream_to(answers(platform, first, later)) as upstream:
        error = await failed(upstream, Op.CREATE_DOCUMENT)
    assert error.code == "outcome_unknown"
    assert isinstance(error, Unsure)
    assert error.doubt is not Doubt.ANSWERED


async def test_a_write_whose_repeat_is_not_let_through_is_in_doubt(platform: respx.MockRouter) -> None:
    """As when the breaker opens between the two."""
    answers(platform, httpx.ReadError)
    async with upstream_to(platform, clock=Clock()) as upstream:
        for _ in range(19):
            await failed(upstream, Op.APPEND_MESSAGE)
        assert (await failed(upstream, Op.CREATE_DOCUMENT)).code == "outcome_unknown"
        assert platform.calls.call_count == 20
        assert (await failed(upstream, Op.CREATE_DOCUMENT)).code == "upstream_unavailable", "this one was never sent"
        assert platform.calls.call_count == 20


@pytest.mark.parametrize("body", [{"id": "d"}, {"id": "d", "status": "processing"}, {"id": "d", "status": "completed"}])
@pytest.mark.parametrize("op", [Op.CREATE_DOCUMENT, Op.INGEST_FILE, Op.APPEND_MESSAGE])
async def test_what_was_taken_and_is_not_yet_done_is_queued(
    op: Op, body: dict[str, str], platform: respx.MockRouter
) -> None:
    async with upstream_to(answers(platform, 202, body=body)) as upstream:
        assert (await upstream.send(Call(), op, ARGS)).answer == {**body, "status": "queued"}
    async with upstream_to(answers(platform, 201, body=body)) as upstream:
        assert (await upstream.send(Call(), op, ARGS)).answer == body


async def test_what_was_taken_without_a_word_is_queued_too(platform: respx.MockRouter) -> None:
    """Were it a doubt, a look would find nothing, and say that nothing was stored."""
    platform.route().respond(202)
    async with upstream_to(platform) as upstream:
        assert (await upstream.send(Call(), Op.CREATE_DOCUMENT, ARGS)).answer == {"status": "queued"}


# The deadline of a call.


@pytest.mark.parametrize(
    ("age", "before", "op", "seconds"),
    [
        (0, [], Op.SEARCH, 30),
        (10, [], Op.SEARCH, 20),
        (26, [], Op.SEARCH, 5),
        (1000, [], Op.SEARCH, 5),
        (10, [], Op.INGEST_FILE, 290),
        # The longest of its operations is what a call may take.
        (100, [Op.INGEST_FILE], Op.READ_DOCUMENT, 30),
        (280, [Op.INGEST_FILE], Op.READ_DOCUMENT, 20),
        (299, [Op.INGEST_FILE], Op.READ_DOCUMENT, 5),
        (100, [Op.SEARCH], Op.READ_DOCUMENT, 5),
        (None, [], Op.SEARCH, 30),
        (None, [Op.INGEST_FILE], Op.SEARCH, 30),
    ],
)
async def test_all_requests_of_a_call_share_its_time_and_the_last_get_a_little(
    age: float | None,
    before: list[Op],
    op: Op,
    seconds: float,
    monkeypatch: pytest.MonkeyPatch,
    platform: respx.MockRouter,
) -> None:
    monkeypatch.setattr(client_module, "time", SimpleNamespace(monotonic=Clock(5000.0)))
    call = Call(began=None if age is None else 5000.0 - age)
    async with upstream_to(answers(platform, GOOD)) as upstream:
        for earlier in before:
            upstream._seconds_for(call, earlier)
        assert upstream._seconds_for(call, op) == seconds


async def test_no_operation_gets_more_than_its_own_time(platform: respx.MockRouter) -> None:
    async with upstream_to(answers(platform, GOOD), deadlines=Deadlines(read=2)) as upstream:
        for began in (None, time.monotonic(), time.monotonic() - 1000):
            assert upstream._seconds_for(Call(began=began), Op.SEARCH) <= 2


async def test_a_call_that_has_used_up_its_time_may_still_look(platform: respx.MockRouter) -> None:
    async with upstream_to(answers(platform, GOOD)) as upstream:
        assert (await upstream.send(Call(began=time.monotonic() - 10_000), Op.STAT_DOCUMENT, ARGS)).answer


async def test_all_attempts_share_one_deadline(platform: respx.MockRouter) -> None:
    async def hang(_request: httpx.Request) -> httpx.Response:
        # respx counts a request when it was answered, and the second never is.
        sent.append(1)
        if len(sent) == 1:
            raise httpx.ReadError("x")
        await asyncio.sleep(60)
        raise AssertionError("it was waited for")

    sent: list[int] = []
    platform.route().mock(side_effect=hang)
    async with upstream_to(platform, deadlines=Deadlines(read=0.2)) as upstream:
        error = await failed(upstream, Op.CREATE_DOCUMENT)
    assert isinstance(error, Unsure)
    assert (error.doubt, error.failure.code, len(sent)) == (Doubt.LATE, "timeout", 2)


# The budget.


async def test_repeats_are_a_tenth_of_what_is_asked_and_at_least_three(platform: respx.MockRouter) -> None:
    answers(platform, *[GOOD] * 100, 500, httpx.ReadError)
    async with upstream_to(platform, clock=Clock()) as upstream:
        for _ in range(100):
            await upstream.send(Call(), Op.SEARCH, ARGS)
        await failed(upstream, Op.SEARCH)
        for _ in range(9):
            await failed(upstream, Op.SEARCH)
    assert platform.calls.call_count == 110 + 11


async def test_one_caller_does_not_use_up_the_repeats_of_another(platform: respx.MockRouter) -> None:
    answers(platform, httpx.ReadError)
    async with upstream_to(platform, clock=Clock()) as upstream:
        for _ in range(3):
            await failed(upstream, Op.CREATE_DOCUMENT, "ada")
        assert platform.calls.call_count == 3 + 3
        for n in range(8):
            await failed(upstream, Op.APPEND_MESSAGE, f"c{n}")
        before = platform.calls.call_count
        await failed(upstream, Op.CREATE_DOCUMENT, "ada")
        assert platform.calls.call_count == before + 1


# The breakers.

DOWN: list[Any] = [httpx.ConnectError, httpx.ReadError, httpx.ReadTimeout, 502, 503, 504, "503 after 60"]


@pytest.mark.parametrize("down", DOWN, ids=lambda down: getattr(down, "__name__", str(down)))
async def test_a_platform_that_is_down_is_left_alone_and_found_again(down: Any, platform: respx.MockRouter) -> None:
    answers(platform, down)
    clock = Clock()
    async with upstream_to(platform, clock=clock) as upstream:
        for _ in range(20):
            await failed(upstream, Op.SEARCH)
        asked = platform.calls.call_count
        assert asked == 20
        error = await failed(upstream, Op.SEARCH)
        assert (error.code, error.retryable, error.retry_after_seconds) == ("upstream_unavailable", True, 5)
        assert (await failed(upstream, Op.LIST_DOCUMENTS)).retry_after_seconds == 5, "it is a read as well"
        clock.now += 5
        await failed(upstream, Op.SEARCH)
        await failed(upstream, Op.SEARCH)
        assert platform.calls.call_count == asked + 1, "one to see"
        clock.now += 5
        answers(platform, GOOD)
        for _ in range(3):
            assert (await upstream.send(Call(), Op.SEARCH, ARGS)).answer


async def test_what_fails_of_one_kind_leaves_the_others_alone(platform: respx.MockRouter) -> None:
    answers(platform, *[503] * 20, GOOD)
    async with upstream_to(platform, clock=Clock()) as upstream:
        for _ in range(20):
            await failed(upstream, Op.APPEND_MESSAGE)
        assert (await failed(upstream, Op.CREATE_DOCUMENT)).code == "upstream_unavailable"
        assert (await upstream.send(Call(), Op.SEARCH, ARGS)).answer
        assert platform.calls.call_count == 21


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, "429 after 60", 500])
async def test_what_a_platform_answers_never_opens_a_breaker(status: int | str, platform: respx.MockRouter) -> None:
    answers(platform, status)
    async with upstream_to(platform, clock=Clock()) as upstream:
        for _ in range(60):
            with suppress(GatewayError, Absent):
                await upstream.send(Call(), Op.COMPILE, ARGS)
        answers(platform, GOOD)
        before = platform.calls.call_count
        with suppress(Absent):
            await upstream.send(Call(), Op.CONSOLIDATE, ARGS)
        assert platform.calls.call_count == before + 1


async def test_an_answer_that_never_comes_opens_a_breaker(platform: respx.MockRouter) -> None:
    async def hang(_request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(60)
        raise AssertionError("it was waited for")

    platform.route().mock(side_effect=hang)
    async with upstream_to(platform, deadlines=Deadlines(read=0.1)) as upstream:
        errors = await asyncio.gather(*(failed(upstream, Op.SEARCH) for _ in range(20)))
        assert {error.code for error in errors} == {"timeout"}
        assert (await failed(upstream, Op.SEARCH)).code == "upstream_unavailable"
