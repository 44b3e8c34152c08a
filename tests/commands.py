"""A command in the process of the tests. A process of its own takes half a second of CPU to import what it needs."""

import os
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from unittest import mock

from gateway.cli.main import main


def run_here(*arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    """Not for what serves, and not for what asks a platform: those set up a log for the whole process."""
    out, err, code = StringIO(), StringIO(), 0
    with mock.patch.dict(os.environ, settings), redirect_stdout(out), redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())
