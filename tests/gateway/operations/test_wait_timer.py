"""One timer over many waits ends each of them as a timer of its own would."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.operations.wait_timer import WaitTimer

SOON, LONG = 0.05, 30.0


def at(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def after(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "came"


async def test_what_comes_in_time_comes() -> None:
    with WaitTimer() as timer:
        assert await timer.wait(after(0), at(LONG)) == "came"


async def test_what_comes_late_does_not() -> None:
    with WaitTimer() as timer:
        with pytest.raises(TimeoutError):
            await timer.wait(after(LONG), at(SOON))
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


async def test_a_time_that_is_past_is_late() -> None:
    with WaitTimer() as timer, pytest.raises(TimeoutError):
        await timer.wait(after(LONG), at(-1))


@pytest.mark.parametrize("first", [SOON / 2, LONG], ids=["shorter", "longer"])
async def test_each_wait_has_its_own_end(first: float) -> None:
    with WaitTimer() as timer:
        assert await timer.wait(after(0), at(first)) == "came"
        with pytest.raises(TimeoutError):
            await timer.wait(after(LONG), at(2 * SOON))
        assert await timer.wait(after(SOON), at(LONG)) == "came"


async def test_between_waits_no_time_counts() -> None:
    with WaitTimer() as timer:
        assert await timer.wait(after(0), at(SOON)) == "came"
        await asyncio.sleep(2 * SOON)
        assert await timer.wait(after(0), at(LONG)) == "came"


async def test_a_failure_is_the_wait_s_own() -> None:
    async def fails() -> None:
        raise LookupError

    with WaitTimer() as timer, pytest.raises(LookupError):
        await timer.wait(fails(), at(LONG))


@pytest.fixture
async def timers(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.TimerHandle]:
    """Those that the watch has set."""
    loop = asyncio.get_running_loop()
    made: list[asyncio.TimerHandle] = []
    call_at = loop.call_at

    def noted(when: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        made.append(call_at(when, callback, *args))
        return made[-1]

    monkeypatch.setattr(loop, "call_at", noted)
    return made


async def test_many_waits_take_one_timer(timers: list[asyncio.TimerHandle]) -> None:
    with WaitTimer() as timer:
        for _ in range(100):
            await timer.wait(after(0), at(LONG))
    assert len(timers) == 1


async def test_none_is_left_behind(timers: list[asyncio.TimerHandle]) -> None:
    with WaitTimer() as timer:
        await timer.wait(after(0), at(LONG))
        await timer.wait(after(0), at(LONG / 2))
    assert [timer.cancelled() for timer in timers] == [True, True]


async def cancelled(of: Callable[[WaitTimer], Awaitable[object]], seconds: float) -> asyncio.Task[object]:
    """A task that waits, cancelled from outside after so long."""

    async def waits() -> object:
        with WaitTimer() as timer:
            return await of(timer)

    task = asyncio.create_task(waits())
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.wait([task])
    return task


async def test_whoever_is_cancelled_is_cancelled() -> None:
    task = await cancelled(lambda timer: timer.wait(after(LONG), at(LONG)), SOON)
    assert task.cancelled()


async def test_cancelled_and_late_at_once_is_cancelled() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            # Late by now, it is cancelled from outside too.
            await asyncio.sleep(2 * SOON)
            raise

    task = await cancelled(lambda timer: timer.wait(stubborn(), at(SOON)), 2 * SOON)
    assert task.cancelled()


async def test_what_came_in_the_last_moment_leaves_no_trace() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            return "came"
        return "never"

    with WaitTimer() as timer:
        assert await timer.wait(stubborn(), at(SOON)) == "came"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
