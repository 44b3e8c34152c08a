"""`brains-gateway serve`: MCP over Streamable HTTP, in one process or in several."""

import atexit
import os
import secrets
import shutil
import socket
import tempfile
from pathlib import Path

from gateway.app.brains import embedded_brains
from gateway.app.database_file import trouble_of
from gateway.app.gateway import own_fetch
from gateway.app.http_app import http_app
from gateway.app.startup import PARENT, listening_socket, say
from gateway.app.stopping import OneSignal, Workers, run_until_stopped
from gateway.app.uvicorn_config import several_of, uvicorn_config
from gateway.cli import welcome
from gateway.cli.prepare import prepare
from gateway.config.reread_file import replace_file
from gateway.config.settings import Settings
from gateway.config.unsafe_settings import check_serving


def serve(settings: Settings, workers: int) -> None:
    """Streamable HTTP, on this address, until told to stop."""
    check_serving(settings)
    prepare(settings)
    # Say now what the first call would run into: a file that is damaged, or of a newer version.
    brains = embedded_brains(settings) if settings.upstream_url is None else None
    listening = listening_socket(settings.host, settings.port)
    say(*welcome.serving(settings), *welcome.no_default(settings, brains))
    if (trouble := trouble_of(settings)) is not None:
        # It can be read all the same.
        say(str(trouble))
    if workers == 1:
        run_until_stopped(OneSignal(uvicorn_config(http_app(settings))), several_of(listening))
        return
    _supervise(settings, workers, listening)


def _supervise(settings: Settings, workers: int, listening: socket.socket) -> None:
    """Worker processes share the socket; the embedded brain, if any, runs here for all of them."""
    environment = {PARENT: str(os.getpid()), "BRAINS_HOST": settings.host, "BRAINS_PORT": str(settings.port)}
    stop = None
    if settings.upstream_url is None:
        from gateway.app.embedded import embedded_brain

        embedded = embedded_brain(settings, own_fetch(settings))
        stop = embedded.stop
        environment["BRAINS_DIALECT"] = "platform"
        # To the workers, the embedded brain is a platform.
        environment["BRAINS_EXTRA_TOOLS"] = "on" if settings.has_extra_tools else "off"
        environment["BRAINS_UPSTREAM_URL"] = embedded.endpoint.url
        environment["BRAINS_UPSTREAM_TOKEN"] = str(embedded.endpoint.token)
    if settings.state_keys_file is None:
        environment["BRAINS_STATE_KEYS_FILE"] = _shared_key()
    os.environ.update(environment)
    # The workers ask the brain, and it asks the models.
    for name in ("URL", "MODEL", "KEY"):
        os.environ.pop(f"BRAINS_LLM_{name}", None)
        os.environ.pop(f"BRAINS_EMBED_{name}", None)
    config = uvicorn_config("gateway.cli.worker:worker_app", workers=workers)
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
