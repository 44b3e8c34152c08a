"""Locks by name, within one process, or among all processes that share them."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol
from weakref import WeakValueDictionary

from gateway.operations import names

# How often we ask whether another process is done.
_PAUSES: Final = (0.05, 0.15)


class SharedPlaces(Protocol):
    """Places that are shared with other processes."""

    async def hold(self, name: str, most: int) -> str | None:
        """One of so many places, until it is given back or this process is gone. Empty if all are taken; None if the
        shared store does not answer."""
        ...

    def give_back(self, place: str) -> None: ...


class Locks:
    """A name is locked for as long as somebody holds it. After that, the lock is removed."""

    def __init__(self, shared: SharedPlaces | None = None) -> None:
        self._held: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._shared = shared

    @asynccontextmanager
    async def alone(self, name: str, *, among_replicas: bool = False) -> AsyncIterator[None]:
        lock = self._held.setdefault(name, asyncio.Lock())
        async with lock:
            if self._shared is None or not among_replicas:
                yield
                return
            place = await _wait_for_turn(self._shared, name)
            try:
                yield
            finally:
                if place:
                    self._shared.give_back(place)


async def _wait_for_turn(shared: SharedPlaces, name: str) -> str | None:
    """The only place of this name, once no other process has it. None: the shared store does not answer."""
    hashed = f"turn:{names.digest(name)[:24]}"
    while (place := await shared.hold(hashed, 1)) == "":  # noqa: ASYNC110  # the other process tells nobody
        await asyncio.sleep(random.uniform(*_PAUSES))
    return place
