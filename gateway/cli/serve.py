"""`brains-gateway serve`: MCP over Streamable HTTP, in one process or in several."""

import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from pydantic import SecretStr

from gateway import __version__
from gateway.app import log as log_lines
from gateway.app.brains import embedded_brains
from gateway.app.database_file import trouble_at_start
from gateway.app.fresh import kept_fresh
from gateway.app.gateway import own_fetch
from gateway.app.http_app import http_app, wants_metrics
from gateway.app.otel import NOT_INSTALLED, is_asked_for
from gateway.app.startup import inherited_socket, listening_socket, say
from gateway.app.stopping import OneSignal, Workers, run_until_stopped
from gateway.app.uvicorn_config import several_of, uvicorn_config
from gateway.cli import welcome
from gateway.cli.prepare import prepare
from gateway.cli.worker import worker_app
from gateway.config.reread_file import replace_file
from gateway.config.settings import Settings
from gateway.config.sources import WORKER_OF
from gateway.config.unsafe_settings import check_serving

if TYPE_CHECKING:
    from gateway.app.metrics.figures import MetricsPlace

log = structlog.get_logger()


def serve(settings: Settings, workers: int) -> None:
    """Streamable HTTP, on this address, until told to stop."""
    if (passed := inherited_socket()) is not None:
        # The address of the socket decides who can reach it, not the settings.
        host, port = passed.getsockname()[:2]
        settings = settings.model_copy(update={"host": host, "port": port})
    check_serving(settings)
    prepare(settings)
    _tell_trouble(settings)
    # Report now what would make the first call fail: a file that is damaged, or of a newer version.
    brains = embedded_brains(settings) if settings.upstream_url is None else None
    with _metrics(settings) as place, passed or listening_socket(settings.host, settings.port) as listening:
        _tell_start(settings, workers, welcome.no_default(settings, brains))
        try:
            if workers == 1:
                run_until_stopped(OneSignal(uvicorn_config(http_app(settings, place))), several_of(listening))
            else:
                _supervise(settings, workers, listening, place)
        finally:
            log.info("gateway.stopped", pid=os.getpid())


def _tell_start(settings: Settings, workers: int, doubts: Sequence[str]) -> None:
    """For a person as text, for a program that reads lines of JSON as JSON."""
    if log_lines.is_text(settings.log_format):
        say(*welcome.serving(settings), *doubts)
        return
    for doubt in doubts:
        log.warning("settings.doubtful", reason=doubt)
    log.info("gateway.started", version=__version__, pid=os.getpid(), workers=workers, **welcome.facts(settings))
    log.info("gateway.listening", url=welcome.listening_url(settings))


def _tell_trouble(settings: Settings) -> None:
    """Say what is wrong with the file of the embedded brain before the start waits for it."""
    if (trouble := trouble_at_start(settings)) is None:
        return
    if log_lines.is_text(settings.log_format):
        say(str(trouble))
    else:
        log.warning("embedded.trouble", reason=str(trouble))


@contextmanager
def _metrics(settings: Settings) -> "Iterator[MetricsPlace | None]":
    """The place where processes count, if they do; and the listener for metrics, if it has a port of its own."""
    if not wants_metrics(settings):
        yield None
        return
    # Imported when used, because many operators want no metrics.
    from gateway.app.metrics.counting import new_place
    from gateway.app.metrics.listener import metrics_listener

    place, port = new_place(settings), settings.metrics_port
    try:
        with ExitStack() as stack:
            stack.enter_context(kept_fresh(place.directory))
            if port is not None:
                stack.enter_context(metrics_listener(place, port))
            if is_asked_for("metrics"):
                stack.enter_context(_sent(place))
            yield place
    finally:
        place.remove()


def _sent(place: "MetricsPlace") -> AbstractContextManager[None]:
    try:
        # Imported when used: many gateways only show metrics.
        from gateway.app.metrics.sending import metrics_sent
    except ImportError:
        log.warning("metrics.off", reason=NOT_INSTALLED.format(signal="metrics"))
        return nullcontext()
    return metrics_sent(place)


def _supervise(settings: Settings, workers: int, listening: socket.socket, place: "MetricsPlace | None") -> None:
    """Worker processes share the socket; the embedded brain, if any, runs here for all of them."""
    os.environ[WORKER_OF] = str(os.getpid())
    changed: dict[str, Any] = {}
    stop = None
    if settings.upstream_url is None:
        from gateway.app.embedded import embedded_brain

        embedded = embedded_brain(settings, own_fetch(settings))
        stop = embedded.stop
        changed |= {"dialect": "platform", "upstream_url": embedded.endpoint.url}
        changed |= {"upstream_token": SecretStr(str(embedded.endpoint.token))}
        # For the workers, the embedded brain is a platform.
        changed["extra_tools"] = "on" if settings.has_extra_tools else "off"
    # The workers ask the brain, and it asks the models.
    changed |= {f"{model}_{name}": None for model in ("llm", "embed") for name in ("url", "model", "key")}
    with ExitStack() as stack:
        if stop is not None:
            stack.callback(stop)
        # For what the workers share.
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="brains-gateway-")))
        stack.enter_context(kept_fresh(directory))
        if settings.state_keys_file is None:
            changed["state_keys_file"] = _shared_key(directory)
        limits_file = _limits_file(settings, directory)
        config = uvicorn_config(partial(worker_app, settings.model_copy(update=changed), place, limits_file), workers)
        Workers(config, sockets=[listening]).run()


def _shared_key(directory: Path) -> Path:
    """A key that only the workers have, in a file, because others can read an environment."""
    path = directory / "state-keys"
    replace_file(path, secrets.token_hex(32).encode())
    return path


def _limits_file(settings: Settings, directory: Path) -> Path | None:
    """The file in which all workers count what callers use; None if nothing is counted there.

    On Windows, each worker counts for itself.
    """
    if sys.platform == "win32" or not settings.tells_callers_apart or settings.redis_url is not None:
        return None
    from gateway.app.machine_limits import make_limits_file

    path = directory / "limits"
    make_limits_file(path)
    return path
