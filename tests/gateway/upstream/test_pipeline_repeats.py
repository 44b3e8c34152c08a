"""What the client makes of requests that are sent again: the last word, the deadline, the budget and the breakers."""

import asyncio
import time
from contextlib import AbstractAsyncContextManager, suppress
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from gateway.operations.caller import Call, Caller
from gateway.operations.errors import Absent, Doubt, GatewayError, Unsure
from gateway.operations.table import Op, Upload
from gateway.upstream import pipeline as client_module
from gateway.upstream import retry
from gateway.upstream.deadlines import Deadlines
from gateway.upstream.dialects.platform import PLATFORM
from gateway.upstream.pipeline import Upstream
from gateway.upstream.wire.transport import pooled_client
from tests.gateway.operations.steps.inmemory import refusal
from tests.gateway.upstream.platforms import Clock, reaching

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


class Peer:
    """Answers each request as the next says: a status, a failure on the wire; the last says it for all the rest."""

    def __init__(self, *answers: int | str | type[httpx.TransportError], body: Any = None) -> None:
        self.answers = answers
        self.body = {"id": "d", "items": []} if body is None else body
        self.requests: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(f"{request.method} {request.url.path}")
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(answer, type):
            raise answer("lost")
        status, _, wait = str(answer).partition(" after ")
        headers = {"retry-after": wait} if wait else {}
        return httpx.Response(int(status), json=self.body if int(status) < 300 else {}, headers=headers)


def upstream_to(peer: Peer, **options: Any) -> AbstractAsyncContextManager[Upstream]:
    http = pooled_client(httpx.MockTransport(peer))
    return reaching("http://platform.example", PLATFORM, http=http, **options)


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
async def test_what_was_told_to_wait_is_sent_again_and_answered(op: Op, refused: str) -> None:
    peer = Peer(refused, refused, GOOD)
    async with upstream_to(peer) as upstream:
        assert ((await upstream.send(Call(), op, ARGS)).answer)["id"] == "d"
    assert len(peer.requests) == 3


@pytest.mark.parametrize(
    ("refused", "code", "seconds"),
    [("429", "rate_limited", None), ("429 after 3", "rate_limited", 3), ("503 after 3", "upstream_unavailable", 3)],
)
@pytest.mark.parametrize("op", [Op.SEARCH, Op.CREATE_DOCUMENT, Op.APPEND_MESSAGE])
@pytest.mark.usefixtures("unhurried")
async def test_what_is_refused_three_times_was_not_made(op: Op, refused: str, code: str, seconds: int | None) -> None:
    peer = Peer(refused)
    async with upstream_to(peer) as upstream:
        error = await failed(upstream, op)
    assert (error.code, error.retryable, error.retry_after_seconds) == (code, True, seconds)
    assert len(peer.requests) == 3


LATER = [httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, "429", "429 after 31", "503 after 31"]


@pytest.mark.parametrize("later", LATER, ids=lambda later: getattr(later, "__name__", later))
@pytest.mark.parametrize("first", [httpx.ReadError, httpx.RemoteProtocolError, 502])
@pytest.mark.usefixtures("unhurried")
async def test_a_write_that_may_have_arrived_once_is_in_doubt_whatever_became_of_its_repeats(
    first: Any, later: Any
) -> None:
    """That the second never left, or was refused, says nothing of the first."""
    async with upstream_to(Peer(first, later)) as upstream:
        error = await failed(upstream, Op.CREATE_DOCUMENT)
    assert error.code == "outcome_unknown"
    assert isinstance(error, Unsure)
    assert error.doubt is not Doubt.ANSWERED


async def test_a_write_whose_repeat_is_not_let_through_is_in_doubt() -> None:
    """As when the breaker opens between the two."""
    peer = Peer(httpx.ReadError)
    async with upstream_to(peer, clock=Clock()) as upstream:
        for _ in range(19):
            await failed(upstream, Op.APPEND_MESSAGE)
        assert (await failed(upstream, Op.CREATE_DOCUMENT)).code == "outcome_unknown"
        assert len(peer.requests) == 20
        assert (await failed(upstream, Op.CREATE_DOCUMENT)).code == "upstream_unavailable", "this one was never sent"
        assert len(peer.requests) == 20


@pytest.mark.parametrize("body", [{"id": "d"}, {"id": "d", "status": "processing"}, {"id": "d", "status": "completed"}])
@pytest.mark.parametrize("op", [Op.CREATE_DOCUMENT, Op.INGEST_FILE, Op.APPEND_MESSAGE])
async def test_what_was_taken_and_is_not_yet_done_is_queued(op: Op, body: dict[str, str]) -> None:
    async with upstream_to(Peer(202, body=body)) as upstream:
        assert (await upstream.send(Call(), op, ARGS)).answer == {**body, "status": "queued"}
    async with upstream_to(Peer(201, body=body)) as upstream:
        assert (await upstream.send(Call(), op, ARGS)).answer == body


async def test_what_was_taken_without_a_word_is_queued_too() -> None:
    """Were it a doubt, a look would find nothing, and say that nothing was stored."""
    http = pooled_client(httpx.MockTransport(lambda _request: httpx.Response(202)))
    async with reaching("http://platform.example", PLATFORM, http=http) as upstream:
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
    age: float | None, before: list[Op], op: Op, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "time", SimpleNamespace(monotonic=Clock(5000.0)))
    call = Call(began=None if age is None else 5000.0 - age)
    async with upstream_to(Peer(GOOD)) as upstream:
        for earlier in before:
            upstream._seconds_for(call, earlier)
        assert upstream._seconds_for(call, op) == seconds


async def test_no_operation_gets_more_than_its_own_time() -> None:
    async with upstream_to(Peer(GOOD), deadlines=Deadlines(read=2)) as upstream:
        for began in (None, time.monotonic(), time.monotonic() - 1000):
            assert upstream._seconds_for(Call(began=began), Op.SEARCH) <= 2


async def test_a_call_that_has_used_up_its_time_may_still_look() -> None:
    async with upstream_to(Peer(GOOD)) as upstream:
        assert (await upstream.send(Call(began=time.monotonic() - 10_000), Op.STAT_DOCUMENT, ARGS)).answer


async def test_all_attempts_share_one_deadline() -> None:
    async def hang(_request: httpx.Request) -> httpx.Response:
        sent.append(1)
        if len(sent) == 1:
            raise httpx.ReadError("x")
        await asyncio.sleep(60)
        raise AssertionError("it was waited for")

    sent: list[int] = []
    http = pooled_client(httpx.MockTransport(hang))
    async with reaching("http://x.example", PLATFORM, http=http, deadlines=Deadlines(read=0.2)) as upstream:
        error = await failed(upstream, Op.CREATE_DOCUMENT)
    assert isinstance(error, Unsure)
    assert (error.doubt, error.failure.code, len(sent)) == (Doubt.LATE, "timeout", 2)


# The budget.


async def test_repeats_are_a_tenth_of_what_is_asked_and_at_least_three() -> None:
    peer = Peer(*[GOOD] * 100, 500, httpx.ReadError)
    async with upstream_to(peer, clock=Clock()) as upstream:
        for _ in range(100):
            await upstream.send(Call(), Op.SEARCH, ARGS)
        await failed(upstream, Op.SEARCH)
        for _ in range(9):
            await failed(upstream, Op.SEARCH)
    assert len(peer.requests) == 110 + 11


async def test_one_caller_does_not_use_up_the_repeats_of_another() -> None:
    peer = Peer(httpx.ReadError)
    async with upstream_to(peer, clock=Clock()) as upstream:
        for _ in range(3):
            await failed(upstream, Op.CREATE_DOCUMENT, "ada")
        assert len(peer.requests) == 3 + 3
        for n in range(8):
            await failed(upstream, Op.APPEND_MESSAGE, f"c{n}")
        before = len(peer.requests)
        await failed(upstream, Op.CREATE_DOCUMENT, "ada")
        assert len(peer.requests) == before + 1


# The breakers.

DOWN: list[Any] = [httpx.ConnectError, httpx.ReadError, httpx.ReadTimeout, 502, 503, 504, "503 after 60"]


@pytest.mark.parametrize("down", DOWN, ids=lambda down: getattr(down, "__name__", str(down)))
async def test_a_platform_that_is_down_is_left_alone_and_found_again(down: Any) -> None:
    peer, clock = Peer(down), Clock()
    async with upstream_to(peer, clock=clock) as upstream:
        for _ in range(20):
            await failed(upstream, Op.SEARCH)
        asked = len(peer.requests)
        assert asked == 20
        error = await failed(upstream, Op.SEARCH)
        assert (error.code, error.retryable, error.retry_after_seconds) == ("upstream_unavailable", True, 5)
        assert (await failed(upstream, Op.LIST_DOCUMENTS)).retry_after_seconds == 5, "it is a read as well"
        clock.now += 5
        await failed(upstream, Op.SEARCH)
        await failed(upstream, Op.SEARCH)
        assert len(peer.requests) == asked + 1, "one to see"
        clock.now += 5
        peer.answers = (GOOD,)
        for _ in range(3):
            assert (await upstream.send(Call(), Op.SEARCH, ARGS)).answer


async def test_what_fails_of_one_kind_leaves_the_others_alone() -> None:
    peer = Peer(*[503] * 20, GOOD)
    async with upstream_to(peer, clock=Clock()) as upstream:
        for _ in range(20):
            await failed(upstream, Op.APPEND_MESSAGE)
        assert (await failed(upstream, Op.CREATE_DOCUMENT)).code == "upstream_unavailable"
        assert (await upstream.send(Call(), Op.SEARCH, ARGS)).answer
        assert len(peer.requests) == 21


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, "429 after 60", 500])
async def test_what_a_platform_answers_never_opens_a_breaker(status: int | str) -> None:
    peer = Peer(status)
    async with upstream_to(peer, clock=Clock()) as upstream:
        for _ in range(60):
            with suppress(GatewayError, Absent):
                await upstream.send(Call(), Op.COMPILE, ARGS)
        peer.answers, before = (GOOD,), len(peer.requests)
        with suppress(Absent):
            await upstream.send(Call(), Op.CONSOLIDATE, ARGS)
        assert len(peer.requests) == before + 1


async def test_an_answer_that_never_comes_opens_a_breaker() -> None:
    async def hang(_request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(60)
        raise AssertionError("it was waited for")

    http = pooled_client(httpx.MockTransport(hang))
    async with reaching("http://x.example", PLATFORM, http=http, deadlines=Deadlines(read=0.1)) as upstream:
        errors = await asyncio.gather(*(failed(upstream, Op.SEARCH) for _ in range(20)))
        assert {error.code for error in errors} == {"timeout"}
        assert (await failed(upstream, Op.SEARCH)).code == "upstream_unavailable"
