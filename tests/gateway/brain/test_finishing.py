"""A caller may leave at any moment: what was begun to be written is seen through, and nothing else."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.brain import background
from gateway.brain.background import Background
from gateway.brain.brain import Brain
from gateway.operations.caller import Call
from gateway.operations.errors import GatewayError
from gateway.upstream.credentials import Endpoint
from gateway.upstream.dialects.platform import PLATFORM
from gateway.upstream.pipeline import Upstream
from tests.served import listening
from tests.upstreams import Answer, Scripted


class Operation:
    """Something that waits until it is told to go on, and notes how it ended."""

    def __init__(self) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.end = "not yet"

    async def __call__(self, failure: Exception | None = None) -> str:
        self.begun.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.end = "stopped"
            raise
        self.end = "done"
        if failure is not None:
            raise failure
        return "stored"


async def left(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.fixture
async def complaints() -> list[dict[str, Any]]:
    """What asyncio would report as lost."""
    found: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: found.append(context))
    return found


async def test_an_operation_that_is_waited_for_has_its_outcome() -> None:
    operation, running = Operation(), Background()
    operation.may_end.set()
    assert await running.finish(operation(), lambda: True) == "stored"
    with pytest.raises(GatewayError, match="conflict"):
        await running.finish(operation(GatewayError("conflict")), lambda: True)
    assert running._finishing == set()


async def test_who_leaves_before_anything_was_written_takes_it_along() -> None:
    operation, running = Operation(), Background()
    task = asyncio.create_task(running.finish(operation(), lambda: False))
    await operation.begun.wait()
    await left(task)
    await running.drain(5)
    assert operation.end == "stopped"
    assert running._finishing == set()


async def test_who_leaves_after_something_was_written_leaves_it_to_be_done(complaints: list[dict[str, Any]]) -> None:
    operation, running = Operation(), Background()
    task = asyncio.create_task(running.finish(operation(), lambda: True))
    await operation.begun.wait()
    await left(task)
    assert operation.end == "not yet"
    operation.may_end.set()
    await running.drain(5)
    assert operation.end == "done"
    assert running._finishing == set()
    assert complaints == []


async def test_whether_something_was_written_is_asked_when_the_caller_leaves() -> None:
    operation, running, written = Operation(), Background(), list[int]()
    task = asyncio.create_task(running.finish(operation(), lambda: bool(written)))
    await operation.begun.wait()
    written.append(1)
    await left(task)
    operation.may_end.set()
    await running.drain(5)
    assert operation.end == "done"


async def test_a_failure_that_nobody_waits_for_disturbs_nobody(complaints: list[dict[str, Any]]) -> None:
    operation, running = Operation(), Background()
    task = asyncio.create_task(running.finish(operation(RuntimeError("late")), lambda: True))
    await operation.begun.wait()
    await left(task)
    operation.may_end.set()
    await running.drain(5)
    del task, operation
    gc.collect()
    assert complaints == []


async def test_what_takes_too_long_after_its_caller_left_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "GRACE_SECONDS", 0.01)
    operation, running = Operation(), Background()
    task = asyncio.create_task(running.finish(operation(), lambda: True))
    await operation.begun.wait()
    await left(task)
    await running.drain(5)
    assert operation.end == "stopped"


async def test_what_is_waited_for_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "GRACE_SECONDS", 0.0)
    operation, running = Operation(), Background()
    task = asyncio.create_task(running.finish(operation(), lambda: True))
    await operation.begun.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    operation.may_end.set()
    assert await task == "stored"


async def test_draining_waits_for_what_is_under_way() -> None:
    operation, running = Operation(), Background()
    await running.drain(5)
    task = asyncio.create_task(running.finish(operation(), lambda: True))
    await operation.begun.wait()
    draining = asyncio.create_task(running.drain(30))
    await asyncio.sleep(0)
    operation.may_end.set()
    await draining
    assert operation.end == "done"
    await task


async def test_draining_waits_no_longer_than_it_is_told() -> None:
    operation, running = Operation(), Background()
    task = asyncio.create_task(running.finish(operation(), lambda: True))
    await operation.begun.wait()
    await running.drain(0)
    assert operation.end == "stopped"
    with pytest.raises(asyncio.CancelledError):
        await task


# On a brain.


@asynccontextmanager
async def opened(answers: dict[str, Answer]) -> AsyncIterator[tuple[Brain, Scripted]]:
    platform = Scripted(answers)
    with listening(platform.app()) as url:

        async def endpoint() -> Endpoint:
            return Endpoint(url)

        upstream = Upstream((PLATFORM,), endpoint)
        try:
            yield Brain(upstream), platform
        finally:
            await upstream.close()


class Slow:
    """An answer that is held back, and what became of it."""

    def __init__(self, answer: dict[str, Any] | None = None) -> None:
        self.arrived, self.may_answer = threading.Event(), threading.Event()
        self.answer = answer or {}
        self.was_left: list[bool] = []

    async def __call__(self, request: Request) -> Response:
        sent = await request.json() if request.method == "POST" else {}
        self.arrived.set()
        await asyncio.to_thread(self.may_answer.wait, 20)
        self.was_left.append(await request.is_disconnected())
        return JSONResponse({**sent, **self.answer})


MESSAGES = [{"role": "user", "content": str(n)} for n in range(3)]
SAID = "/v1/brains/main/sessions/s/messages"


async def test_messages_that_were_begun_are_all_said_when_their_caller_leaves() -> None:
    """Not only the one that was on its way: a call is not left in the middle."""
    slow = Slow({"id": "m"})
    answers: dict[str, Answer] = {f"POST {SAID}": slow, f"GET {SAID}": lambda _request: {"items": []}}
    async with opened(answers) as (brain, platform):
        task = asyncio.create_task(brain.append_messages(Call(), "main", "s", MESSAGES, None))
        assert await asyncio.to_thread(slow.arrived.wait, 20)
        await left(task)
        slow.may_answer.set()
        await brain.close(10)
        assert platform.requests.count(f"POST {SAID}") == 3
        assert slow.was_left == [False] * 3


async def test_a_call_that_was_still_looking_is_dropped_with_its_caller() -> None:
    slow = Slow({"items": []})
    answers: dict[str, Answer] = {f"POST {SAID}": lambda _request: {"id": "m"}, f"GET {SAID}": slow}
    async with opened(answers) as (brain, platform):
        task = asyncio.create_task(brain.append_messages(Call(), "main", "s", MESSAGES, None))
        assert await asyncio.to_thread(slow.arrived.wait, 20)
        await left(task)
        slow.may_answer.set()
        await brain.close(10)
        assert platform.requests == [f"GET {SAID}"]


async def test_a_search_is_dropped_with_its_caller() -> None:
    arrived, gone = threading.Event(), threading.Event()

    async def wait_for_the_end(request: Request) -> Response:
        await request.body()
        arrived.set()
        await asyncio.wait_for(request.receive(), 20)
        gone.set()
        return Response()

    async with opened({"GET /v1/brains/main/search": wait_for_the_end}) as (brain, _):
        task = asyncio.create_task(brain.serve(Call(), "main", "search", {"query": "x"}))
        assert await asyncio.to_thread(arrived.wait, 20)
        await left(task)
        assert await asyncio.to_thread(gone.wait, 20)


async def test_closing_a_brain_waits_for_a_write_whose_caller_left() -> None:
    slow = Slow({"id": "doc", "byte_size": 1})
    async with opened({"POST /v1/brains/main/documents": slow}) as (brain, _):
        task = asyncio.create_task(brain.remember(Call(), "main", "x", None, [], None))
        assert await asyncio.to_thread(slow.arrived.wait, 20)
        await left(task)
        closing = asyncio.create_task(brain.close(10))
        await asyncio.sleep(0)
        assert not closing.done()
        slow.may_answer.set()
        await closing
        assert slow.was_left == [False]
