"""Every fault, seen by a client and a target that know bytes alone, and by httpx."""

import asyncio
import socket
from email.utils import parsedate_to_datetime
from time import time

import httpx
import pytest

from tests.faults.faults import Fault, Kind, Request
from tests.faults.proxy import Proxy, proxying
from tests.faults.raw import (
    ANSWER,
    ANSWER_BODY,
    ANSWER_HEAD,
    HEAD,
    REQUEST,
    WAIT,
    alone,
    always,
    between,
    connected,
    raw_target,
    silent,
    soon,
)

# What the client is left with when the connection ends, and what has reached the target.
CUTS = {
    Kind.cut_before: (b"", []),
    Kind.cut_in_headers: (b"", [HEAD[: len(HEAD) // 2]]),
    Kind.cut_in_body: (b"", [HEAD + b"1234"]),
    Kind.cut_after_request: (b"", [REQUEST]),
    Kind.drop_answer: (b"", [REQUEST]),
    Kind.cut_in_answer_headers: (ANSWER_HEAD[: len(ANSWER_HEAD) // 2], [REQUEST]),
    Kind.cut_after_answer_headers: (ANSWER_HEAD, [REQUEST]),
    Kind.cut_in_answer_body: (ANSWER_HEAD + ANSWER_BODY[:5], [REQUEST]),
    Kind.half_close: (b"", [REQUEST]),
}


@pytest.mark.parametrize("kind", CUTS)
async def test_a_cut_leaves_each_side_with_exactly_this(kind: Kind) -> None:
    received, delivered = CUTS[kind]
    async with raw_target() as target, between(always(kind), target) as proxy:
        async with connected(proxy) as client:
            assert await client.rest() == received
        await asyncio.to_thread(proxy.settled, WAIT)
        if delivered:
            await soon(target.left)
        assert target.connections == delivered


async def test_a_request_without_a_body_is_cut_after_it() -> None:
    bare = b"GET /v1/x HTTP/1.1\r\nHost: here\r\n\r\n"
    async with raw_target() as target, between(always(Kind.cut_in_body), target) as proxy:
        async with connected(proxy, bare) as client:
            assert await client.rest() == b""
        await soon(target.left)
        assert target.connections == [bare]


async def test_an_answer_without_a_body_is_cut_in_its_head() -> None:
    answer = b"HTTP/1.1 204 No Content\r\nX-Mark: yes\r\n\r\n"
    async with alone(always(Kind.cut_in_answer_body), answer) as client:
        assert await client.rest() == answer[: len(answer) // 2]


async def test_an_answer_is_cut_after_as_many_bytes_as_wanted_while_it_comes() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    endless = chunked + b"5\r\nhello\r\n" + b"5\r\nworld\r\n"  # and no end
    cut = Fault(Kind.cut_in_answer_body, after=13)
    async with alone(lambda _request: cut, endless) as client:
        assert await client.rest() == endless[: len(chunked) + 13]


async def test_a_cut_after_the_request_does_not_wait_for_the_answer_and_lets_the_target_finish() -> None:
    async with raw_target(gated=True) as target, between(always(Kind.cut_after_request), target) as proxy:
        async with connected(proxy) as client:
            assert await client.rest() == b""
            await soon(target.arrived)
            assert (target.ended, proxy.open_connections) == ([], 1)
            target.gate.set()
        await soon(target.left)


@pytest.mark.parametrize("kind", [Kind.drop_answer, Kind.reset, Kind.commit_then_502])
async def test_a_lost_answer_is_lost_only_once_it_is_there(kind: Kind) -> None:
    async with raw_target(gated=True) as target, between(always(kind), target) as proxy:
        async with connected(proxy) as client:
            await soon(target.arrived)
            assert await silent(client)
            target.gate.set()
        await soon(target.left)


async def test_a_reset_is_a_reset() -> None:
    async with raw_target() as target, between(always(Kind.reset), target) as proxy:
        async with connected(proxy) as client:
            with pytest.raises(ConnectionResetError):
                await client.rest()
        assert target.connections == [REQUEST]


async def test_a_half_closed_connection_ends_when_the_client_leaves() -> None:
    async with raw_target() as target, between(always(Kind.half_close), target) as proxy:
        async with connected(proxy) as client:
            assert await client.rest() == b""
            client.writer.write(b"still heard")
            await client.writer.drain()
            assert not await asyncio.to_thread(proxy.settled, 0.1)
        await soon(target.left)


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [(Kind.stall_before, [], []), (Kind.late, [], [REQUEST]), (Kind.stall_after, [REQUEST], [REQUEST])],
)
async def test_a_stall_lasts_until_the_client_gives_up(kind: Kind, before: list[bytes], after: list[bytes]) -> None:
    async with raw_target() as target, between(always(kind), target) as proxy:
        async with connected(proxy) as client:
            assert await silent(client)
            assert target.connections == before
        if after:
            await soon(target.left)
        await asyncio.to_thread(proxy.settled, WAIT)
        assert target.connections == after


async def test_a_late_request_may_come_later_still() -> None:
    later = Fault(Kind.late, delay=0.3)
    async with raw_target() as target, between(lambda _request: later, target) as proxy:
        async with connected(proxy) as client:
            assert await silent(client)
        assert not await asyncio.to_thread(proxy.settled, 0.1)
        assert target.connections == []
        await soon(target.left)
        assert target.connections == [REQUEST]


async def test_a_dripping_answer_comes_in_pieces_and_is_complete() -> None:
    drip = Fault(Kind.drip, piece=7, pause=0.005)
    async with alone(lambda _request: drip, ANSWER) as client:
        first = await client.reader.read(1 << 16)
        assert len(first) < len(ANSWER)
        assert first + await client.exactly(len(ANSWER) - len(first)) == ANSWER


async def test_a_slow_start_is_a_pause_and_no_more() -> None:
    slow = Fault(Kind.slow_accept, seconds=0.3)
    async with raw_target() as target, between(None, target) as proxy:
        proxy.on_connect = lambda: slow
        async with connected(proxy) as client:
            assert await silent(client)
            assert target.connections == []
            assert await client.exactly(len(ANSWER)) == ANSWER


async def test_a_connection_may_be_cut_before_anything_was_read() -> None:
    async with raw_target() as target, between(None, target) as proxy:
        proxy.on_connect = lambda: Fault(Kind.cut_before)
        async with connected(proxy, b"") as client:
            assert await client.rest() == b""
        assert (target.connections, proxy.seen) == ([], [])


async def test_a_duplicate_is_delivered_twice_and_answered_once() -> None:
    async with raw_target() as target, between(always(Kind.duplicate), target) as proxy:
        async with connected(proxy) as client:
            assert await client.exactly(len(ANSWER)) == ANSWER
            assert await silent(client)
        assert target.connections == [REQUEST, REQUEST]


async def test_a_double_answer_comes_twice_on_one_connection() -> None:
    async with raw_target() as target, between(always(Kind.double_answer), target) as proxy:
        async with connected(proxy) as client:
            assert await client.exactly(2 * len(ANSWER)) == ANSWER * 2
        assert target.connections == [REQUEST]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_another_status_takes_the_place_of_the_answer(status: int) -> None:
    async with raw_target() as target, between(always(Kind(f"commit_then_{status}")), target) as proxy:
        answer = await post(proxy)
        assert (answer.status_code, answer.json()["status"]) == (status, status)
        assert answer.headers["content-type"] == "application/problem+json"
        assert "retry-after" not in answer.headers
        assert target.connections[0].endswith(b"12345678")


@pytest.mark.parametrize("status", [429, 503])
async def test_a_refusal_forwards_nothing_and_says_when_to_come_back(status: int) -> None:
    kind = Kind(f"refuse_{status}")
    async with raw_target() as target, between(lambda _request: Fault(kind, seconds=7), target) as proxy:
        in_seconds = await post(proxy)
        proxy.plan = lambda _request: Fault(kind, seconds=60, as_date=True)
        as_date = await post(proxy)
        assert [in_seconds.status_code, as_date.status_code] == [status, status]
        assert in_seconds.headers["retry-after"] == "7"
        assert 50 < parsedate_to_datetime(as_date.headers["retry-after"]).timestamp() - time() <= 60
        assert target.connections == []


# What httpx makes of it. A client that repeats what was certainly not sent must not take any of these for that.
RAISED: dict[Kind, tuple[type[Exception], ...]] = {
    Kind.cut_before: (httpx.RemoteProtocolError, httpx.ReadError),
    Kind.cut_in_headers: (httpx.RemoteProtocolError, httpx.ReadError),
    Kind.cut_in_body: (httpx.RemoteProtocolError,),
    Kind.cut_after_request: (httpx.RemoteProtocolError,),
    Kind.drop_answer: (httpx.RemoteProtocolError,),
    Kind.cut_in_answer_headers: (httpx.RemoteProtocolError,),
    Kind.cut_after_answer_headers: (httpx.RemoteProtocolError,),
    Kind.cut_in_answer_body: (httpx.RemoteProtocolError,),
    Kind.reset: (httpx.ReadError,),
    Kind.half_close: (httpx.RemoteProtocolError,),
    Kind.stall_before: (httpx.ReadTimeout,),
    Kind.late: (httpx.ReadTimeout,),
    Kind.stall_after: (httpx.ReadTimeout,),
}


async def post(proxy: Proxy) -> httpx.Response:
    async with httpx.AsyncClient(timeout=httpx.Timeout(WAIT, read=0.3)) as client:
        return await client.post(f"{proxy.url}/v1/x", content=b"12345678")


@pytest.mark.parametrize("kind", RAISED)
async def test_httpx_raises_what_means_perhaps_sent(kind: Kind) -> None:
    async with raw_target() as target, between(always(kind), target) as proxy:
        with pytest.raises(RAISED[kind]):
            await post(proxy)


@pytest.mark.parametrize("kind", [Kind.drip, Kind.slow_accept, Kind.duplicate, Kind.double_answer])
async def test_httpx_gets_the_answer_all_the_same(kind: Kind) -> None:
    async with raw_target() as target, between(always(kind), target) as proxy:
        assert (await post(proxy)).content == ANSWER_BODY


def test_every_kind_is_tried() -> None:
    tried = {*RAISED, Kind.drip, Kind.slow_accept, Kind.duplicate, Kind.double_answer, Kind.hold}
    statuses = {kind for kind in Kind if kind.startswith(("commit_then_", "refuse_"))}
    assert tried | statuses == set(Kind)


async def test_requests_pass_unchanged_on_one_connection() -> None:
    chunked = b"PUT /y HTTP/1.1\r\nhost: X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n"
    async with raw_target() as target, between(None, target) as proxy:
        async with connected(proxy, REQUEST + chunked + REQUEST) as client:
            assert await client.exactly(3 * len(ANSWER)) == ANSWER * 3
            assert target.connections == [REQUEST + chunked + REQUEST]
            assert proxy.open_connections == 2
        assert [passed.request.n for passed in proxy.seen] == [1, 2, 3]
        seen = proxy.seen[0].request
        assert (seen.method, seen.path, seen.headers["x-mark"]) == ("POST", "/v1/x?q=1", "yes")


ANSWERS = {
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "empty": b"HTTP/1.1 204 No Content\r\n\r\n",
    "until the end": b"HTTP/1.1 200 OK\r\n\r\nabc",
    "closing": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
}


@pytest.mark.parametrize("answer", ANSWERS)
async def test_answers_pass_unchanged(answer: str) -> None:
    raw = ANSWERS[answer]
    ends = answer in {"until the end", "closing"}
    async with alone(None, raw, REQUEST if ends else REQUEST * 2, ends) as client:
        assert (await client.rest() if ends else await client.exactly(2 * len(raw))) == (raw if ends else raw * 2)


async def test_an_answer_to_head_has_no_body() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
    request = b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"
    async with alone(None, answer, request * 2) as client:
        assert await client.exactly(2 * len(answer)) == answer * 2


async def test_pieces_of_an_answer_pass_as_they_come() -> None:
    started = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    async with raw_target(started) as target, between(None, target) as proxy:
        async with connected(proxy) as client:
            assert await client.exactly(len(started)) == started
        await soon(target.left)


async def test_a_client_that_leaves_is_a_target_that_is_left() -> None:
    async with raw_target(gated=True) as target, between(None, target) as proxy:
        async with connected(proxy):
            await soon(target.arrived)
        assert await asyncio.to_thread(proxy.settled, WAIT)


async def test_a_target_that_hangs_up_is_a_client_that_is_hung_up_on() -> None:
    async with alone(None, ANSWER, ends=True) as client:
        assert await client.rest() == ANSWER


async def test_a_plan_chooses_among_requests() -> None:
    def second(request: Request) -> Fault | None:
        return Fault(Kind.drop_answer) if request.n == 2 else None

    async with raw_target() as target, between(second, target) as proxy:
        async with connected(proxy, REQUEST * 3) as client:
            assert await client.rest() == ANSWER
        assert target.connections == [REQUEST * 2]
        assert [passed.fault for passed in proxy.seen] == [None, Fault(Kind.drop_answer)]


async def test_a_target_that_is_not_there_is_a_closed_connection() -> None:
    with proxying("http://127.0.0.1:1") as proxy:
        async with connected(proxy) as client:
            assert await client.rest() == b""


def test_a_plan_that_fails_fails_the_test() -> None:
    def broken(_request: Request) -> Fault | None:
        raise LookupError("no such case")

    with socket.create_server(("127.0.0.1", 0)) as target:
        url = f"http://127.0.0.1:{target.getsockname()[1]}"
        with pytest.raises(LookupError), proxying(url, broken) as proxy, pytest.raises(httpx.HTTPError):
            httpx.get(proxy.url)
