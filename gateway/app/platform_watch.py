"""Finds out whether the platform answers, also if there are no calls, for `/readyz`."""

import asyncio
import json
import math
import random
import time
from collections.abc import Callable
from typing import Final, Literal

import httpx
import structlog

log = structlog.get_logger()

State = Literal["ok", "unknown", "unavailable"]

# The time between two looks, with a random part, so that replicas that started together do not look together.
_EVERY_SECONDS: Final = 10.0
_JITTER: Final = 0.2
# The least time between two looks while it is unavailable: whoever waits for it should not wait for us.
_SOON_SECONDS: Final = 1.0
# The time for one look. A caller of `/readyz` waits less, and is then told the result of the look before.
_LOOK_SECONDS: Final = 3.0
_WAIT_SECONDS: Final = 0.5
# After so many looks in a row without an answer it is unavailable; if it refuses connections, at once.
_LATE_LOOKS: Final = 2
_LARGEST: Final = 1000


class PlatformWatch:
    """Looks at the platform when it is asked about, one look at a time and not too often.

    It sends no credential. A platform that answers is there, also with 401, but not with a 5xx.
    """

    def __init__(
        self,
        where: Callable[[], str | None],
        http: httpx.AsyncClient,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`where` is the root of the platform's API; None as long as there is none."""
        self._where, self._http, self._clock = where, http, clock
        self._state: State = "unknown"
        self._looking: asyncio.Task[None] | None = None
        self._looked, self._pause = -math.inf, 0.0
        self._late = 0
        self.problem: str | None = None
        """What is wrong with the file of the embedded brain, as it reports."""

    async def state(self) -> State:
        root = self._where()
        if root is not None and self._looking is None and self._is_time():
            self._looked = self._clock()
            self._pause = _EVERY_SECONDS * random.uniform(1 - _JITTER, 1 + _JITTER)
            self._looking = asyncio.create_task(self._look(f"{root}/healthz"))
        if self._looking is not None:
            await asyncio.wait({self._looking}, timeout=_WAIT_SECONDS)
        return self._state

    def _is_time(self) -> bool:
        pause = _SOON_SECONDS if self._state == "unavailable" else self._pause
        return self._clock() - self._looked >= pause

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        await self._http.aclose()

    async def _look(self, url: str) -> None:
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                status, self.problem = await self._ask(url)
            self._late = 0
            self._note("unavailable" if status >= 500 else "ok")
        except (TimeoutError, httpx.TimeoutException):
            self._late += 1
            if self._late >= _LATE_LOOKS:
                self._note("unavailable")
        except httpx.HTTPError:
            self._note("unavailable")
        finally:
            self._looking = None

    async def _ask(self, url: str) -> tuple[int, str | None]:
        response = await self._http.send(self._http.build_request("GET", url), stream=True)
        try:
            if response.status_code != 503:
                return response.status_code, None
            body = b""
            async for part in response.aiter_raw():
                body += part
                if len(body) > _LARGEST:
                    break
            return 503, _problem_in(body)
        finally:
            await response.aclose()

    def _note(self, state: State) -> None:
        if state != self._state:
            level = log.warning if state == "unavailable" else log.info
            level("platform.watched", state=state, before=self._state)
        self._state = state


def _problem_in(body: bytes) -> str | None:
    try:
        said = json.loads(body)
    except ValueError:
        return None
    problem = said.get("problem") if isinstance(said, dict) else None
    return problem if isinstance(problem, str) else None
