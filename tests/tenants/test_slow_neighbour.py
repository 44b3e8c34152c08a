"""One tenant with slow names and slow answers, and the others: their searches are answered before any of its own."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import eventually
from tests.served import Era
from tests.tenants.people import House, Person, house, result_of

ERAS: tuple[Era, ...] = ("modern", "legacy")
# One tenant by many clients: each of them has limits of its own.
NOISY = [Person("noisy", f"client{n}", "red") for n in range(10)]
OTHERS = [Person(f"other{n}", "web", "red") for n in range(4)]
SEARCHES = 15
SLOW = ".slow.example"
# Longer than any caller here waits: a search that has to wait for such a name fails.
SECONDS = 100


class SlowNames:
    """The system's own look-ups, except that some names take long and lead nowhere."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.waiting = self.answered = 0
        self.known: dict[str, str] = {}
        self._real = socket.getaddrinfo

    def __call__(self, host: Any, *arguments: Any, **options: Any) -> Any:
        host = self.known.get(host, host)
        if not str(host).endswith(SLOW):
            return self._real(host, *arguments, **options)
        self.waiting += 1
        self.over.wait(SECONDS)
        self.waiting -= 1
        self.answered += 1
        raise socket.gaierror(socket.EAI_AGAIN, "slow")


@pytest.fixture
def slow_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowNames]:
    slow = SlowNames()
    monkeypatch.setattr(socket, "getaddrinfo", slow)
    yield slow
    slow.over.set()


@pytest.fixture
def street(tmp_path: Path, slow_names: SlowNames) -> Iterator[House]:
    people = [*NOISY, *OTHERS]
    with house(tmp_path, people, asks_at_once=8, read_seconds=SECONDS, first_event_seconds=SECONDS) as found:
        found.platform.hangs_up = True
        yield found


async def search(full: House, http: httpx.AsyncClient, person: Person, n: int) -> None:
    answer = await full.call(http, person, ERAS[n % 2], "memory_search", {"query": "x", "brain": "notes"})
    assert answer.status_code == 200
    assert not result_of(answer)["isError"], answer.text


async def searches(full: House) -> None:
    """Those of all others, each of whom has one under way at a time."""

    async def of_one(http: httpx.AsyncClient, person: Person) -> None:
        for n in range(SEARCHES):
            await search(full, http, person, n)

    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        await asyncio.gather(*(of_one(http, person) for person in OTHERS))


@asynccontextmanager
async def noise(full: House, kind: str, slow_names: SlowNames) -> AsyncIterator[None]:
    """As much as the tenant may have under way, begun again as soon as it ends, until the block is left."""
    tool, at_once = ("memory_ask", 8) if kind == "asks" else ("memory_ingest_url", 2)
    begun, seen = 0, list[int]()
    if kind == "asks":
        full.platform.stalled.add("noisy")

    async def insist(http: httpx.AsyncClient, person: Person, n: int) -> None:
        nonlocal begun
        while True:
            begun += 1
            said = {"query": "x"} if tool == "memory_ask" else {"url": f"https://n{n}{SLOW}/"}
            answer = await full.call(http, person, ERAS[n % 2], tool, {**said, "brain": "notes"})
            assert answer.status_code == 200

    async def is_loud() -> bool:
        """All have begun, and for a while no more of them came to be waiting: the work of beginning is over."""
        seen.append(full.platform.waiting if kind == "asks" else slow_names.waiting)
        return begun >= at_once * len(NOISY) and seen[-1] > 0 and seen[-5:] == [seen[-1]] * 5

    async def is_over() -> bool:
        """Nobody waits for an answer any more: to clear that away is work, and no part of being quiet."""
        return full.platform.waiting == 0

    async with httpx.AsyncClient(timeout=120, trust_env=False, limits=httpx.Limits(max_connections=500)) as http:
        tasks = [asyncio.create_task(insist(http, person, n)) for person in NOISY for n in range(at_once)]
        try:
            await eventually(is_loud)
            yield
            assert not any(task.done() for task in tasks)
            # No answer came in the meantime, so none was asked for again. With names the gateway gives up by itself.
            assert kind == "names" or begun == at_once * len(NOISY)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            full.platform.stalled.clear()
            await eventually(is_over)


@pytest.mark.parametrize("kind", ["names", pytest.param("asks", marks=pytest.mark.slow)])
@pytest.mark.slow
async def test_searches_of_others_are_answered_before_anything_a_slow_tenant_waits_for(
    street: House, slow_names: SlowNames, kind: str
) -> None:
    """Whatever of the gateway the tenant could hold, it holds until the searches are over: nobody waits for it."""
    await searches(street)
    async with noise(street, kind, slow_names):
        await searches(street)
        assert slow_names.answered == 0
    assert street.platform.odd == []
