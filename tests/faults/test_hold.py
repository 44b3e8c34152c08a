"""An exchange that is held at a point of it, so that somebody may do harm of their own there."""

import asyncio
import threading

import pytest

from tests.faults.faults import Point, hold
from tests.faults.raw import (
    ANSWER,
    ANSWER_BODY,
    ANSWER_HEAD,
    REQUEST,
    WAIT,
    alone,
    between,
    connected,
    raw_target,
    silent,
)

# What the client has when its exchange has come to a point.
POINTS = {
    Point.head: b"",
    Point.body_half: b"",
    Point.delivered: b"",
    Point.committed: b"",
    Point.answer_head: ANSWER_HEAD,
    Point.answer_half: ANSWER_HEAD + ANSWER_BODY[:5],
    Point.answered: ANSWER,
}
# And whether the whole request has reached the target by then.
DELIVERED = set(POINTS) - {Point.head, Point.body_half}


@pytest.mark.parametrize("point", POINTS)
async def test_an_exchange_held_at_a_point_goes_on_when_told(point: Point) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def stop() -> None:
        reached.set()
        go_on.wait(WAIT)

    async with raw_target() as target, between(lambda _request: hold(point, stop), target) as proxy:
        async with connected(proxy) as client:
            assert await asyncio.to_thread(reached.wait, WAIT)
            came = POINTS[point]
            assert await client.exactly(len(came)) == came
            assert await silent(client)
            assert target.arrived.is_set() == (point in DELIVERED)
            go_on.set()
            assert came + await client.exactly(len(ANSWER) - len(came)) == ANSWER
        assert target.connections == [REQUEST]


@pytest.mark.parametrize("point", POINTS)
async def test_an_exchange_held_for_good_ends_when_the_client_gives_up(point: Point) -> None:
    came = POINTS[point]
    reached = threading.Event()
    async with alone(lambda _request: hold(point, reached.set, wait=True), ANSWER) as client:
        assert await asyncio.to_thread(reached.wait, WAIT)
        assert await client.exactly(len(came)) == came
        assert await silent(client)


async def test_a_connection_is_held_before_it_is_read() -> None:
    reached = threading.Event()
    async with raw_target() as target, between(None, target) as proxy:
        proxy.on_connect = lambda: hold(Point.connected, reached.set)
        async with connected(proxy) as client:
            assert await client.exactly(len(ANSWER)) == ANSWER
        assert reached.is_set()
