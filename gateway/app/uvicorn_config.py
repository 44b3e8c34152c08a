"""How uvicorn serves the gateway, in one process or in several."""

import socket
from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from gateway.http.connection import Connection

_DRAIN_SECONDS: Final = 10
_TAKEN_IN_A_TURN: Final = 16
# A worker does not answer while it imports, which takes long on a busy machine. If it were killed for that and started
# again, it would never come up.
_SILENT_SECONDS: Final = 60


def uvicorn_config(app: ASGIApp | Callable[[], ASGIApp], workers: int = 0) -> uvicorn.Config:
    """The configuration for an application, or for so many workers, each of which makes its own."""
    return uvicorn.Config(
        app,
        factory=workers > 0,
        workers=workers or 1,
        loop="uvloop" if find_spec("uvloop") else "asyncio",
        http=Connection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
        timeout_worker_healthcheck=_SILENT_SECONDS,
    )


def several_of(listening: socket.socket) -> list[socket.socket]:
    """The same socket several times, for one process.

    In each turn of its loop, uvloop accepts one connection from each socket, and in between it serves all earlier
    clients. Of 64 clients that come at once, the last would wait for 64 such turns. Worker processes have one each,
    because a process that accepts several at a time would leave none for the others.
    """
    return [listening, *(listening.dup() for _ in range(_TAKEN_IN_A_TURN - 1 if find_spec("uvloop") else 0))]
