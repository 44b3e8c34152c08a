"""How uvicorn serves the gateway, in one process or in several."""

import os
from collections.abc import Callable
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from gateway.http.connection import Connection

_DRAIN_SECONDS: Final = 10


def uvicorn_config(app: ASGIApp | Callable[[], ASGIApp], workers: int = 0) -> uvicorn.Config:
    """For an application; or for so many workers, each of which calls what makes one."""
    return uvicorn.Config(
        app,
        factory=workers > 0,
        workers=workers or 1,
        loop="uvloop" if os.name == "posix" else "asyncio",
        http=Connection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
    )
