"""What the request of a call says, over stdio. Over HTTP see the tests of the endpoint."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.served import raw_call


def answered(directory: Path, request: Any) -> Any:
    """What a process says to its first message."""
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "BRAINS_DATA_DIR": str(directory)}
    command = [sys.executable, "-m", "gateway", "stdio"]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        said = process.stdout.readline()
        process.stdin.close()
    return json.loads(said)


@pytest.mark.slow
def test_a_progress_token_that_is_too_long_is_refused_over_stdio(tmp_path: Path) -> None:
    answer = answered(tmp_path, raw_call("modern", "memory_list_brains", {}, "x" * 257)["json"])
    assert answer["error"] == {"code": -32602, "message": "progressToken must have at most 256 characters."}
