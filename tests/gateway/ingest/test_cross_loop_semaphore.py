"""CrossLoopSemaphore: how many run at once, whoever they are and however they end."""

import asyncio
import threading

import pytest

from gateway.ingest.cross_loop_semaphore import CrossLoopSemaphore


async def held(slots: CrossLoopSemaphore, release: asyncio.Event, running: list[str], name: str) -> bool:
    async with slots.one() as waited:
        running.append(name)
        await release.wait()
        running.remove(name)
        return waited


async def turns(count: int = 20) -> None:
    """Let everything that can go on go on."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_no_more_run_at_once_than_there_are_slots_and_the_others_follow_in_turn() -> None:
    slots, running = CrossLoopSemaphore(2), list[str]()
    releases = {name: asyncio.Event() for name in "abcd"}
    tasks = [asyncio.ensure_future(held(slots, releases[name], running, name)) for name in "abcd"]
    await turns()
    assert running == ["a", "b"]

    releases["b"].set()
    await turns()
    assert running == ["a", "c"]

    for release in releases.values():
        release.set()
    assert await asyncio.gather(*tasks) == [False, False, True, True]


async def test_a_slot_is_free_again_after_a_failure() -> None:
    slots = CrossLoopSemaphore(1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            async with slots.one():
                raise ZeroDivisionError
    async with slots.one() as waited:
        assert not waited


async def test_who_gives_up_waiting_takes_no_slot() -> None:
    slots = CrossLoopSemaphore(1)
    async with slots.one():
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01), slots.one():
                    pytest.fail("there is no slot")
    async with asyncio.timeout(30), slots.one() as waited:
        assert not waited


async def test_a_slot_given_to_one_who_has_just_given_up_goes_to_the_next() -> None:
    slots, running, release = CrossLoopSemaphore(1), list[str](), asyncio.Event()
    async with slots.one():
        leaving = asyncio.ensure_future(held(slots, release, running, "leaving"))
        next_one = asyncio.ensure_future(held(slots, release, running, "next"))
        await turns()
    # Its turn has come, but it has not noticed yet.
    leaving.cancel()
    await turns()
    assert leaving.cancelled()
    assert running == ["next"]
    release.set()
    assert await next_one


def test_slots_are_shared_by_all_event_loops_of_the_process() -> None:
    slots, running, most, done = CrossLoopSemaphore(2), [0], [0], [0]
    counting = threading.Lock()

    async def use() -> None:
        async with asyncio.timeout(30), slots.one():
            with counting:
                running[0] += 1
                most[0] = max(most[0], running[0])
            await turns(3)
            with counting:
                running[0] -= 1
                done[0] += 1

    async def use_often() -> None:
        await asyncio.gather(*(use() for _ in range(50)))

    threads = [threading.Thread(target=asyncio.run, args=(use_often(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (done[0], running[0], most[0]) == (200, 0, 2)
