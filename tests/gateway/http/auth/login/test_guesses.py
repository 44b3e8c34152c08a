"""Guessing passwords: how much it costs a gateway, and how far it gets."""

import asyncio
from pathlib import Path
from threading import Event

import pytest

from gateway.config.passwords import DECOY, check_hash, hash_password, is_password
from gateway.http.auth.login.throttle import BY_ADDRESS, BY_USER, BY_USER_AND_ADDRESS, REGISTRATIONS, Throttle, TooMany
from gateway.http.auth.login.users import Users
from tests.gateway.http.auth.login.house import PASSWORD, Clock, Person, add_user, hidden, house


class Checks:
    """Counts how often a password is looked at, which is what costs."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, password: str, hashed: str) -> bool:
        self.seen.append(hashed)
        # The decoy takes its time, and here it is known already what comes of it.
        return hashed != DECOY and is_password(password, hashed)


@pytest.fixture
def checks() -> Checks:
    return Checks()


@pytest.fixture
def users(data: Path, clock: Clock, checks: Checks) -> Users:
    return Users(data / "users.json", Throttle(b"secret", clock=clock), checks)


async def tried(users: Users, name: str, password: str, address: str = "192.0.2.1") -> str:
    try:
        return "wrong" if await users.log_in(name, password, address) is None else "in"
    except TooMany:
        return "wait"


async def guess(users: Users, clock: Clock, addresses: int) -> list[str]:
    """Ten thousand times, in 100 seconds."""
    told = []
    for n in range(10_000):
        told.append(await tried(users, "ada", f"guess {n}", f"192.0.2.{n % addresses}"))
        clock.go_on(0.01)
    return told


async def test_of_ten_thousand_guesses_from_one_address_a_few_are_looked_at_and_nobody_else_is_kept_out(
    users: Users, clock: Clock, checks: Checks
) -> None:
    told = await guess(users, clock, 1)
    assert told.count("wait") == 10_000 - len(checks.seen)
    assert len(checks.seen) <= BY_USER_AND_ADDRESS.at_once + 100 / BY_USER_AND_ADDRESS.seconds + 1
    assert await tried(users, "ada", PASSWORD, "192.0.2.0") == "wait", "the right one is not looked at either"
    assert await tried(users, "ada", PASSWORD, "198.51.100.7") == "in"
    clock.go_on(BY_USER_AND_ADDRESS.seconds)
    assert await tried(users, "ada", PASSWORD, "192.0.2.0") == "in"


async def test_of_ten_thousand_guesses_each_from_another_address_a_few_are_looked_at(
    users: Users, clock: Clock, checks: Checks
) -> None:
    told = await guess(users, clock, 10_000)
    assert told.count("wait") == 10_000 - len(checks.seen)
    assert len(checks.seen) <= BY_USER.at_once + 100 / BY_USER.seconds + 1
    assert await tried(users, "ada", PASSWORD, "198.51.100.7") == "wait", "the right one is not looked at either"
    clock.go_on(BY_USER.seconds)
    assert await tried(users, "ada", PASSWORD, "198.51.100.7") == "in"


async def test_who_guesses_from_one_address_for_ever_takes_less_than_comes_back(users: Users, clock: Clock) -> None:
    for n in range(1_000):
        await tried(users, "ada", f"guess {n}")
        clock.go_on(10)
        assert await tried(users, "ada", PASSWORD, "198.51.100.7") == "in"


async def test_who_guesses_for_ever_new_users_is_held_by_their_address(
    users: Users, clock: Clock, checks: Checks
) -> None:
    for n in range(10_000):
        await tried(users, f"user{n}", "a guess")
        clock.go_on(0.01)
    assert len(checks.seen) <= BY_ADDRESS.at_once + 100 / BY_ADDRESS.seconds + 1
    assert await tried(users, "ada", PASSWORD, "198.51.100.7") == "in", "others are not"


async def test_a_user_who_is_not_there_is_looked_at_and_limited_like_one_who_is(users: Users, checks: Checks) -> None:
    told = {name: [await tried(users, name, "x", f"{name} {n}") for n in range(22)] for name in ("ada", "nobody")}
    assert told["ada"] == told["nobody"] == ["wrong"] * 20 + ["wait"] * 2
    assert len(checks.seen) == 40
    assert checks.seen.count(DECOY) == 20


def test_the_decoy_costs_what_a_hash_of_ours_costs() -> None:
    made = hash_password(PASSWORD)
    assert made.split("$")[:4] == DECOY.split("$")[:4]
    assert [len(part) for part in made.split("$")] == [len(part) for part in DECOY.split("$")]
    assert check_hash(DECOY) == DECOY
    assert is_password(PASSWORD, made)
    assert not is_password("another", made)


async def test_who_logs_in_is_not_counted(users: Users) -> None:
    assert [await tried(users, "ada", PASSWORD) for _ in range(30)] == ["in"] * 30
    assert await tried(users, " ADA ", PASSWORD) == "in"


async def test_no_more_than_a_few_passwords_wait_to_be_looked_at(data: Path) -> None:
    """Each takes 32 MiB and half a second of a core."""
    go_on = Event()
    users = Users(data / "users.json", Throttle(b"secret"), lambda *_: go_on.wait(60))
    try:
        waiting = [asyncio.create_task(tried(users, f"user{n}", "x", str(n))) for n in range(40)]
        done, pending = await asyncio.wait(waiting, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        assert (len(done), len(pending)) == (40 - 16, 16)
        assert {task.result() for task in done} == {"wait"}
    finally:
        go_on.set()
    await asyncio.wait(pending)


def test_guessing_over_http_is_told_to_wait_and_does_not_keep_others_out(data: Path, clock: Clock) -> None:
    add_user(data, "bob")
    with house(data, ticks=clock) as url:
        mallory, bob = Person(url), Person(url)
        page = mallory.begin()
        told = [mallory.enter(page, "ada", f"guess {n}") for n in range(8)]
        assert [answer.status_code for answer in told] == [400] * 5 + [429] * 3
        assert int(told[-1].headers["retry-after"]) == 30
        assert "tried too often" in told[-1].text
        assert hidden(bob.enter(bob.begin(), "bob")).keys() == {"consent"}


def test_registrations_are_counted_by_address(data: Path, clock: Clock) -> None:
    with house(data, ticks=clock) as url:
        told = [Person(url).register().status_code for _ in range(REGISTRATIONS.at_once + 2)]
        assert told == [201] * REGISTRATIONS.at_once + [429] * 2
        clock.go_on(REGISTRATIONS.seconds)
        assert Person(url).register().status_code == 201


async def test_what_is_counted_has_a_bound(clock: Clock) -> None:
    throttle = Throttle(b"secret", clock=clock)
    for n in range(20_000):
        await throttle.take(BY_USER, f"user{n}")
    assert len(throttle._buckets) <= 4096
