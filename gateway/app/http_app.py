"""What is served over HTTP: the gateway's surfaces, mounted in the HTTP application."""

import asyncio
import gc
import importlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import structlog
from starlette.types import ASGIApp

from gateway.app.gateway import Gateway
from gateway.app.observing import observing_of
from gateway.app.otel import is_asked_for
from gateway.app.page import has_page, page_of
from gateway.app.stopping import leave_with_parent
from gateway.config.settings import Settings
from gateway.config.sources import WORKER_OF
from gateway.http.endpoint import HttpOptions, Mount, endpoint

if TYPE_CHECKING:
    from gateway.app.metrics.counting import Counting
    from gateway.app.metrics.figures import MetricsPlace

log = structlog.get_logger()

# A collection begins after this many more objects were made than freed. Calls leave hardly any cycles behind.
_COLLECTED_AFTER: Final = 10_000
# Objects that outlived a collection are looked at after so many collections: long answers leave cycles among them.
_OLDER_AFTER: Final = 2


def http_app(settings: Settings, place: "MetricsPlace | None" = None, limits_file: Path | None = None) -> ASGIApp:
    """The application of one process. It shares with other workers the metrics in `place`, and the counts for limits in
    `limits_file`."""
    metrics = counting(settings, place) if wants_metrics(settings) else None
    observing = observing_of(None if metrics is None else metrics.recorder)
    roots = settings.ingest_roots or None
    return app_of(Gateway(settings, roots=roots, observing=observing, limits_file=limits_file), settings, metrics)


def wants_metrics(settings: Settings) -> bool:
    return settings.metrics_port is not None or settings.metrics_token is not None or is_asked_for("metrics")


def counting(settings: Settings, place: "MetricsPlace | None") -> "Counting":
    # Imported when used: many want no metrics.
    from gateway.app.metrics.counting import Counting

    return Counting(settings, place)


def app_of(gateway: Gateway, settings: Settings, metrics: "Counting | None" = None) -> ASGIApp:
    """The HTTP application of a gateway with any surfaces."""

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        _warm_up()
        async with gateway.running():
            parent = os.environ.get(WORKER_OF)
            leaving = asyncio.ensure_future(leave_with_parent(int(parent))) if parent else None
            if parent:
                log.info("worker.started", pid=os.getpid())
            try:
                yield
            finally:
                if leaving is not None:
                    leaving.cancel()
        if metrics is not None:
            metrics.close()

    options = HttpOptions(settings.max_body, settings.max_bodies, *_names(settings), direct=settings.direct == "on")
    door = gateway.door(None if metrics is None else metrics.page)
    page = page_of(gateway, settings, door) if has_page(settings) else None
    mounts = {
        surface.name: Mount(gateway.server(surface), surface.brain_parameter, surface.unauthorized)
        for surface in gateway.surfaces()
    }
    served = endpoint(mounts, running, options, door, page)
    return served if metrics is None else metrics.around(served)


def _names(settings: Settings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The hosts and origins that callers use: the listed ones, and the public address."""
    public = urlsplit(settings.public_url or "")
    if not public.hostname:
        return settings.allowed_hosts, settings.allowed_origins
    origin = f"{public.scheme}://{public.netloc}"
    return (*settings.allowed_hosts, public.hostname), (*settings.allowed_origins, origin)


def _warm_up() -> None:
    """Do work now for which the first call would otherwise wait."""
    for module in (
        "key_value.aio.adapters.pydantic",
        "key_value.aio.stores.memory",
        "gateway.upstream.wire.connections",
    ):
        importlib.import_module(module)
    # Objects that exist now live for ever, so the collector need not look at them again.
    gc.collect()
    gc.freeze()
    # A single call makes more than Python's own 700 objects, and each collection looks through all calls under way.
    gc.set_threshold(_COLLECTED_AFTER, _OLDER_AFTER, _OLDER_AFTER)
