"""SIGTERM while a child process reads a file: the gateway ends in its usual time, and the child with it."""

import asyncio
import os
import signal
from pathlib import Path

import httpx
import pytest

from tests.gateway.app.test_stopping import DRAINED_SECONDS, ended
from tests.gateway.test_processes import process, wait_until
from tests.served import raw_call


def readers(gateway: int) -> list[int]:
    """The child processes of a gateway that read documents, by their id."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1] if command else ""
        except OSError:
            continue
        if b"extract_text_child.py" in command and parent == str(gateway):
            found.append(int(entry.name))
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for the child in /proc")
async def test_a_child_that_reads_does_not_outlive_the_gateway(tmp_path: Path) -> None:
    root = tmp_path / "files"
    root.mkdir()
    # Large enough for the longest limit on time.
    (root / "a.html").write_bytes(b"<a " * 1_000_000)
    with process(tmp_path, BRAINS_INGEST_ROOTS=str(root)) as served:
        async with httpx.AsyncClient(timeout=60) as http:
            call = raw_call("modern", "memory_ingest_file", {"path": str(root / "a.html")})
            calling = asyncio.ensure_future(http.post(served.url, **call))
            await asyncio.to_thread(wait_until, lambda: readers(served.process.pid), "nothing was read", 30)
            [reader] = readers(served.process.pid)
            os.kill(served.process.pid, signal.SIGTERM)
            assert await ended(served.process, DRAINED_SECONDS) == 0
            await asyncio.wait([calling])
        with pytest.raises(ProcessLookupError):
            os.kill(reader, 0)
