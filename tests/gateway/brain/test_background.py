"""Work that goes on after an answer: one at a time for each name, and seen through at the end."""

import asyncio
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from gateway.brain.background import Background
from gateway.operations.errors import Absent, GatewayError


class Job:
    """Waits until it is let go, and tells what became of it."""

    def __init__(self) -> None:
        self.started, self.go = asyncio.Event(), asyncio.Event()
        self.runs, self.ended = 0, 0

    async def __call__(self) -> None:
        self.runs += 1
        self.started.set()
        await self.go.wait()
        self.ended += 1


async def test_a_job_runs_after_the_one_who_asked_went_on() -> None:
    background, job = Background(), Job()
    background.start("a", job)
    assert job.runs == 0
    job.go.set()
    await background.drain(5)
    assert job.ended == 1


async def test_a_job_asked_for_while_it_runs_is_run_once_more_and_the_last_word_counts() -> None:
    background, first, second, third = Background(), Job(), Job(), Job()
    background.start("a", first)
    await first.started.wait()
    background.start("a", second)
    background.start("a", third)
    assert (second.runs, third.runs) == (0, 0)
    third.go.set()
    first.go.set()
    await background.drain(5)
    assert (first.ended, second.runs, third.ended) == (1, 0, 1)


async def test_jobs_of_one_name_never_run_side_by_side() -> None:
    background, running, most = Background(), 0, 0

    async def job() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    for _ in range(5):
        background.start("a", job)
        await asyncio.sleep(0)
    await background.drain(5)
    assert (running, most) == (0, 1)


async def test_jobs_of_two_names_run_side_by_side() -> None:
    background, one, other = Background(), Job(), Job()
    background.start("a", one)
    background.start("b", other)
    await asyncio.wait_for(asyncio.gather(one.started.wait(), other.started.wait()), 30)
    one.go.set()
    other.go.set()
    await background.drain(5)
    assert (one.ended, other.ended) == (1, 1)


async def test_a_job_that_ended_can_be_asked_for_again() -> None:
    background, job = Background(), Job()
    job.go.set()
    for _ in range(3):
        background.start("a", job)
        await background.drain(5)
    assert job.ended == 3


async def test_draining_waits_for_what_is_under_way_and_what_was_asked_for_meanwhile() -> None:
    background, first, second = Background(), Job(), Job()
    background.start("a", first)
    await first.started.wait()
    background.start("a", second)
    draining = asyncio.ensure_future(background.drain(30))
    await asyncio.sleep(0)
    assert not draining.done()
    first.go.set()
    await second.started.wait()
    assert not draining.done()
    second.go.set()
    await draining
    assert (first.ended, second.ended) == (1, 1)


async def test_what_is_late_is_stopped_and_nothing_is_run_after_it() -> None:
    background, late, next_one = Background(), Job(), Job()
    stopped: list[str] = []

    async def tells() -> None:
        try:
            await late()
        except asyncio.CancelledError:
            stopped.append("a")
            raise

    background.start("a", tells)
    await late.started.wait()
    background.start("a", next_one)
    await background.drain(0.01)
    assert (stopped, late.ended, next_one.runs) == (["a"], 0, 0)


async def test_a_job_that_was_stopped_before_it_began_leaves_nothing_behind() -> None:
    background, job = Background(), Job()
    background.start("a", job)
    await background.drain(0)
    background.start("a", job)
    job.go.set()
    await background.drain(5)
    assert job.ended == 1


async def test_nothing_under_way_is_nothing_to_wait_for() -> None:
    background = Background()
    await asyncio.wait_for(background.drain(60), 30)
    assert background._jobs == {}


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (GatewayError("timeout", "hunter2"), {"event": "after.failed", "code": "timeout", "log_level": "warning"}),
        (Absent("hunter2"), {"event": "after.failed", "code": "not_implemented", "log_level": "warning"}),
        (ValueError("hunter2"), {"event": "after.crashed", "exc_info": True, "log_level": "error"}),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_failure_is_logged_without_its_words_and_stops_nothing_else(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, told: dict[str, Any]
) -> None:
    # A logger that was used before may still write to where it did then.
    monkeypatch.setattr("gateway.brain.background.log", structlog.get_logger())
    background, again = Background(), Job()
    again.go.set()

    async def fails() -> None:
        background.start("a", again)
        raise failure

    with capture_logs() as lines:
        background.start("a", fails)
        await background.drain(5)
    assert lines == [{"job": "a", **told}]
    assert again.ended == 1
