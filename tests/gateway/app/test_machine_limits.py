"""Limits that several workers share without Redis: they are counted together, and a killed worker holds nothing."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from gateway.app.machine_limits import _ROWS, MachineLimits, make_limits_file
from gateway.brain.limits import Allowance, Bucket, LimitReached, Limits
from gateway.http.auth.login.throttle import BY_USER_AND_ADDRESS
from tests.gateway.http.auth.login.house import Person, add_user
from tests.gateway.http.auth.tokens import kept
from tests.gateway.test_processes import process
from tests.served import raw_call

pytestmark = pytest.mark.not_quick

Worker = Callable[..., MachineLimits]
# A process that holds two places, says so, and waits to be killed.
HOLDING = """
import asyncio, pathlib, sys, time
from gateway.app.machine_limits import MachineLimits

async def hold():
    limits = MachineLimits(pathlib.Path(sys.argv[1]))
    print([await limits.hold("calling:ann", 3) for _ in range(2)], flush=True)
    await limits.take("calls:ann", 0.001, 10, 4)
    print("taken", flush=True)
    time.sleep(600)

asyncio.run(hold())
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    make_limits_file(tmp_path / "limits")
    return tmp_path / "limits"


@pytest.fixture
async def worker(file: Path) -> AsyncIterator[Worker]:
    """Makes as many workers as a test wants, each as if it were a process."""
    made = list[MachineLimits]()

    def make(clock: Callable[[], float] = time.monotonic) -> MachineLimits:
        made.append(MachineLimits(file, clock))
        return made[-1]

    yield make
    for one in made:
        await one.close()


@pytest.fixture
def killed(file: Path) -> Iterator[subprocess.Popen[str]]:
    """A worker that holds places, and is there to be killed."""
    command = [sys.executable, "-c", HOLDING, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def test_a_bucket_of_several_workers_holds_as_much_as_one_of_ours(worker: Worker) -> None:
    now = 1000.0
    workers, ours = [worker(lambda: now) for _ in range(3)], Bucket(2, 10, now)
    for n in range(60):
        now += n % 7 / 10
        amount = n % 4 + 1
        assert await workers[n % 3].take("calls:ann", 2, 10, amount) == pytest.approx(ours.take(amount, now))
    # Another caller has another bucket.
    assert await workers[0].take("calls:ben", 2, 10, 10) == 0


def test_the_file_has_all_its_room_from_the_start(file: Path) -> None:
    # On a full disk, a write to a part of the file that has no room yet would end the process.
    about = file.stat()
    assert about.st_blocks * 512 >= about.st_size > _ROWS


async def test_an_id_that_now_belongs_to_another_user_is_no_worker(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = worker()
    assert await first.hold("calling:ann", 1)

    def not_ours(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", not_ours)
    assert await worker().hold("calling:ann", 1)


async def test_a_place_may_be_given_back_after_the_file_is_closed(file: Path) -> None:
    limits = MachineLimits(file)
    place = await limits.hold("calling:ann", 1)
    await limits.close()
    limits.give_back(place)


async def test_places_are_shared_and_given_back_to_all(worker: Worker) -> None:
    first, second = worker(), worker()
    assert [await one.hold("calling:ann", 3) for one in (first, second, second, first)] == [*["calling:ann"] * 3, ""]
    assert await first.hold("calling:ben", 3)
    second.give_back("calling:ann")
    assert await first.hold("calling:ann", 3)
    assert await first.hold("calling:ann", 3) == ""


async def test_a_worker_that_is_killed_leaves_no_place_taken_and_what_it_took_stays_taken(
    worker: Worker, killed: subprocess.Popen[str]
) -> None:
    assert killed.stdout is not None
    assert killed.stdout.readline() == "['calling:ann', 'calling:ann']\n"
    assert killed.stdout.readline() == "taken\n"
    alive = worker()
    assert await alive.hold("calling:ann", 3)
    assert await alive.hold("calling:ann", 3) == ""
    killed.kill()
    killed.wait()
    assert await alive.hold("calling:ann", 3)
    assert await alive.take("calls:ann", 0.001, 10, 7) > 0
    # The next worker takes its place in the list of workers, but gets nothing of what it held.
    replaced = worker()
    assert await replaced.hold("calling:ann", 3)
    assert await replaced.hold("calling:ann", 3) == ""


@pytest.mark.slow
async def test_more_names_than_there_is_room_for_push_out_those_that_were_used_longest_ago(worker: Worker) -> None:
    now = 1000.0
    limits = worker(lambda: now)
    for n in range(2 * _ROWS):
        now += 1
        assert await limits.take(f"calls:{n}", 1e-9, 1, 1) == 0
    assert all([await limits.take(f"calls:{n}", 1e-9, 1, 1) > 0 for n in range(2 * _ROWS - 1000, 2 * _ROWS)])


async def test_two_workers_have_no_more_under_way_than_one_would(worker: Worker) -> None:
    workers = [Limits(Allowance(1000, 3, 100, 10**6), shared=worker()) for _ in range(2)]
    let_in, refused, all_told = 0, 0, asyncio.Event()

    async def ask(n: int) -> None:
        nonlocal let_in, refused
        try:
            async with workers[n % 2].hold_ask("ann"):
                let_in += 1
                await asyncio.wait_for(all_told.wait(), 60)
        except LimitReached:
            refused += 1
            if refused == 37:
                all_told.set()

    await asyncio.gather(*(ask(n) for n in range(40)))
    assert (let_in, refused) == (3, 37)


@pytest.mark.slow
def test_what_one_caller_may_store_holds_for_two_workers_together(tmp_path: Path) -> None:
    token, settings = (
        kept(tmp_path / "tokens.json", scope="brains:write"),
        {"BRAINS_TOKENS_FILE": str(tmp_path / "tokens.json")},
    )
    # Sixty notes at once, and then one a second.
    settings |= {"BRAINS_AUTH": "tokens", "BRAINS_STORED_PER_MINUTE": "60000", "BRAINS_SINGLE_TENANT": "true"}

    def write(n: int) -> int:
        call = raw_call("modern", "memory_remember", {"content": f"{n:1000}"})
        call["headers"] |= {"authorization": f"Bearer {token}"}
        return httpx.post(served.url, **call).status_code

    # Many calls at once, each with a connection of its own, so that both workers get some.
    with process(tmp_path, "--workers", "2", **settings) as served, ThreadPoolExecutor(16) as clients:
        began = time.monotonic()
        statuses = list(clients.map(write, range(200)))
        took = time.monotonic() - began
    assert set(statuses) == {200, 429}
    assert 60 <= statuses.count(200) <= 1.05 * (60 + took)


def test_guesses_of_a_password_are_counted_for_all_workers(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    add_user(tmp_path / "data")
    public_url = "https://brains.example"
    settings = {"BRAINS_AUTH": "password", "BRAINS_SINGLE_TENANT": "true", "BRAINS_PUBLIC_URL": public_url}
    with process(tmp_path, "--workers", "2", **settings) as served, ThreadPoolExecutor(16) as clients:
        ada = Person(f"http://127.0.0.1:{served.port}", issuer=public_url)
        page = ada.begin()
        began = time.monotonic()
        # Each guess has a connection of its own, so that both workers get some.
        statuses = list(clients.map(lambda n: ada.enter(page, password=f"guess {n}").status_code, range(60)))
        took = time.monotonic() - began
    assert set(statuses) == {400, 429}
    let_through = BY_USER_AND_ADDRESS.at_once + took / BY_USER_AND_ADDRESS.seconds
    assert BY_USER_AND_ADDRESS.at_once <= statuses.count(400) <= let_through
