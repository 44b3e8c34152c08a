"""Gateway processes by the hundred: forked from one that has imported it all, because that is most of a start.

`python -m tests.faults.proof.nursery` is that one: a line on its standard input is a gateway, and so is the line it
answers with. Each is a process of its own in every other way.
"""

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.daemons.real import free_port
from tests.faults.proof.gateways import PATIENT_SECONDS, settings, web
from tests.web import web_on


@dataclass(frozen=True)
class Child:
    """A gateway that somebody is going to kill."""

    pid: int
    url: str

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


class Nursery:
    """The other end of the pipe."""

    def __init__(self, process: "subprocess.Popen[str]", directory: Path) -> None:
        self._process, self._directory = process, directory
        self._turn = threading.Lock()
        self._children: list[Child] = []

    def born(self, upstream_url: str) -> Child:
        """A new gateway, which does not listen yet. From any thread."""
        port = free_port()
        wanted = {"port": port, "log": str(self._directory / "children.log")}
        wanted["environment"] = settings(upstream_url, self._directory, PATIENT_SECONDS)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._turn:
            self._process.stdin.write(json.dumps(wanted) + "\n")
            self._process.stdin.flush()
            child = Child(int(self._process.stdout.readline()), f"http://127.0.0.1:{port}")
            self._children.append(child)
        return child

    def end(self) -> None:
        """Those that were not killed are now: nothing of theirs is wanted."""
        for child in self._children:
            child.kill()


@contextmanager
def nursery(directory: Path, pages: str | None = None) -> Iterator[Nursery]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("BRAINS_", "JB"))}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.faults.proof.nursery"],
        env={**inherited, "PYTHONPATH": os.getcwd(), **web(pages)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        made = Nursery(process, directory)
        try:
            yield made
        finally:
            made.end()
            assert process.stdin is not None
            # The end of its input is its end.
            process.stdin.close()
            process.wait(20)


def main() -> None:
    os.environ |= {"FASTMCP_LOG_ENABLED": "false", "FASTMCP_CHECK_FOR_UPDATES": "off"}
    from gateway.cli import main

    _import_all()
    if pages := os.environ.get("TEST_PAGES"):
        # For as long as it lives.
        web_on(pages).__enter__()
    # Nobody waits for the children one by one.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        wanted = json.loads(line)
        if pid := os.fork():
            sys.stdout.write(f"{pid}\n")
            sys.stdout.flush()
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ |= wanted["environment"]
        _log_to(wanted["log"])
        main.main(["serve", "--port", str(wanted["port"])])
        return


def _import_all() -> None:
    """What a start and a first call import, once for all of them; and kept out of the collector's way."""
    from gateway.app.http_app import http_app
    from gateway.config.settings import load

    for module in ("key_value.aio.adapters.pydantic", "key_value.aio.stores.memory", "uvloop", "httptools"):
        importlib.import_module(module)
    http_app(load(upstream_url="http://127.0.0.1:9"))
    gc.collect()
    gc.freeze()


def _log_to(file: str) -> None:
    """Its own standard streams: the pipes are those of the nursery."""
    log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)


if __name__ == "__main__":
    main()
