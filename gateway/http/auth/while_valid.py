"""Runs a call only as long as its token is valid: an answer may take ten minutes."""

import asyncio
from collections.abc import Awaitable, Callable


async def do_while_valid(doing: Awaitable[None], is_valid: Callable[[], Awaitable[bool]], every: float) -> bool:
    """Run it, and look every so many seconds whether it may go on. Returns whether it came to its end."""
    loop = asyncio.get_running_loop()
    looking: list[asyncio.Task[None]] = []

    async def look() -> None:
        while await is_valid():  # noqa: ASYNC110  # nobody says when it ends
            await asyncio.sleep(every)
        end.reschedule(loop.time())

    # Nearly all calls end before the first look. A timer is enough for them, and costs less than a task.
    timer = loop.call_later(every, lambda: looking.append(loop.create_task(look())))
    try:
        async with asyncio.timeout(None) as end:
            await doing
    except TimeoutError:
        if not end.expired():
            raise
    finally:
        timer.cancel()
        for task in looking:
            task.cancel()
    return not end.expired()
