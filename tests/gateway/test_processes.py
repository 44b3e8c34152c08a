"""Real processes: several on one data directory, their logs, and how they end."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from tests.commands import run_here
from tests.daemons.real import free_port
from tests.gateway.app.metrics.scrape import Scrape
from tests.gateway.conftest import structured
from tests.served import MODE, Era, messages_of, raw_call, stdio_client


@dataclass
class Process:
    """A `serve` process and what it wrote to stderr."""

    process: subprocess.Popen[bytes]
    port: int
    errors: Path
    data_dir: Path
    lines: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def events(self) -> list[dict[str, Any]]:
        text = self.errors.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines() if line.startswith('{"') and '"event"' in line]


@contextmanager
def process(tmp_path: Path, *arguments: str, **settings: str) -> Iterator[Process]:
    port, errors = free_port(), tmp_path / "stderr.txt"
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "BRAINS_DATA_DIR": str(tmp_path / "data"), **settings}
    command = [sys.executable, "-m", "gateway", "serve", "--port", str(port), *arguments]
    with errors.open("wb") as stderr:
        started = subprocess.Popen(command, env=environment, stderr=stderr, stdout=subprocess.PIPE)
    served = Process(started, port, errors, tmp_path / "data")
    try:
        wait_until(lambda: answers(port), "the server did not answer")
        yield served
    finally:
        started.terminate()
        assert started.wait(20) in {0, -signal.SIGTERM, -signal.SIGKILL}
        assert started.stdout is not None
        assert started.stdout.read() == b"", "stdout belongs to MCP over stdio"
        started.stdout.close()


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    except httpx.TransportError:
        return False


def wait_until(condition: Any, complaint: str, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.05)


async def remember(client: Client[Any], writer: str, count: int) -> list[str]:
    """Write memories, eight at a time; the ids of what was acknowledged."""
    gate = asyncio.Semaphore(8)

    async def one(n: int) -> str:
        async with gate:
            result = await client.call_tool(
                "memory_remember", {"content": f"pelican {writer} {n}", "path": f"memory/global/{writer}-{n}.md"}
            )
            return str(structured(result)["path"])

    return await asyncio.gather(*(one(n) for n in range(count)))


@pytest.mark.slow
async def test_processes_share_one_data_directory_and_write_at_once(tmp_path: Path) -> None:
    each = 40
    with process(tmp_path, "--workers", "2") as served:
        data = str(served.data_dir)
        async with (
            stdio_client("modern", tmp_path, BRAINS_DATA_DIR=data) as one,
            stdio_client("legacy", tmp_path, BRAINS_DATA_DIR=data) as two,
            Client(StreamableHttpTransport(served.url), mode=MODE["modern"]) as three,
            Client(StreamableHttpTransport(served.url), mode=MODE["legacy"]) as four,
        ):
            clients = {"otter": one, "badger": two, "lynx": three, "heron": four}
            written = await asyncio.gather(*(remember(client, name, each) for name, client in clients.items()))
            acknowledged = {path for paths in written for path in paths}
            assert len(acknowledged) == each * len(clients)

            for client in clients.values():
                found: set[str] = set()
                for name in clients:
                    result = await client.call_tool("memory_search", {"query": f"pelican {name}", "top_k": 100})
                    found |= {hit["path"] for hit in structured(result)["hits"]}
                assert found == acknowledged


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.slow
@pytest.mark.few(1)
def test_a_call_is_one_log_line_without_content_or_secrets(tmp_path: Path, era: Era) -> None:
    secret, content = "s3cret-token-of-the-caller", "the canary sings at dawn"
    with process(tmp_path, BRAINS_TOKEN=secret) as served, httpx.Client() as http:

        def call(tool: str, **arguments: Any) -> dict[str, Any]:
            request = raw_call(era, tool, arguments)
            request["headers"]["authorization"] = f"Bearer {secret}"
            return dict(messages_of(http.post(served.url, **request))[-1]["result"])

        call("memory_remember", content=content, title="canary title", tags=["canary-tag"], brain="main")
        call("memory_search", query="canary query", brain="main")
        call("memory_ask", query="canary question?", brain="main")
        failed = call("memory_search", query="canary", brain="canary-brain")
        call("memory_search", query="canary", canary_argument=1)

    calls = [event for event in served.events() if event["event"] == "call.served"]
    whose = {"request_id", "surface", "tool", "caller", "client", "brain"}
    assert [set(event) for event in calls] == [{"event", "level", "timestamp", *whose, "route", "status", "ms"}] * 5
    assert [(event["tool"], event["status"]) for event in calls] == [
        ("memory_remember", "ok"),
        ("memory_search", "ok"),
        ("memory_ask", "ok"),
        ("memory_search", "no_brain"),
        ("memory_search", "validation_error"),
    ]
    assert calls[1]["route"] == "GET /v1/brains/{brain}/search"
    assert calls[3]["request_id"] == failed["structuredContent"]["request_id"]
    everything = served.errors.read_text(encoding="utf-8").replace("canary-brain", "")
    assert "canary" not in everything
    assert secret not in everything


def children_of(pid: int) -> set[int]:
    """Worker processes: children that run Python code of ours, not multiprocessing's resource tracker."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    return {int(child) for child in text.split() if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()}


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_a_life_is_told_in_lines_of_json_and_nothing_else(tmp_path: Path) -> None:
    with process(tmp_path, "--workers", "2") as served:

        def told(event: str) -> list[dict[str, Any]]:
            return [line for line in served.events() if line["event"] == event]

        wait_until(lambda: len(told("worker.started")) == 2, "two workers did not start")
        victim = told("worker.started")[0]["pid"]
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: len(told("worker.started")) == 3, "the dead worker was not replaced")
        served.process.terminate()
        served.process.wait(30)

    lines = served.errors.read_text(encoding="utf-8").splitlines()
    events = [json.loads(line)["event"] for line in lines]
    assert events[:2] == ["gateway.started", "gateway.listening"]
    assert events[-2:] == ["gateway.stopping", "gateway.stopped"]
    assert told("gateway.listening")[0]["url"] == served.url
    # On a machine that is busy the supervisor may take another one for dead.
    died = told("worker.died")[0]
    assert (died["pid"], died["exit_code"]) == (victim, -signal.SIGKILL)
    assert died["replaced_by"] not in {victim, None}


@pytest.mark.slow
def test_workers_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    with process(tmp_path, "--workers", "2") as served:
        workers = children_of(served.process.pid)
        assert len(workers) == 2
        served.process.kill()
        wait_until(lambda: not any(is_running(worker) for worker in workers), "a worker outlived its supervisor")


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.slow
@pytest.mark.few(1)
def test_sigterm_ends_it_and_what_was_stored_stays(tmp_path: Path, workers: str) -> None:
    with process(tmp_path, "--workers", workers) as served, httpx.Client() as http:
        stored = http.post(served.url, **raw_call("modern", "memory_remember", {"content": "still here"}))
        assert not messages_of(stored)[-1]["result"]["isError"]
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(20) in {0, -signal.SIGTERM}
    with process(tmp_path, "--workers", workers) as served, httpx.Client() as http:
        found = http.post(served.url, **raw_call("modern", "memory_search", {"query": "still"}))
        assert len(messages_of(found)[-1]["result"]["structuredContent"]["hits"]) == 1


@pytest.mark.slow
def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    for round_ in range(2):
        with process(tmp_path) as served, httpx.Client() as http:
            for n in range(10):
                arguments = {"content": f"pelican {round_} {n}", "brain": "main"}
                answer = messages_of(http.post(served.url, **raw_call("modern", "memory_remember", arguments)))[-1]
                acknowledged.append(answer["result"]["structuredContent"]["path"])
            served.process.kill()
            served.process.wait(30)
    with process(tmp_path) as served, httpx.Client() as http:
        search = raw_call("modern", "memory_search", {"query": "pelican", "top_k": 100})
        hits = messages_of(http.post(served.url, **search))[-1]["result"]["structuredContent"]["hits"]
        assert {hit["path"] for hit in hits} == set(acknowledged)
        assert len(acknowledged) == 20


def test_start_says_where_everything_is_and_how_to_connect(tmp_path: Path) -> None:
    with process(tmp_path, BRAINS_INGEST_ROOTS=str(tmp_path), BRAINS_LOG_FORMAT="text") as served:
        said = served.errors.read_text(encoding="utf-8")
        assert f"listens on   {served.url}" in said
        assert f"data in {served.data_dir}" in said
        assert f"files are ingested from     {tmp_path}" in said
        assert f"claude mcp add --transport http brains {served.url}" in said
        entries = [json.loads(line) for line in said.splitlines() if line.strip().startswith('{"')]
        assert {"mcpServers": {"brains": {"url": served.url}}} in entries
        assert {"servers": {"brains": {"type": "http", "url": served.url}}} in entries
        commands = [entry["mcpServers"]["brains"] for entry in entries if "mcpServers" in entry]
        assert any(command.get("args") == ["stdio"] for command in commands)


@pytest.mark.slow
def test_the_metrics_of_all_workers_add_up_and_outlive_a_worker_that_is_killed(tmp_path: Path) -> None:
    port = free_port()
    with process(tmp_path, "--workers", "2", BRAINS_METRICS_PORT=str(port)) as served:
        url, calls = f"http://127.0.0.1:{port}", 40

        def call(times: int) -> None:
            for _ in range(times):
                # A connection of its own each time, so that both workers get some.
                assert httpx.post(served.url, **raw_call("modern", "memory_list_brains", {}), timeout=60).is_success

        wait_until(lambda: Scrape(url).sum("brains_processes") == 2, "a worker did not start")
        call(calls)
        assert Scrape(url).sum("brains_calls_total", outcome="ok") == calls
        killed = children_of(served.process.pid)
        for worker in killed:
            os.kill(worker, signal.SIGKILL)
        wait_until(lambda: not any(map(is_running, killed)), "a worker was not killed")
        assert Scrape(url).sum("brains_calls_total", outcome="ok") == calls
        wait_until(lambda: Scrape(url).sum("brains_processes") == 2, "a worker was not replaced")
        call(5)
        after = Scrape(url)
        assert after.sum("brains_calls_total", outcome="ok") == calls + 5
        assert after.sum("brains_calls_in_flight") == 0
        # On the port of callers there is nothing, and behind a name of somebody's for this machine neither.
        assert httpx.get(f"http://127.0.0.1:{served.port}/metrics").status_code == 404
        assert httpx.get(f"{url}/metrics", headers={"host": "evil.example"}).status_code == 401


def test_a_port_for_metrics_that_is_taken_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = run_here("serve", "--port", str(free_port()), BRAINS_METRICS_PORT=port, BRAINS_DATA_DIR=str(tmp_path))
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].endswith(
        f"Port {port} cannot be listened on: choose another with BRAINS_METRICS_PORT."
    )


@pytest.mark.slow
def test_the_metrics_of_two_replicas_with_two_workers_add_up_to_what_was_sent(tmp_path: Path) -> None:
    ports, sent = [free_port(), free_port()], 120
    for n in range(2):
        (tmp_path / str(n)).mkdir()
    with (
        process(tmp_path / "0", "--workers", "2", BRAINS_METRICS_PORT=str(ports[0])) as first,
        process(tmp_path / "1", "--workers", "2", BRAINS_METRICS_PORT=str(ports[1])) as second,
    ):
        call = raw_call("modern", "memory_list_brains", {})
        with ThreadPoolExecutor(8) as crowd:
            urls = [(first, second)[n % 2].url for n in range(sent)]
            answers = list(crowd.map(lambda url: httpx.post(url, **call, timeout=60), urls))
        assert {answer.status_code for answer in answers} == {200}
        seen = [Scrape(f"http://127.0.0.1:{port}") for port in ports]
    body = len(answers[0].request.content)
    assert [scrape.sum("brains_calls_total", outcome="ok") for scrape in seen] == [sent / 2, sent / 2]
    assert sum(scrape.sum("brains_call_seconds_count") for scrape in seen) == sent
    assert sum(scrape.sum("brains_http_received_bytes_total") for scrape in seen) == sent * body
