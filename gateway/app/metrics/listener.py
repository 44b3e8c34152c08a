"""A listener for metrics alone, which only this machine reaches."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from gateway.app.metrics.figures import MetricsPlace
from gateway.app.metrics.page import MetricsPage
from gateway.app.startup import CannotStart, listening_socket
from gateway.http.connection import Connection
from gateway.http.metrics import Metrics
from gateway.http.operator import Operator


@contextmanager
def metrics_listener(place: MetricsPlace, port: int) -> Iterator[None]:
    """Show the figures of all processes, in a thread of its own, until the block ends.

    Raises:
        CannotStart: the port is taken.
    """
    try:
        listening = listening_socket("127.0.0.1", port)
    except CannotStart:
        raise CannotStart(f"Port {port} cannot be listened on: choose another with BRAINS_METRICS_PORT.") from None
    app = Metrics(MetricsPage(place).render, Operator(is_anybody_here=True))
    server = uvicorn.Server(
        uvicorn.Config(app, http=Connection, ws="none", lifespan="off", log_config=None, access_log=False)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(timeout=5)
