"""One timer of the loop for many moments: each comes in its order, except those that were dropped."""

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import pytest

from gateway.operations.shared_timer import SharedTimer

SOON, LATER, LONG = 0.02, 0.04, 30.0


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def cancelling() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


async def for_ever() -> None:
    await asyncio.Event().wait()


async def test_what_takes_too_long_ends() -> None:
    with pytest.raises(TimeoutError), SharedTimer().limit(SOON):
        await for_ever()
    assert cancelling() == 0


async def test_what_is_done_in_time_is_left_alone() -> None:
    timer = SharedTimer()
    with timer.limit(SOON):
        pass
    # Wait for a later moment. By then the limit has passed, and it cancelled nobody.
    passed = asyncio.Event()
    timer.add(asyncio.get_running_loop(), LATER, passed.set)
    await passed.wait()
    assert cancelling() == 0


async def test_an_error_within_is_passed_on() -> None:
    with pytest.raises(ValueError, match="of its own"), SharedTimer().limit(LONG):
        raise ValueError("of its own")


async def test_a_cancellation_by_others_stays_one() -> None:
    begun = asyncio.Event()

    async def work() -> None:
        with SharedTimer().limit(LONG):
            begun.set()
            await for_ever()

    task = asyncio.ensure_future(work())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_who_is_late_and_cancelled_by_others_too_is_cancelled() -> None:
    late = asyncio.Event()

    async def work() -> None:
        with SharedTimer().limit(SOON):
            try:
                await for_ever()
            except asyncio.CancelledError:
                late.set()
                await asyncio.sleep(LATER)
                raise

    task = asyncio.ensure_future(work())
    await late.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_is_done_in_the_last_moment_is_done_and_leaves_no_trace() -> None:
    with SharedTimer().limit(SOON), suppress(asyncio.CancelledError):
        await for_ever()
    assert cancelling() == 0


async def test_a_time_that_is_past_is_late() -> None:
    with pytest.raises(TimeoutError), SharedTimer().limit(-1):
        await for_ever()


async def test_a_limit_counts_for_nothing_once_it_was_left() -> None:
    timer, passed = SharedTimer(), asyncio.Event()
    with timer.limit(SOON):
        await asyncio.sleep(0)
    timer.add(asyncio.get_running_loop(), LATER, passed.set)
    with timer.limit(LONG):
        await passed.wait()
    with pytest.raises(TimeoutError), timer.limit(SOON):
        await for_ever()


async def test_many_limits_one_after_the_other_take_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    timer, loop = SharedTimer(), asyncio.get_running_loop()
    made: list[asyncio.TimerHandle] = []
    call_at = loop.call_at

    def noted(when: float, callback: Callable[..., object], *args: Any, **more: Any) -> asyncio.TimerHandle:
        made.append(call_at(when, callback, *args, **more))
        return made[-1]

    monkeypatch.setattr(loop, "call_at", noted)
    for _ in range(100):
        with timer.limit(LONG):
            pass
    assert len(made) == 1


async def test_of_two_limits_the_shorter_one_ends_first() -> None:
    timer = SharedTimer()
    with timer.limit(LONG):
        with pytest.raises(TimeoutError), timer.limit(SOON):
            await for_ever()
        assert cancelling() == 0


async def test_moments_come_in_their_order_whichever_was_added_first() -> None:
    timer, loop, came, last = SharedTimer(), asyncio.get_running_loop(), list[str](), asyncio.Event()

    def come_later() -> None:
        came.append("later")
        last.set()

    timer.add(loop, LATER, come_later)
    timer.add(loop, SOON, lambda: came.append("soon"))
    await last.wait()
    assert came == ["soon", "later"]


async def test_what_was_dropped_does_not_come() -> None:
    timer, loop, came, last = SharedTimer(), asyncio.get_running_loop(), list[str](), asyncio.Event()
    timer.drop(timer.add(loop, SOON, lambda: came.append("dropped")))
    timer.add(loop, LATER, last.set)
    await last.wait()
    assert came == []


def test_it_goes_on_with_another_loop() -> None:
    timer = SharedTimer()

    async def leave_early() -> None:
        timer.add(asyncio.get_running_loop(), SOON, lambda: None)

    async def wait() -> None:
        with pytest.raises(TimeoutError), timer.limit(LATER):
            await for_ever()

    asyncio.run(leave_early())
    asyncio.run(wait())


class Held:
    """An object that a context may hold."""


CONTEXT: ContextVar[Held] = ContextVar("CONTEXT")


async def test_it_holds_nothing_of_the_call_that_set_it(no_collector: None) -> None:
    timer, held = SharedTimer(), list[weakref.ref[Held]]()

    async def call() -> None:
        mine = Held()
        held.append(weakref.ref(mine))
        CONTEXT.set(mine)
        with timer.limit(LONG):
            pass

    await asyncio.ensure_future(call())
    # The callback that reported the end of the task keeps its context until the next turn of the loop.
    await asyncio.sleep(0)
    assert held[0]() is None
