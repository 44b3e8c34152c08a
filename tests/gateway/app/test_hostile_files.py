"""Hostile files and pages on the embedded brain: each is stored or refused, and costs the process next to nothing."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from gateway.app.embedded import EmbeddedBrain
from gateway.ingest.web_page import Page
from tests.daemons.real import free_port
from tests.gateway.app.hostile_files import HOSTILE, MIB
from tests.gateway.test_processes import answers, wait_until

BRAIN = "/v1/brains/main"
# Of the brain's own process, whatever it was sent; before anything is sent it has some sixty.
MEMORY_MIB = 300
# What decoding and indexing a mebibyte may take of its own time, on a slow machine.
CPU_SECONDS = 20.0
PATIENCE = 90.0
CASES = [pytest.param(name, marks=[pytest.mark.slow] if one.slow else []) for name, one in HOSTILE.items()]


@dataclass
class Running:
    """The embedded brain as a process of its own, so that what it costs can be told from what the tests cost."""

    client: httpx.Client
    pid: int

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mib(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8").split()
        return int(status[status.index("VmHWM:") + 1]) / 1024

    def paths(self) -> list[str]:
        items = self.client.get(f"{BRAIN}/documents", params={"recursive": "true"}).json()["items"]
        return [item["path"] for item in items]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    port, data = free_port(), tmp_path_factory.mktemp("hostile")
    command = [sys.executable, "-m", "gateway", "platform", "--port", str(port), "--data-dir", str(data)]
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "BRAINS_LOG_LEVEL": "error"}
    started = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: answers(port), "the platform did not answer")
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
            yield Running(client, started.pid)
    finally:
        started.terminate()
        started.wait(20)


@contextmanager
def healthy(url: httpx.URL) -> Iterator[None]:
    """The health check answers all the while, each time before it is given up."""
    done, trouble = threading.Event(), []

    def look() -> None:
        with httpx.Client(base_url=url, timeout=10) as client:
            while not done.wait(0.05):
                try:
                    client.get("/healthz").raise_for_status()
                except httpx.HTTPError as error:
                    trouble.append(error)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        done.set()
        looking.join()
    assert trouble == []


def assert_stored_or_refused(answer: httpx.Response, sent: int, stored: bytes | None, refused: bool | None) -> None:
    said = answer.json()
    if answer.status_code == 200:
        assert stored is not None
        assert len(stored) <= max(3 * sent + 1000, MIB + 8 * sent)
        assert said["chunk_count"] <= len(stored) // 40 + 1
    else:
        told = {400: "validation_error", 413: "payload_too_large", 415: "unsupported_media_type"}
        assert said["code"] == told.get(answer.status_code), said
        assert len(said["detail"]) > 20
    assert refused in (None, answer.status_code != 200), said


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="counts by /proc")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(9)
@pytest.mark.few(12)
def test_a_hostile_file_is_stored_or_refused_and_holds_nobody_up(running: Running, case: str) -> None:
    hostile = HOSTILE[case]
    body, before, cpu = hostile.make(), running.paths(), running.cpu_seconds()
    assert len(body) <= MIB
    with healthy(running.client.base_url):
        answer = running.client.post(
            f"{BRAIN}/documents/ingest/file", files={"file": (hostile.name, body, hostile.content_type)}
        )
    path, stored = answer.json().get("path"), None
    if answer.status_code == 200:
        stored = running.client.get(f"{BRAIN}/documents/read", params={"path": path}).content
    assert_stored_or_refused(answer, len(body), stored, hostile.refused)
    assert running.paths() == sorted([*before, *([path] if path else [])])
    assert running.cpu_seconds() - cpu < CPU_SECONDS
    assert running.peak_mib() < MEMORY_MIB


PAGE_TYPES = {"pdf": "application/pdf", "html": "text/html", "json": "application/json", "txt": "text/plain"}
PAGES = [case for case in CASES if HOSTILE[str(case.values[0])].name != "a.md"]


@pytest.mark.parametrize("case", PAGES[::3])
@pytest.mark.slow
@pytest.mark.few(5)
def test_a_hostile_page_is_stored_or_refused_and_holds_nobody_up(tmp_path: Path, case: str) -> None:
    hostile = HOSTILE[case]
    body = hostile.make()

    async def fetch(url: str) -> Page:
        return Page(url, PAGE_TYPES[hostile.name.partition(".")[2]], body)

    brain = EmbeddedBrain(tmp_path, fetch)
    token = {"authorization": f"Bearer {brain.endpoint.token}"}
    try:
        with httpx.Client(base_url=brain.endpoint.url, headers=token, timeout=PATIENCE) as client:
            with healthy(client.base_url):
                answer = client.post(f"{BRAIN}/documents/ingest/url", json={"url": "https://example.com/x"})
            kept = client.get(f"{BRAIN}/documents", params={"recursive": "true"}).json()["items"]
    finally:
        brain.stop()
    assert answer.status_code in (200, 400, 413, 502), answer.text
    assert [item["path"] for item in kept] == ([answer.json()["path"]] if answer.status_code == 200 else [])
