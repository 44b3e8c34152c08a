"""A command in the process of the tests. A process of its own takes half a second of CPU to import what it needs."""

import logging
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any
from unittest import mock

import structlog

from gateway.cli.main import main


@contextmanager
def logging_as_it_was() -> Iterator[None]:
    """Both kinds of logging are set up for a whole process: afterwards they are as they were."""
    configure = structlog.configure

    def without_keeping(**options: Any) -> None:
        # A logger that is kept would go on logging as it was told here, and later tests could not listen to it.
        configure(**{**options, "cache_logger_on_first_use": False})

    before, root = structlog.get_config(), logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        with mock.patch.object(structlog, "configure", without_keeping):
            yield
    finally:
        configure(**before)
        root.handlers[:] = handlers
        root.setLevel(level)


def run_here(*arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    """Not for what serves, and not for what asks a platform."""
    out, err, code = StringIO(), StringIO(), 0
    with logging_as_it_was(), mock.patch.dict(os.environ, settings), redirect_stdout(out), redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())
