"""How every contestant but the gateway is served: by uvicorn, as fast as it goes."""

import argparse
import os
from collections.abc import Sequence

import uvicorn

# In the environment, because workers are spawned.
_KIND = "BENCH_KIND"
PLATFORM_URL = "BENCH_PLATFORM_URL"
PROXIED_URL = "BENCH_PROXIED_URL"


def kind() -> str:
    return os.environ[_KIND]


def arguments(kinds: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    return parser.parse_args()


def serve(app: str, told: argparse.Namespace) -> None:
    os.environ[_KIND] = told.kind
    uvicorn.run(
        app,
        factory=True,
        host="127.0.0.1",
        port=told.port,
        workers=told.workers,
        loop="uvloop",
        http="httptools",
        ws="none",
        log_level="warning",
        access_log=False,
    )
