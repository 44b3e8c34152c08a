"""Several gateways behind a load balancer: they come and go, and what callers write is there once."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from contract.platform.sessions import Message
from contract.platform.store import Store
from gateway.config import token_file
from tests.canaries.processes import Process, running
from tests.faults.proof.shelves import mark
from tests.gateway.test_processes import children_of
from tests.replicas.balancer import balancing
from tests.replicas.load import BROKEN, Client, Told, differences, load, stored, until_written, with_token
from tests.served import Era, messages_of, raw_call

UPSTREAM_TOKEN = "upstream-token"


@dataclass
class Replicas:
    """Two gateways of one process, one of two workers, and the platform behind them all."""

    gateways: list[Process]
    directory: Path
    token: str

    @property
    def ports(self) -> list[int]:
        return [gateway.port for gateway in self.gateways]


@contextmanager
def replicas(directory: Path) -> Iterator[Replicas]:
    platform = Process(
        {"BRAINS_LOG_LEVEL": "error"},
        directory / "platform.txt",
        command="platform",
        arguments=("--token", UPSTREAM_TOKEN, "--data-dir", str(directory / "platform")),
    )
    token = with_token(directory / "tokens.json", "writer")
    settings = {
        "BRAINS_UPSTREAM_URL": platform.url,
        "BRAINS_UPSTREAM_TOKEN": UPSTREAM_TOKEN,
        "BRAINS_AUTH": "tokens",
        "BRAINS_SINGLE_TENANT": "true",
        "BRAINS_TOKENS_FILE": str(directory / "tokens.json"),
        "BRAINS_DATA_DIR": str(directory / "data"),
        # Clients here call as fast as they can, all with one token.
        "BRAINS_CALLS_PER_SECOND": "10000",
    }
    gateways = [
        Process(settings, directory / f"gateway-{n}.txt", arguments=("--workers", workers) if workers != "1" else ())
        for n, workers in enumerate(("1", "1", "2"))
    ]
    with running(platform, *gateways):
        yield Replicas(gateways, directory, token)


async def kill_them_in_turn(world: Replicas, told: Told) -> None:
    first, second, third = world.gateways
    await until_written(told, 10)
    for gateway in (first, second):
        await asyncio.to_thread(gateway.kill)
        await until_written(told, 10)
        gateway.start()
        await asyncio.to_thread(gateway.wait)
        await until_written(told, 10)
    assert third.process is not None
    worker = min(children_of(third.process.pid))
    os.kill(worker, signal.SIGKILL)
    await until_written(told, 10)


async def check_kills_under_load(world: Replicas) -> None:
    async with balancing(world.ports) as (url, balancer), load(url, world.token) as told:
        await kill_them_in_turn(world, told)
    assert told.final == []
    assert told.errors[BROKEN] > 0, "nobody was in the middle of a call when it was killed"
    assert len(told.marks) >= 60
    assert told.searches >= 60
    assert min(balancer.taken) >= 10
    assert differences(world.directory / "platform", told) == {}


async def on_each(world: Replicas, token: str, tool: str, arguments: dict[str, Any]) -> list[httpx.Response]:
    """One call by each way in, and twice where there are two workers."""
    request = raw_call("modern", tool, arguments)
    request["headers"] |= {"authorization": f"Bearer {token}", "connection": "close"}
    async with httpx.AsyncClient(trust_env=False, timeout=20) as http:
        urls = [gateway.url for gateway in world.gateways] + [world.gateways[-1].url] * 3
        return [await http.post(f"{url}/mcp/main", **request) for url in urls]


async def check_a_write_is_the_same_everywhere(world: Replicas) -> None:
    word = mark(0, 1)
    written = await on_each(world, world.token, "memory_remember", {"content": word})
    said = [messages_of(answer)[-1]["result"]["structuredContent"] for answer in written]
    assert len({answer["path"] for answer in said}) == 1
    assert [bool(answer.get("reused")) for answer in said] == [False] + [True] * (len(said) - 1)
    assert stored(world.directory / "platform")[word] == 1


async def check_a_token_is_good_everywhere_or_nowhere(world: Replicas) -> None:
    async def statuses(token: str) -> set[int]:
        return {answer.status_code for answer in await on_each(world, token, "memory_search", {"query": "heron"})}

    path = world.directory / "tokens.json"
    young = with_token(path, "young")
    assert await statuses(young) == {200}
    with token_file.change(path) as records:
        records[:] = [record for record in records if record.id != "young"]
    assert await statuses(young) == {401}
    assert await statuses(world.token) == {200}
    logged = "".join(gateway.said() for gateway in world.gateways)
    assert not any(secret in logged for secret in (world.token, young, UPSTREAM_TOKEN))


@pytest.mark.slow
async def test_replicas_that_are_killed_under_load_double_and_lose_nothing(
    tmp_path: Path,
) -> None:
    # One test, because five processes take longer to start than all of it does.
    with replicas(tmp_path) as world:
        await check_kills_under_load(world)
        await check_a_write_is_the_same_everywhere(world)
        await check_a_token_is_good_everywhere_or_nowhere(world)


async def test_the_balancer_of_these_tests_takes_turns_and_passes_over_who_is_down() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    servers = [await asyncio.start_server(answer, "127.0.0.1", 0) for _ in range(2)]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    async with balancing(ports) as (url, balancer):
        port = int(url.rpartition(":")[2])
        assert [await _echoed(port) for _ in range(4)] == [b"word\n"] * 4
        assert balancer.taken == [2, 2]
        servers[0].close()
        await servers[0].wait_closed()
        assert [await _echoed(port) for _ in range(4)] == [b"word\n"] * 4
        assert balancer.taken == [2, 6]
        servers[1].close()
        assert await _echoed(port) == b""


async def _echoed(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"word\n")
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(("kills", "breaks", "twice"), [(0, 1, 0), (1, 1, 0), (1, 2, 1), (2, 2, 0), (2, 3, 1)])
async def test_a_call_that_broke_more_often_than_something_was_killed_has_failed_twice(
    kills: int, breaks: int, twice: int
) -> None:
    told, left = Told(), [*[False] * (breaks - kills), *[True] * kills]

    class Unlucky(Client):
        async def _once(self, tool: str, arguments: dict[str, Any], era: Era) -> dict[str, Any] | None:
            if not left:
                return {}
            if left.pop():
                with told.disturbed():
                    return None
            return None

    async with httpx.AsyncClient() as http:
        assert await Unlucky(http, "", "", told).call("memory_search", {}, "modern") == {}
    assert (told.failed_twice, told.sent) == (twice, {breaks + 1: 1})


def test_the_check_of_these_tests_tells_what_is_lost_doubled_and_out_of_order(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    brain = store.brain("main")
    once, twice, never = (mark(0, n) for n in range(3))
    for path in ("once.md", "twice.md", "again.md"):
        store.documents.put(brain, path, (once if path == "once.md" else twice).encode())
    told = Told(marks=[once, twice, never])
    for session, said in {"s": "abbd", "t": "ab", "u": "ba"}.items():
        for letter in said:
            store.sessions.add(brain, session, Message("user", f"{letter} {mark(1, ord(letter))}"))
        told.messages[session] = [f"{session} {letter} {mark(1, ord(letter))}" for letter in sorted({*said, "a", "b"})]
    told.messages["s"].append(f"s c {mark(1, 1)}")
    store.close()
    assert differences(tmp_path, told) == {
        twice: 2,
        never: 0,
        f"s b {mark(1, ord('b'))}": 2,
        f"s c {mark(1, 1)}": 0,
        "u": "in another order",
    }
