"""SIGTERM drains, then ends: what is under way is answered, what is new is refused, what goes on too long is cut."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from tests.gateway.test_processes import Process, process
from tests.served import Era, listening, messages_of, raw_call
from tests.upstreams import Answer, Scripted, SlowStream, SlowWrite

T = TypeVar("T")
ERAS: tuple[Era, ...] = ("modern", "legacy")
WORKERS = ("1", pytest.param("2", marks=pytest.mark.slow))
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def each_once(others: Sequence[T]) -> list[Any]:
    """One worker and two, each with another of two values: a process costs seconds. By night, all of them together."""
    one, two = others
    pairs = [("1", one), pytest.param("2", two, marks=pytest.mark.slow)]
    rest = [("1", two), ("2", one)]
    return [*pairs, *(pytest.param(*pair, marks=pytest.mark.nightly) for pair in rest)]


# The ten seconds of the drain, and many for a machine that is busy. What is not cut goes on for ever.
DRAINED_SECONDS = 60
# Below the drain: whoever takes longer has waited for it.
AT_ONCE_SECONDS = 8
REMEMBER = {"content": "x", "brain": "main"}
ASK = {"query": "x", "brain": "main"}


@dataclass
class Slow:
    """A platform whose one write takes a while, and whose answers never end."""

    write: SlowWrite = field(default_factory=SlowWrite)
    stream: SlowStream = field(default_factory=SlowStream)

    @contextmanager
    def served(self) -> Iterator[dict[str, str]]:
        """The settings of a gateway in front of it."""
        answers: dict[str, Answer] = {
            "POST /v1/brains/main/documents": self.write,
            "POST /v1/brains/main/ask": self.stream,
        }
        with listening(Scripted(answers).app()) as url:
            yield {"BRAINS_UPSTREAM_URL": url, "BRAINS_DIALECT": "platform"}


async def until(event: Any, seconds: float = 30) -> bool:
    return await asyncio.to_thread(event.wait, seconds)


async def ended(running: "subprocess.Popen[bytes]", seconds: float) -> int:
    return await asyncio.to_thread(running.wait, seconds)


async def refused(port: int, seconds: float) -> bool:
    """Whether nobody listens there any more, within so many seconds; a connection taken and left alone is not that."""
    for _ in range(int(seconds / 0.05)):
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), 1)
        except ConnectionRefusedError:
            return True
        except TimeoutError:
            continue
        writer.close()
        await asyncio.sleep(0.05)
    return False


def posted(http: httpx.AsyncClient, served: Process, era: Era, tool: str, arguments: Any) -> "asyncio.Task[Any]":
    return asyncio.ensure_future(http.post(served.url, **raw_call(era, tool, arguments, "token")))


@pytest.mark.parametrize(("workers", "era"), each_once(ERAS))
async def test_a_write_under_way_is_answered_before_the_end(tmp_path: Path, workers: str, era: Era) -> None:
    platform = Slow()
    with platform.served() as settings, process(tmp_path, "--workers", workers, **settings) as served:
        async with httpx.AsyncClient(timeout=30) as http:
            sending = posted(http, served, era, "memory_remember", REMEMBER)
            assert await until(platform.write.arrived)
            served.process.send_signal(signal.SIGTERM)
            result = messages_of(await sending)[-1]["result"]
        assert result["structuredContent"]["outcome"] == "stored"
        assert platform.write.committed.is_set()
        assert await ended(served.process, AT_ONCE_SECONDS) == 0


@pytest.mark.parametrize(("workers", "era"), each_once(ERAS))
@pytest.mark.slow
async def test_a_write_whose_caller_has_left_is_seen_through(tmp_path: Path, workers: str, era: Era) -> None:
    platform = Slow()
    with platform.served() as settings, process(tmp_path, "--workers", workers, **settings) as served:
        async with httpx.AsyncClient(timeout=30) as http:
            sending = posted(http, served, era, "memory_remember", REMEMBER)
            assert await until(platform.write.arrived)
            sending.cancel()
            await asyncio.wait([sending])
        served.process.send_signal(signal.SIGTERM)
        assert await ended(served.process, AT_ONCE_SECONDS) == 0
        assert platform.write.committed.is_set()


async def told_until_the_end(response: httpx.Response, progress: asyncio.Event) -> list[dict[str, Any]]:
    """Every message of a stream, however it ends."""
    messages: list[dict[str, Any]] = []
    try:
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                messages.append(json.loads(line.removeprefix("data: ")))
                progress.set()
    except httpx.RemoteProtocolError:
        pass  # cut without the last chunk: an end that nobody takes for a whole answer
    return messages


@pytest.mark.slow
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.few(1)
async def test_an_answer_goes_on_while_the_gateway_drains_and_is_then_cut(tmp_path: Path, workers: str) -> None:
    """Both eras at once, in one process. What is cut has no result that could be taken for an answer."""
    platform = Slow()
    with platform.served() as settings, process(tmp_path, "--workers", workers, **settings) as served:
        async with httpx.AsyncClient(timeout=30) as http, asyncio.TaskGroup() as clients:
            readers = []
            for era in ERAS:
                progress, call = asyncio.Event(), raw_call(era, "memory_ask", ASK, "token")
                response = await http.send(http.build_request("POST", served.url, **call), stream=True)
                readers.append((progress, clients.create_task(told_until_the_end(response, progress))))
                await asyncio.wait_for(progress.wait(), 30)
            served.process.send_signal(signal.SIGTERM)
            assert await refused(served.port, AT_ONCE_SECONDS), "a draining gateway still takes connections"
            for progress, _ in readers:
                progress.clear()
            for progress, _ in readers:
                await asyncio.wait_for(progress.wait(), 30)  # still streaming after the signal
            code = await ended(served.process, DRAINED_SECONDS)
        assert code == 0
        assert platform.stream.closed.is_set()
        for _, reader in readers:
            assert_cut(reader.result())


def assert_cut(messages: list[dict[str, Any]]) -> None:
    """Progress, then nothing or a failure by name; never a result that says it is whole."""
    *_, last = messages
    if "method" not in last:
        result = last.get("result", {})
        assert "error" in last or result.get("isError") is True, f"a cut answer looks whole: {last}"
    assert len(messages) > 10


@pytest.mark.parametrize(("workers", "again"), each_once(SIGNALS))
@pytest.mark.slow
@pytest.mark.few(1)
async def test_a_second_signal_ends_it_at_once(tmp_path: Path, workers: str, again: signal.Signals) -> None:
    platform = Slow()
    with platform.served() as settings, process(tmp_path, "--workers", workers, **settings) as served:
        async with httpx.AsyncClient(timeout=30) as http:
            asking = posted(http, served, "modern", "memory_ask", ASK)
            assert await until(platform.stream.started)
            served.process.send_signal(signal.SIGTERM)
            assert await refused(served.port, AT_ONCE_SECONDS)
            served.process.send_signal(again)
            await ended(served.process, AT_ONCE_SECONDS)
            asking.cancel()
            await asyncio.wait([asking])
        assert await until(platform.stream.closed, AT_ONCE_SECONDS), "a worker outlived the second signal"


@dataclass
class Stdio:
    """A `stdio` process, spoken to line by line."""

    process: asyncio.subprocess.Process

    async def say(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()

    async def heard(self) -> list[dict[str, Any]]:
        """Everything it says from here until it closes its mouth."""
        assert self.process.stdout is not None
        return [json.loads(line) async for line in self.process.stdout]

    async def result(self, seconds: float = 10) -> dict[str, Any]:
        """The result of the call, past any progress."""
        assert self.process.stdout is not None
        async with asyncio.timeout(seconds):
            async for line in self.process.stdout:
                if "result" in (message := json.loads(line)):
                    return dict(message["result"])
        raise AssertionError("it ended without an answer")


@asynccontextmanager
async def over_stdio(tmp_path: Path, era: Era, settings: dict[str, str]) -> AsyncIterator[Stdio]:
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "BRAINS_LOG_LEVEL": "error", **settings}
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "stdio"),
        env=environment,
        cwd=tmp_path,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    spoken = Stdio(started)
    try:
        if era == "legacy":
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            await spoken.say({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
            await spoken.result(30)
            await spoken.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield spoken
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


def called(era: Era, tool: str, arguments: Any) -> dict[str, Any]:
    message: dict[str, Any] = raw_call(era, tool, arguments, "token")["json"]
    return message


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.slow
async def test_a_write_under_way_over_stdio_is_answered_before_the_end(tmp_path: Path, era: Era) -> None:
    platform = Slow()
    with platform.served() as settings:
        async with over_stdio(tmp_path, era, settings) as gateway:
            await gateway.say(called(era, "memory_remember", REMEMBER))
            assert await until(platform.write.arrived)
            gateway.process.terminate()
            result = await gateway.result()
            assert result["structuredContent"]["outcome"] == "stored"
            assert await asyncio.wait_for(gateway.process.wait(), AT_ONCE_SECONDS) == 0
        assert platform.write.committed.is_set()


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.slow
async def test_a_write_over_stdio_that_was_cancelled_is_seen_through_before_the_end(tmp_path: Path, era: Era) -> None:
    platform = Slow()
    with platform.served() as settings:
        async with over_stdio(tmp_path, era, settings) as gateway:
            await gateway.say(called(era, "memory_remember", REMEMBER))
            assert await until(platform.write.arrived)
            await gateway.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
            gateway.process.terminate()
            assert await asyncio.wait_for(gateway.process.wait(), AT_ONCE_SECONDS) == 0
        assert platform.write.committed.is_set()


@pytest.mark.slow
async def test_an_answer_over_stdio_goes_on_while_it_drains_and_is_then_cut(tmp_path: Path) -> None:
    """Both eras at once, each in a process of its own."""

    async def streamed(era: Era) -> None:
        platform = Slow()
        with platform.served() as settings:
            async with over_stdio(tmp_path, era, settings) as gateway:
                await gateway.say(called(era, "memory_ask", ASK))
                assert await until(platform.stream.started)
                gateway.process.terminate()
                hearing = asyncio.ensure_future(gateway.heard())
                assert not await until(platform.stream.closed, 2), "the answer was cut before it was given time"
                assert await asyncio.wait_for(gateway.process.wait(), DRAINED_SECONDS) == 0
                assert_cut(await hearing)
            assert await until(platform.stream.closed, 1)

    await asyncio.gather(*(streamed(era) for era in ERAS))


@pytest.mark.parametrize("again", [signal.SIGTERM, signal.SIGINT], ids=["sigterm", "sigint"])
@pytest.mark.slow
async def test_a_second_signal_over_stdio_ends_it_at_once(tmp_path: Path, again: signal.Signals) -> None:
    platform = Slow()
    with platform.served() as settings:
        async with over_stdio(tmp_path, "modern", settings) as gateway:
            await gateway.say(called("modern", "memory_ask", ASK))
            assert await until(platform.stream.started)
            gateway.process.terminate()
            assert not await until(platform.stream.closed, 1), "the answer was cut before it was given time"
            gateway.process.send_signal(again)
            await asyncio.wait_for(gateway.process.wait(), AT_ONCE_SECONDS)


@pytest.mark.slow
async def test_an_idle_gateway_over_stdio_ends_at_once(tmp_path: Path) -> None:
    with Slow().served() as settings:
        async with over_stdio(tmp_path, "legacy", settings) as gateway:
            gateway.process.terminate()
            assert await asyncio.wait_for(gateway.process.wait(), AT_ONCE_SECONDS) == 0
