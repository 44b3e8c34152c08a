"""What each command of `brains-gateway` does, once its arguments are read."""

import asyncio
import atexit
import gc
import importlib
import json
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp

from gateway.app import log
from gateway.app.capabilities import capabilities
from gateway.app.gateway import Gateway, own_fetch
from gateway.app.startup import check_data_dir, listening_socket, say
from gateway.app.stopping import OneSignal, Workers, answered, stop_signals
from gateway.cli import welcome
from gateway.cli.doctor import lines
from gateway.config.reread_file import replace_file
from gateway.config.settings import BadSetting, Settings, load
from gateway.config.unsafe_settings import check_local, check_serving
from gateway.http.endpoint import HttpOptions, endpoint, leave_with_parent
from gateway.mcp.surface import Surface
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject

_PARENT = "BRAINS_WORKER_OF"
_DRAIN_SECONDS = 10


def serve(settings: Settings, workers: int) -> None:
    """Streamable HTTP, on this address, until told to stop."""
    check_serving(settings)
    _prepare(settings)
    if settings.upstream_url is None:
        _check_store(settings.data_dir)
    listening = listening_socket(settings.host, settings.port)
    say(*welcome.serving(settings))
    if workers == 1:
        _run(OneSignal(_uvicorn_config(http_app(settings))), listening)
        return
    _supervise(settings, workers, listening)


def stdio(settings: Settings) -> None:
    """MCP over standard input and output, for the client that started us."""
    check_local(settings)
    _prepare(settings)
    roots = (Path.cwd(),) if settings.ingest_roots is None else settings.ingest_roots
    gateway = Gateway(settings, roots=roots)
    surface = gateway.surface(settings.first_surface)

    async def run() -> None:
        told_to_stop = stop_signals()
        async with gateway.running():
            serving = asyncio.create_task(gateway.server(surface).run_stdio_async(show_banner=False))
            stopping = asyncio.create_task(told_to_stop.wait())
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done():
                stopping.cancel()
                return await serving
            await answered(surface, _DRAIN_SECONDS)
        # A thread waits for the next line of standard input, and would for ever.
        os._exit(0)

    asyncio.run(run())


def doctor(settings: Settings, *, as_json: bool) -> bool:
    """Say what can be done with the platform that is configured; true when that is everything."""
    check_local(settings)
    _prepare(settings.model_copy(update={"log_level": "error"}))
    roots = (Path.cwd(),) if settings.ingest_roots is None else settings.ingest_roots
    gateway = Gateway(settings, roots=roots)

    async def run() -> JsonObject:
        async with gateway.running():
            report = await capabilities(gateway.brain, _surfaces(gateway, settings), Call())
            if settings.dialect != "auto" and settings.upstream_url is not None:
                report["problems"] += await _other_dialect(settings)
            return report

    report = asyncio.run(run())
    where = settings.upstream_url or f"the embedded brain in {settings.data_dir}"
    told = (
        [json.dumps({"platform": where, **report}, ensure_ascii=False, indent=2)]
        if as_json
        else lines(report, where, _files(settings, roots))
    )
    sys.stdout.write("\n".join(told) + "\n")
    return bool(report["all_served"] and not report["problems"])


async def _other_dialect(settings: Settings) -> list[JsonObject]:
    """The problem of a dialect that was set and is not the platform's, if it is one."""
    finding_out = Gateway(settings.model_copy(update={"dialect": "auto"}), roots=())
    async with finding_out.running():
        try:
            spoken, _ = await finding_out.brain.dialect(Call())
        except GatewayError:
            return []
    if spoken == settings.dialect:
        return []
    message = f"BRAINS_DIALECT is {settings.dialect}, but this platform speaks {spoken}. Unset it."
    return [{"code": "validation_error", "message": message, "remedy": ""}]


def _files(settings: Settings, roots: tuple[Path, ...]) -> str:
    told = f"ingested from {', '.join(str(root.absolute()) for root in roots)}"
    return told if settings.ingest_roots else f"{told} over stdio; over HTTP not at all: set BRAINS_INGEST_ROOTS"


def platform(settings: Settings, host: str, port: int, token: str | None) -> None:
    """The embedded brain alone, as a platform for others."""
    from gateway.app.embedded import opened, platform_server

    log.configure(settings.log_level, settings.log_format)
    loopback = settings.model_copy(update={"host": host}).is_loopback
    if not loopback and token is None:
        raise BadSetting(f"--host {host} can be reached by others: give a --token, or listen on 127.0.0.1.")
    store = opened(settings.data_dir)
    listening = listening_socket(host, port)
    say(*welcome.platform(host, port, settings.data_dir, token is not None))
    try:
        _run(platform_server(store, token, own_fetch(settings)), listening)
    finally:
        store.close()


def http_app(settings: Settings) -> ASGIApp:
    return app_of(Gateway(settings, roots=settings.ingest_roots or ()), settings)


def app_of(gateway: Gateway, settings: Settings) -> ASGIApp:
    """What is served over HTTP, whatever surfaces the gateway has."""

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        _warm_up()
        async with gateway.running():
            watch = (
                asyncio.ensure_future(leave_with_parent(int(os.environ[_PARENT]))) if _PARENT in os.environ else None
            )
            try:
                yield
            finally:
                if watch is not None:
                    watch.cancel()

    options = HttpOptions(settings.max_body, settings.max_bodies, *_names(settings))
    servers = {surface.name: gateway.server(surface) for surface in _surfaces(gateway, settings)}
    return endpoint(servers, running, options, gateway.door())


def _surfaces(gateway: Gateway, settings: Settings) -> list[Surface]:
    """Those that are served, the one at `/mcp` first."""
    first = settings.first_surface
    return [gateway.surface(name) for name in (first, *(name for name in settings.surfaces if name != first))]


def _names(settings: Settings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The hosts and origins that callers use: those that are listed, and the public address."""
    public = urlsplit(settings.public_url or "")
    if not public.hostname:
        return settings.allowed_hosts, settings.allowed_origins
    origin = f"{public.scheme}://{public.netloc}"
    return (*settings.allowed_hosts, public.hostname), (*settings.allowed_origins, origin)


def worker_app() -> ASGIApp:
    """The application of one worker process; its settings are in the environment."""
    settings = load()
    log.configure(settings.log_level, settings.log_format)
    return http_app(settings)


def _run(server: uvicorn.Server, listening: socket.socket) -> None:
    """Serve until a signal. uvicorn repeats the signal once it has drained: that is then a normal end."""
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(0))
    server.run(sockets=[listening])


def _check_store(data_dir: Path) -> None:
    """Say now what the first call would run into: a file that is damaged, or of a newer version."""
    from gateway.app.embedded import opened

    opened(data_dir).close()


def _prepare(settings: Settings) -> None:
    log.configure(settings.log_level, settings.log_format)
    if settings.upstream_url is None:
        check_data_dir(settings.data_dir)


def _supervise(settings: Settings, workers: int, listening: socket.socket) -> None:
    """Worker processes share the socket; the embedded brain, if any, runs here for all of them."""
    environment = {_PARENT: str(os.getpid()), "BRAINS_HOST": settings.host, "BRAINS_PORT": str(settings.port)}
    stop = None
    if settings.upstream_url is None:
        from gateway.app.embedded import EmbeddedBrain

        embedded = EmbeddedBrain(settings.data_dir, own_fetch(settings))
        stop = embedded.stop
        environment["BRAINS_DIALECT"] = "platform"
        environment["BRAINS_UPSTREAM_URL"] = embedded.endpoint.url
        environment["BRAINS_UPSTREAM_TOKEN"] = str(embedded.endpoint.token)
    if settings.state_keys_file is None:
        environment["BRAINS_STATE_KEYS_FILE"] = _shared_key()
    os.environ.update(environment)
    config = _uvicorn_config("gateway.cli.worker:worker_app", workers=workers)
    try:
        Workers(config, sockets=[listening]).run()
    finally:
        if stop is not None:
            stop()


def _shared_key() -> str:
    """A key that only the workers of this process have, in a file that goes with it: an environment is easily read."""
    directory = tempfile.mkdtemp(prefix="brains-gateway-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = Path(directory) / "state-keys"
    replace_file(path, secrets.token_hex(32).encode())
    return str(path)


def _uvicorn_config(app: ASGIApp | str, workers: int = 1) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        workers=workers,
        loop="uvloop" if os.name == "posix" else "asyncio",
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
    )


def _warm_up() -> None:
    """Do now what the first call would otherwise wait for."""
    for module in (
        "key_value.aio.adapters.pydantic",
        "key_value.aio.stores.memory",
        "gateway.upstream.wire.connections",
    ):
        importlib.import_module(module)
    # What is alive now lives for ever: keep the collector from walking it on every pass.
    gc.collect()
    gc.freeze()
