"""Locks by name, within one process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class Locks:
    """A name is locked for as long as somebody holds it. After that, the lock is removed."""

    def __init__(self) -> None:
        self._held: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncIterator[None]:
        lock = self._held.setdefault(name, asyncio.Lock())
        async with lock:
            yield
