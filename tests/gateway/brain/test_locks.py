"""Locks by name: one at a time for a name, others not held up, nothing kept."""

import asyncio
from dataclasses import dataclass, field

import pytest

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


@dataclass
class Places:
    """The shared store of two processes."""

    down: bool = False
    taken: set[str] = field(default_factory=set)
    asked: int = 0

    async def hold(self, name: str, most: int) -> str | None:
        self.asked += 1
        if self.down:
            return None
        if len(self.taken & {name}) >= most:
            return ""
        self.taken.add(name)
        return name

    def give_back(self, place: str) -> None:
        self.taken.remove(place)


async def test_among_replicas_a_name_is_held_by_one_process_at_a_time() -> None:
    places = Places()
    ours, theirs, got_in = Locks(places), Locks(places), asyncio.Event()

    async def follow() -> None:
        async with theirs.alone("a", among_replicas=True):
            got_in.set()

    async with ours.alone("a", among_replicas=True):
        following = asyncio.create_task(follow())
        async with asyncio.timeout(60):
            while places.asked < 3:  # noqa: ASYNC110  # it waits between two questions
                await asyncio.sleep(0.01)
        assert not got_in.is_set()
        async with theirs.alone("b", among_replicas=True):
            pass
    await following
    assert got_in.is_set()
    assert places.taken == set()


async def test_a_failure_gives_the_turn_back() -> None:
    places = Places()
    with pytest.raises(ZeroDivisionError):
        async with Locks(places).alone("a", among_replicas=True):
            raise ZeroDivisionError
    assert places.taken == set()


async def test_without_a_shared_store_that_answers_a_process_goes_on_alone() -> None:
    places = Places(down=True)
    for _ in range(2):
        async with Locks(places).alone("a", among_replicas=True):
            assert places.taken == set()
    assert places.asked == 2


async def test_only_what_concerns_replicas_is_asked_of_the_shared_store() -> None:
    places = Places()
    async with Locks(places).alone("a"):
        assert places.asked == 0
