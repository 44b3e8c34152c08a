"""What goes on after an answer, in real processes: seen through at a stop, taken up again after a kill."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.daemons.fake import BRAIN, FakeDaemon, T
from tests.gateway.conftest import TALK
from tests.gateway.test_processes import Process, process, wait_until
from tests.served import listening, raw_call

pytestmark = pytest.mark.not_quick

EXTRACT = f"POST {BRAIN}/extract"


@contextmanager
def daemon_and_url() -> Iterator[tuple[FakeDaemon, str]]:
    daemon = FakeDaemon(T, llm=TALK)
    daemon.brains["main"] = {}
    with listening(daemon.app()) as url:
        yield daemon, url


def say(gateway: Process, words: str) -> None:
    arguments = {"session_id": "talk", "messages": [{"role": "user", "content": words}]}
    answer = httpx.post(gateway.url, **raw_call("modern", "memory_extract", arguments), timeout=30)
    assert '"outcome":"stored"' in answer.text.replace(" ", "")


def extracted(daemon: FakeDaemon) -> list[str]:
    return [path for path in list(daemon.brains["main"]) if path.startswith("memory/global/extracted-")]


def marks(daemon: FakeDaemon) -> list[int]:
    (log,) = [path for path in list(daemon.brains["main"]) if path.startswith("sessions/")]
    lines = [json.loads(line) for line in daemon.brains["main"][log][0].split(b"\n") if line]
    return [line["through"] for line in lines if line["kind"] == "extracted"]


@pytest.mark.slow
def test_what_was_begun_is_seen_through_when_told_to_stop(tmp_path: Path) -> None:
    with daemon_and_url() as (daemon, url), process(tmp_path, BRAINS_UPSTREAM_URL=url) as gateway:
        say(gateway, "hello")
        wait_until(lambda: marks(daemon) == [1], "the first message was not looked at")
        daemon.delay = 0.2
        say(gateway, "The pump is fixed.")
        gateway.process.send_signal(signal.SIGTERM)
        gateway.process.wait(20)
        assert marks(daemon) == [1, 2]
        assert len(extracted(daemon)) == 1


@pytest.mark.slow
def test_what_a_killed_process_left_is_taken_up_by_the_next_call(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with daemon_and_url() as (daemon, url):
        with process(tmp_path / "one", BRAINS_UPSTREAM_URL=url) as gateway:
            daemon.fail[EXTRACT] = 503
            say(gateway, "The pump is fixed.")
            gateway.process.kill()
            gateway.process.wait(20)
        assert marks(daemon) == []
        daemon.fail.clear()
        with process(tmp_path / "two", BRAINS_UPSTREAM_URL=url) as gateway:
            say(gateway, "And it is blue.")
            wait_until(lambda: marks(daemon) == [2], "what was left was not taken up")
        assert len(extracted(daemon)) == 1
