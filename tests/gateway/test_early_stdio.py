"""Over stdio a client is answered while the server is still being imported, and cannot tell."""

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.early_answers import RECORDED, versions
from tests.recorded import INITIALIZED, LATE, META, Stdio, initialize, request, started

# With other versions of the libraries, as the lowest that are allowed, the server answers everything.
IS_RECORDED = json.loads((RECORDED / "memory.json").read_text(encoding="utf-8"))["versions"] == versions()
HANDSHAKE = (initialize(0, "2025-11-25"), INITIALIZED)
LIST = request(1, "tools/list")
BRAINS = {"name": "memory_list_brains", "arguments": {}}


def modern(number: int, method: str, **params: Any) -> dict[str, Any]:
    return request(number, method, {"_meta": META, **params})


# What a client says, and waits for the answer to each.
TALKS: dict[str, list[Any]] = {
    "a handshake, and a call at once": [*HANDSHAKE, LIST, request(2, "tools/call", BRAINS), LIST, request(4, "ping")],
    "a call after the newer opening": [
        modern(1, "server/discover"),
        modern(2, "tools/list"),
        modern(3, "tools/call", **BRAINS),
    ],
    "an unknown version": [initialize(0, "2031-01-01"), INITIALIZED, LIST, request(3, "else"), request(4, "ping")],
    "no handshake": [LIST, *HANDSHAKE, LIST],
    "bad requests": [
        *HANDSHAKE,
        {"jsonrpc": "2.0", "method": 5},
        LIST,
        request(3, "tools/list", {"cursor": 4}),
    ],
    "a bad handshake": [initialize(0, "2025-11-25", capabilities=[]), *HANDSHAKE, LIST],
    "an era that has been chosen": [modern(1, "tools/list"), HANDSHAKE[0], modern(2, "ping"), modern(3, "tools/list")],
    "the same id again": [*HANDSHAKE, LIST, request(1, "ping"), request(1, "tools/call", BRAINS), request(1, "ping")],
}


def conversation(server: Stdio, messages: list[Any]) -> list[bytes]:
    answers = []
    for message in messages:
        server.say(message)
        if "id" in message:
            answers.append(server.line())
    return answers


@pytest.mark.parametrize("name", TALKS)
@pytest.mark.slow
def test_a_client_hears_the_same_as_from_the_server_alone(tmp_path: Path, name: str) -> None:
    with started(tmp_path, **LATE) as server:
        expected = conversation(server, TALKS[name])
        assert server.end() == b""
    with started(tmp_path) as server:
        assert conversation(server, TALKS[name]) == expected
        assert server.end() == b""
        assert server.process.returncode == 0


@pytest.mark.slow
def test_all_that_is_sent_at_once_is_answered_once(tmp_path: Path) -> None:
    long = request(3, "tools/call", {"name": "memory_remember", "arguments": {"content": "otter " * 50_000}})
    after = [request(4, "ping"), request(5, "tools/list")]
    with started(tmp_path) as server:
        server.say(*HANDSHAKE, LIST, request(2, "else"), long, *after)
        answers = [json.loads(server.line()) for _ in range(6)]
        assert server.end() == b""
    assert [answer["id"] for answer in answers[:2]] == [0, 1]
    assert sorted(answer["id"] for answer in answers) == [0, 1, 2, 3, 4, 5]
    by_id = {answer["id"]: answer for answer in answers}
    assert by_id[3]["result"]["isError"] is False
    assert by_id[5]["result"] == by_id[1]["result"]


@pytest.mark.slow
def test_a_client_that_leaves_at_once_has_been_answered(tmp_path: Path) -> None:
    with started(tmp_path) as server:
        server.say(*HANDSHAKE, LIST)
        said = [json.loads(server.line())["id"], json.loads(server.line())["id"]]
        assert said == [0, 1]
        assert server.end() == b""
        assert server.process.returncode == 0


@pytest.mark.slow
def test_a_line_comes_in_pieces(tmp_path: Path) -> None:
    with started(tmp_path) as server:
        line = json.dumps(HANDSHAKE[0]).encode() + b"\n"
        for start in range(0, len(line), 40):
            server.write(line[start : start + 40])
            time.sleep(0.01)
        assert json.loads(server.line())["id"] == 0
        # This one is not whole when the server takes over.
        call = json.dumps(request(1, "tools/call", BRAINS)).encode() + b"\n"
        server.write(call[:20])
        time.sleep(1)
        server.write(call[20:])
        assert json.loads(server.line())["result"]["isError"] is False


@pytest.fixture
def without_fastmcp(tmp_path: Path) -> str:
    """Where Python looks first, and finds a FastMCP whose import never ends."""
    package = tmp_path / "path" / "fastmcp"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import time\ntime.sleep(3600)\n", encoding="utf-8")
    return os.pathsep.join([str(package.parent), os.getcwd()])


@pytest.mark.not_quick
def test_the_answers_do_not_wait_for_the_server(tmp_path: Path, without_fastmcp: str) -> None:
    with started(tmp_path, PYTHONPATH=without_fastmcp) as server:
        server.say(*HANDSHAKE, LIST)
        assert server.process.stdout is not None
        is_early = bool(select.select([server.process.stdout], [], [], 60 if IS_RECORDED else 5)[0])
        assert is_early == IS_RECORDED
        if is_early:
            assert json.loads(server.line())["result"]["protocolVersion"] == "2025-11-25"
            assert json.loads(server.line())["result"]["tools"][0]["name"] == "memory_search"


@pytest.mark.parametrize(
    ("variable", "value", "code"),
    [
        ("BRAINS_PORT", "much", 2),
        ("BRAINS_UPSTREAM_URL", "http://platform.example", 2),
        ("BRAINS_STATE_KEYS_FILE", "/nowhere", 2),
        ("BRAINS_DATA_DIR", "/dev/null/data", 1),
    ],
)
@pytest.mark.not_quick
def test_who_cannot_be_served_is_not_answered(tmp_path: Path, variable: str, value: str, code: int) -> None:
    asked = b"".join(json.dumps(message).encode() + b"\n" for message in (*HANDSHAKE, LIST))
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "stdio"],
        input=asked,
        capture_output=True,
        env={**os.environ, "BRAINS_DATA_DIR": str(tmp_path), variable: value},
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (code, b"")
    assert done.stderr.startswith(b"brains-gateway: ")


@pytest.mark.slow
def test_who_has_been_answered_can_stop_it_before_the_server_is_there(tmp_path: Path) -> None:
    with started(tmp_path) as server:
        server.say(*HANDSHAKE, LIST)
        assert (server.line(), server.line()) != (b"", b"")
        server.process.terminate()
        assert server.process.wait(20) == 0
