"""When the supervisor takes a worker for dead: at once if its process has ended, later if it is only silent."""

import threading
import time
from dataclasses import dataclass

import pytest
import uvicorn

from gateway.app.stopping import Worker

PATIENCE = 60.0


@dataclass
class Started:
    """A process, as far as the supervisor looks at it."""

    runs: bool = True

    def is_alive(self) -> bool:
        return self.runs


@pytest.fixture
def worker() -> Worker:
    made = Worker(uvicorn.Config("nobody:nothing"), [])
    made.process = Started()  # type: ignore[assignment]
    made._heard = time.monotonic()
    return made


def test_a_worker_that_answers_is_alive(worker: Worker) -> None:
    worker._heard -= 2 * PATIENCE
    answering = threading.Thread(target=worker.pong)
    answering.start()
    assert worker.is_alive(PATIENCE)
    answering.join()


def test_a_worker_that_is_silent_is_alive_for_some_time(worker: Worker) -> None:
    assert worker.is_alive(PATIENCE)
    worker._heard -= 2 * PATIENCE
    assert not worker.is_alive(PATIENCE)


def test_a_worker_that_ends_while_it_is_asked_is_dead_at_once(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(_seconds: float) -> bool:
        worker.process.runs = False  # type: ignore[attr-defined]
        return False

    monkeypatch.setattr(worker, "ping", ends)
    assert not worker.is_alive(PATIENCE)


def test_uvicorn_makes_its_workers_of_this_class() -> None:
    assert uvicorn.supervisors.multiprocess.Process is Worker
