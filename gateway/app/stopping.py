"""At the first signal, the gateway takes no new calls and finishes those under way; at the second, it ends at once."""

import asyncio
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from types import FrameType
from typing import Final

import anyio
import structlog
import uvicorn
from uvicorn.supervisors import Multiprocess, multiprocess

from gateway.mcp.surface import Surface

log = structlog.get_logger()

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_LOOK_SECONDS: Final = 0.05
_FLUSH_SECONDS: Final = 0.1
_PING_SECONDS: Final = 0.2


class OneSignal(uvicorn.Server):
    """A server that drains at the first signal and ends at the second, whichever they are."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Not in the signal handler, because it may interrupt the writing of another line.
        log.info("gateway.stopping", under_way=len(self.server_state.tasks))
        await super().shutdown(sockets)


class Worker(multiprocess.Process):
    """A worker that may be silent for some time, because it does not answer while it imports.

    uvicorn waits that long for a single answer. Meanwhile it handles no signal, and if the worker is killed, the answer
    never comes.
    """

    _heard = 0.0

    def start(self) -> None:
        self._heard = time.monotonic()
        super().start()

    def is_alive(self, timeout: float = 5) -> bool:
        if self.process.is_alive() and self.ping(_PING_SECONDS):
            self._heard = time.monotonic()
        return self.process.is_alive() and time.monotonic() - self._heard < timeout


# The class that uvicorn makes workers of, wherever it makes one.
multiprocess.Process = Worker  # type: ignore[misc]


class Workers(Multiprocess):
    """Worker processes that drain at the first signal and are ended at the second."""

    def keep_subprocess_alive(self) -> None:
        before = list(self.processes)
        super().keep_subprocess_alive()
        for old, new in zip(before, self.processes, strict=True):
            if new is not old:
                log.error("worker.died", pid=old.pid, exit_code=old.exitcode, replaced_by=new.pid)

    def terminate_all(self) -> None:
        log.info("gateway.stopping")
        # Otherwise the system would still accept connections that nobody answers.
        for bound in self.sockets:
            bound.close()
        super().terminate_all()

    def join_all(self) -> None:
        while any(worker.process.is_alive() for worker in self.processes):
            if self.signal_queue:
                for worker in self.processes:
                    worker.kill()
            time.sleep(_LOOK_SECONDS)
        super().join_all()


def stop_signals() -> asyncio.Event:
    """An event that is set at the first signal; the second signal has its usual effect."""
    told, loop = asyncio.Event(), asyncio.get_running_loop()

    def tell() -> None:
        told.set()
        for sig in _SIGNALS:
            with suppress(NotImplementedError):
                loop.remove_signal_handler(sig)
            signal.signal(sig, signal.SIG_DFL)

    for sig in _SIGNALS:
        try:
            loop.add_signal_handler(sig, tell)
        except NotImplementedError:
            # On Windows the event loop does not support signals.
            signal.signal(sig, lambda _signal, _frame: loop.call_soon_threadsafe(tell))
    return told


async def wait_until_answered(surface: Surface, seconds: float) -> None:
    """Returns once no call is under way, or so many seconds have passed."""
    until = time.monotonic() + seconds
    while surface.under_way and time.monotonic() < until:  # noqa: ASYNC110  # calls end in many ways, none tells
        await asyncio.sleep(_LOOK_SECONDS)
    # Give the last answer time to be sent.
    await asyncio.sleep(_FLUSH_SECONDS)


def run_until_stopped(server: uvicorn.Server, listening: list[socket.socket]) -> None:
    """Serve until a signal. uvicorn raises the signal again after it has drained, which is then a normal end."""
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(0))
    server.run(sockets=listening)


async def leave_with_parent(parent: int) -> None:
    """End this worker when its supervisor is gone: nothing else would end it, and the embedded brain is gone too."""
    while os.getppid() == parent:  # noqa: ASYNC110  # no event tells of a parent's death
        await anyio.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
