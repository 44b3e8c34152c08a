"""The official Inspector, started from a shell."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers.quiet import LOOPBACK_ONLY
from tests.served import serving
from tests.test_pins import SERVED

NODE_MODULES = Path(__file__).parent / "node_modules"
# It speaks the older wire unless a flag tells it to try the newer one.
ERAS = {"legacy": [], "modern": ["--protocol-era", "modern"]}


@pytest.mark.parametrize("transport", ["http", "stdio"])
@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_lists_and_calls_over_either_transport(tmp_path: Path, era: str, transport: str) -> None:
    environment = {
        "PATH": f"{NODE_MODULES / 'node' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        **LOOPBACK_ONLY,
    }
    files = tmp_path / "files"
    files.mkdir()
    with serving(tmp_path / "data", files) as served:
        settings = ["-e", f"BRAINS_DATA_DIR={tmp_path / 'data'}", "-e", f"BRAINS_INGEST_ROOTS={files}"]
        command = [str(Path(sys.executable).with_name("brains-gateway")), "stdio", *settings]
        target = [f"{served.url}/mcp"] if transport == "http" else command

        def inspected(*asked: str) -> dict[str, object]:
            done = subprocess.run(
                [str(NODE_MODULES / ".bin" / "mcp-inspector"), "--cli", *target, *ERAS[era], "--method", *asked],
                capture_output=True,
                text=True,
                env=environment,
                cwd=tmp_path,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, done
            return dict(json.loads(done.stdout))

        listed = inspected("tools/list")["tools"]
        assert isinstance(listed, list)
        assert [tool["name"] for tool in listed] == [tool["name"] for tool in SERVED["memory"]]
        inspected("tools/call", "--tool-name", "memory_remember", "--tool-arg", "content=Otters dive.")
        found = inspected("tools/call", "--tool-name", "memory_search", "--tool-arg", "query=otters")
        assert "Otters dive." in json.dumps(found["structuredContent"])
