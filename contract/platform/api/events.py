"""The change stream over HTTP: the changes in a brain, as they happen.

There is no queue for a listener: each reads the log of changes, at its own pace, from its own place.
"""

import json
import signal
import time
from collections.abc import AsyncIterator
from itertools import count

from anyio import sleep
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from contract.platform.api.ask import HEADERS
from contract.platform.api.call import LOOK_SECONDS, Platform, in_thread, platform_of
from contract.platform.brains import Brain
from contract.platform.changes import Behind
from contract.platform.refusal import Refused
from contract.platform.wire import JsonObject


async def events(request: Request, brain: Brain) -> Response:
    platform = platform_of(request)
    since = await in_thread(platform.lookups, platform.store.changes.latest)
    return StreamingResponse(_frames(platform, brain, since), media_type="text/event-stream", headers=HEADERS)


async def _frames(platform: Platform, brain: Brain, since: int) -> AsyncIterator[bytes]:
    numbers = count(1)
    yield _encoded(next(numbers), "ready", "ok")
    spoke = time.monotonic()
    while not _is_stopping():
        if await platform.lookout.latest(platform) <= since:
            if time.monotonic() - spoke >= platform.ping_seconds:
                yield _encoded(next(numbers), "ping", "keepalive")
                spoke = time.monotonic()
            await sleep(LOOK_SECONDS)
            continue
        try:
            changes, since = await in_thread(platform.lookups, platform.store.changes.after, brain, since)
        except (Behind, Refused):
            # The listener is too slow, or the brain is gone. The client may begin again.
            return
        for change in changes:
            yield _encoded(next(numbers), "change", change.record())
            spoke = time.monotonic()


def _encoded(number: int, event: str, data: str | JsonObject) -> bytes:
    # All in ASCII: clients that split lines as Python does would take U+2028 in a path for the end of one.
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    return f"event: {event}\nid: {number}\ndata: {text}\n\n".encode()


def _is_stopping() -> bool:
    """Whether the server was told to stop: uvicorn waits for streams to end, and tells them nothing."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return getattr(server, "should_exit", False) is True
