"""What is done for a token, for as long as the token is good: an answer may take ten minutes."""

import asyncio
from collections.abc import Awaitable, Callable


async def do_while_valid(doing: Awaitable[None], is_valid: Callable[[], Awaitable[bool]], every: float) -> bool:
    """Whether it was done to its end. It is cancelled by the first look, one every so many seconds, that says no."""
    loop = asyncio.get_running_loop()
    looking: list[asyncio.Task[None]] = []

    async def look() -> None:
        while await is_valid():  # noqa: ASYNC110  # nobody says when it ends
            await asyncio.sleep(every)
        end.reschedule(loop.time())

    # Nearly all is done before the first look: for that a timer is enough, and costs less than a task.
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
