"""A command without a process of its own, whose start takes longer than all that is tested."""

import os
import subprocess
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from unittest import mock

from gateway.cli.main import main


def run(home: Path, *arguments: str, stdin: str | bytes = "", **settings: str) -> subprocess.CompletedProcess[str]:
    """Its exit code and what it wrote. The data is in `home/data`, and its working directory is `home`."""
    environment = {"HOME": str(home), "BRAINS_DATA_DIR": str(home / "data"), "BRAINS_LOG_LEVEL": "error", **settings}
    said, complained = StringIO(), StringIO()
    given = stdin if isinstance(stdin, bytes) else stdin.encode()
    code: object = 0
    with (
        mock.patch.dict(os.environ, environment),
        mock.patch("sys.stdin", TextIOWrapper(BytesIO(given), encoding="utf-8")),
        chdir(home),
        redirect_stdout(said),
        redirect_stderr(complained),
    ):
        try:
            main(arguments)
        except SystemExit as ended:
            code = ended.code
    assert code is None or isinstance(code, int)
    return subprocess.CompletedProcess(arguments, code or 0, said.getvalue(), complained.getvalue())
