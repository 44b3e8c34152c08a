"""How uvicorn serves the gateway, in one process or in several."""

import os
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from gateway.http.connection import Connection

_DRAIN_SECONDS: Final = 10


def uvicorn_config(app: ASGIApp | str, workers: int = 1) -> uvicorn.Config:
    """For an application; or for workers, where to import what makes one."""
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        workers=workers,
        loop="uvloop" if os.name == "posix" else "asyncio",
        http=Connection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
    )
