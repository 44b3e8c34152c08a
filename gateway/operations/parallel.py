"""Several things at once, but not too many."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

AT_ONCE: Final = 8
T = TypeVar("T")


async def in_parallel(jobs: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """The outcomes of all jobs, a few at once. The first that fails ends them all."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(job: Callable[[], Awaitable[T]]) -> T:
        async with gate:
            return await job()

    tasks = [asyncio.ensure_future(one(job)) for job in jobs]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
