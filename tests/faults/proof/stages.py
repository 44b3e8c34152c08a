"""The platforms that are written to, each with its storage open to the judge."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from contract.platform.app import create_app
from contract.platform.database import FILE_NAME
from contract.platform.ingest import Page
from contract.platform.store import Store
from gateway.app.embedded import convert_in_child
from tests.daemons import real
from tests.faults.proof.shelves import DaemonShelf, PlatformShelf, Shelf
from tests.faults.proof.workload import BRAINS
from tests.served import listening

MOST_RESTARTS = 1000


@dataclass(frozen=True)
class Stage:
    """A platform without faults, and what it holds."""

    dialect: str
    url: str
    shelf: Shelf
    pages: str | None = None
    """A web server with the pages, where the platform fetches none itself."""
    restarts: Callable[[], int] = lambda: 0


@contextmanager
def reference_platform(directory: Path) -> Iterator[Stage]:
    """The reference platform; it knows nothing of idempotency keys."""
    store = Store.open(directory / "platform")
    for slug in BRAINS.values():
        store.create_brain(slug, slug)
    shelf = PlatformShelf(directory / "platform" / FILE_NAME)
    try:
        with listening(create_app(store, token=None, fetch=_fetched, convert=convert_in_child)) as url:
            yield Stage("platform", url, shelf)
    finally:
        shelf.close()
        store.close()


@contextmanager
def published_daemon(directory: Path) -> Iterator[Stage]:
    """The daemon from npm, as a process of its own. It has no language model, so nothing is extracted."""
    with ExitStack() as stack:
        pages = stack.enter_context(listening(Starlette(routes=[Route("/{name}", _paged)])))
        daemon = stack.enter_context(supervised_daemon(directory / "daemon"))
        with httpx.Client(trust_env=False, base_url=daemon.url) as http:
            for slug in BRAINS.values():
                http.post("/v1/brains", json={"brainId": slug}).raise_for_status()
        shelf = DaemonShelf(directory / "daemon" / "home" / "brains")
        yield Stage("daemon", daemon.url, shelf, pages, lambda: daemon.restarts)


class Supervised:
    """The daemon, started again whenever it ends: a request that is cut off in its body is the end of it."""

    def __init__(self, root: Path) -> None:
        self._log = root / "daemon.log"
        address = f"127.0.0.1:{real.free_port()}"
        self.url, self.restarts = f"http://{address}", 0
        self._command = [str(real.PROGRAM), "serve", "--addr", address, "--root", str(root / "home")]
        self._environment = real.environment(root, None, None)
        self._stopping = threading.Event()
        self._process = self._started()
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def start(self) -> None:
        real.wait_until_healthy(self._process, self.url, self._log)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        real.end(self._process)
        self._thread.join(10)

    def _watch(self) -> None:
        while not self._stopping.is_set() and self.restarts < MOST_RESTARTS:
            self._process.wait()
            if not self._stopping.is_set():
                self.restarts += 1
                self._process = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        with self._log.open("ab") as output:
            return subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self._environment
            )


@contextmanager
def supervised_daemon(root: Path) -> Iterator[Supervised]:
    root.mkdir(parents=True)
    daemon = Supervised(root)
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.stop()


STAGES: dict[str, Callable[[Path], AbstractContextManager[Stage]]] = {
    "platform": reference_platform,
    "daemon": published_daemon,
}


def missing(name: str) -> str | None:
    """Why a stage cannot be set here, if so."""
    if name == "daemon" and not real.PROGRAM.exists():
        return "not run, because the published daemon is not installed (`make test-peers` does that)"
    return None


async def _fetched(url: str) -> Page:
    """Pages out of nothing, each with its own name in it."""
    return Page(url, "text/html", _html(url.rpartition("/")[2]).encode())


async def _paged(request: Request) -> Response:
    return HTMLResponse(_html(request.path_params["name"]))


def _html(name: str) -> str:
    return f"<html><head><title>Page {name}</title></head><body><h1>Herons</h1><p>They wait. {name}</p></body></html>"
