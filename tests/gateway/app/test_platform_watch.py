"""Whether the platform is there is known without anybody's call, and asking for it costs it little."""

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from gateway.app.platform_watch import PlatformWatch
from gateway.upstream.wire.transport import pooled_client


class Body(httpx.AsyncByteStream):
    """Of an answer that comes from a network."""

    def __init__(self, body: bytes = b"") -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def watched(
    answer: Callable[[httpx.Request], httpx.Response], clock: Clock, root: str | None = "http://p"
) -> PlatformWatch:
    return PlatformWatch(lambda: root, pooled_client(httpx.MockTransport(answer)), clock)


@pytest.mark.parametrize(
    ("status", "state"),
    [(200, "ok"), (204, "ok"), (302, "ok"), (401, "ok"), (404, "ok"), (500, "unavailable"), (503, "unavailable")],
)
async def test_whatever_answers_is_there_unless_it_says_that_it_cannot(status: int, state: str) -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(status, stream=Body())

    watch = watched(answer, Clock())
    assert await watch.state() == state
    (request,) = asked
    assert (request.method, str(request.url)) == ("GET", "http://p/healthz")
    assert "authorization" not in request.headers


async def test_as_long_as_there_is_no_platform_nothing_is_known_and_nobody_asked() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise AssertionError("it was asked")

    assert await watched(answer, Clock(), None).state() == "unknown"


async def test_a_platform_that_dies_and_comes_back_is_noticed_without_a_call() -> None:
    clock, alive = Clock(), True

    def answer(request: httpx.Request) -> httpx.Response:
        if not alive:
            raise httpx.ConnectError("refused")
        return httpx.Response(200)

    watch = watched(answer, clock)
    assert await watch.state() == "ok"
    alive = False
    # Not before the next look.
    assert await watch.state() == "ok"
    clock.now += 13
    assert await watch.state() == "unavailable"
    alive = True
    # Whoever waits for it need not wait for the usual time between two looks, but does not cause a look each time.
    clock.now += 0.9
    assert await watch.state() == "unavailable"
    clock.now += 0.2
    assert await watch.state() == "ok"


async def test_one_late_answer_is_not_the_end_of_a_platform_and_two_are() -> None:
    clock = Clock()

    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("late")

    watch = watched(answer, clock)
    assert await watch.state() == "unknown"
    clock.now += 13
    assert await watch.state() == "unavailable"


async def test_many_who_ask_are_one_look_and_looks_are_far_apart() -> None:
    clock, looks, go_on = Clock(), 0, asyncio.Event()

    class Slow(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            nonlocal looks
            looks += 1
            await go_on.wait()
            return httpx.Response(200)

    watch = PlatformWatch(lambda: "http://p", pooled_client(Slow()), clock)
    asking = [asyncio.create_task(watch.state()) for _ in range(50)]
    await asyncio.sleep(0)
    go_on.set()
    assert set(await asyncio.gather(*asking)) == {"ok"}
    assert looks == 1
    clock.now += 7.9
    await watch.state()
    assert looks == 1
    clock.now += 4.2
    await watch.state()
    assert looks == 2


async def test_whoever_asks_does_not_wait_for_a_platform_that_does_not_answer() -> None:
    class Silent(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await asyncio.Event().wait()
            raise AssertionError("nobody wakes it")

    watch = PlatformWatch(lambda: "http://p", pooled_client(Silent()), Clock())
    assert await watch.state() == "unknown"
    await watch.close()


async def test_what_an_embedded_brain_says_of_its_file_is_kept_and_nothing_else() -> None:
    bodies = [b'{"ok": false, "problem": "the disk is full"}', b"no JSON", b'["x"]', b'{"problem": 7}', b"x" * 5000]
    clock, said = Clock(), iter(bodies)
    watch = watched(lambda _: httpx.Response(503, stream=Body(next(said))), clock)
    found = []
    for _ in bodies:
        await watch.state()
        found.append(watch.problem)
        clock.now += 13
    assert found == ["the disk is full", None, None, None, None]
