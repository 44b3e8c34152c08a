"""Locks by name: one at a time for a name, others not held up, nothing kept."""

import asyncio

from gateway.brain.locks import Locks


async def test_a_name_is_held_by_one_at_a_time() -> None:
    locks, inside, most = Locks(), 0, 0

    async def work(name: str) -> None:
        nonlocal inside, most
        async with locks.alone(name):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(work("a") for _ in range(5)))
    assert most == 1
    await asyncio.gather(work("a"), work("b"))
    assert most == 2


async def test_nothing_is_kept_of_a_name_that_nobody_holds() -> None:
    locks = Locks()
    async with locks.alone("a"):
        assert list(locks._held) == ["a"]
    assert list(locks._held) == []


async def test_a_failure_or_a_leave_lets_the_next_in() -> None:
    locks = Locks()

    async def hold() -> None:
        async with locks.alone("a"):
            await asyncio.Event().wait()

    first, second = asyncio.create_task(hold()), asyncio.create_task(hold())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert (first.cancelled(), second.cancelled()) == (True, True)
    async with asyncio.timeout(30), locks.alone("a"):
        assert list(locks._held) == ["a"]
