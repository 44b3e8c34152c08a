"""What is remembered of logins: by one file for all processes; and what holds while it cannot be reached."""

import asyncio
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from gateway.http.auth.inbound import ProviderDown, Refused
from gateway.http.auth.login.logins import LoginsDown, Revocations
from gateway.http.auth.login.logins_file import LoginsFile
from tests.gateway.http.auth.login.house import Clock, Person, answer_of, house

DAY = 24 * 3600.0


@contextmanager
def out_of_reach(data: Path) -> Iterator[None]:
    """The file is something else for a while."""
    file = data / "logins.sqlite3"
    kept = file.read_bytes()
    file.write_bytes(b"no database at all" * 100)
    try:
        yield
    finally:
        file.write_bytes(kept)


async def test_each_step_is_taken_once_by_whichever_process(tmp_path: Path) -> None:
    one, two = LoginsFile(tmp_path / "logins"), LoginsFile(tmp_path / "logins")
    taken = await asyncio.gather(*(logins.take_step("a", 0, DAY) for logins in (one, two, one, two)))
    assert sorted(taken) == [False, False, False, True]
    assert await one.take_step("b", 0, DAY)
    assert await two.take_step("b", 1, DAY)
    assert await one.take_step("b", 2, DAY)
    assert await two.revoked(DAY) == {"a"}
    assert not await two.take_step("b", 1, DAY)
    assert not await one.take_step("b", 3, DAY), "taking one again has ended it"
    assert await one.revoked(DAY) == {"a", "b"}
    assert stat.S_IMODE((tmp_path / "logins").stat().st_mode) == 0o600


async def test_a_step_is_neither_skipped_nor_begun_in_the_middle(tmp_path: Path) -> None:
    logins = LoginsFile(tmp_path / "logins")
    assert not await logins.take_step("unknown", 1, DAY)
    assert await logins.take_step("a", 0, DAY)
    assert not await logins.take_step("a", 2, DAY)


async def test_what_was_revoked_stays_revoked_and_is_listed_for_a_while(tmp_path: Path, clock: Clock) -> None:
    logins = LoginsFile(tmp_path / "logins", clock=clock)
    assert await logins.take_step("a", 0, DAY)
    await logins.revoke("a", DAY)
    await logins.revoke("never seen", DAY)
    assert await logins.revoked(3600) == {"a", "never seen"}
    clock.go_on(3601)
    await logins.revoke("a", DAY)
    assert await logins.revoked(3600) == frozenset(), "when it was revoked first"
    assert not await logins.take_step("a", 1, DAY)


async def test_the_file_has_a_bound_and_keeps_what_was_revoked(tmp_path: Path, clock: Clock) -> None:
    logins = LoginsFile(tmp_path / "logins", most=10, clock=clock)
    await logins.revoke("bad", DAY)
    for n in range(30):
        clock.go_on(1)
        assert await logins.take_step(f"login{n}", 0, DAY)
    with closing(sqlite3.connect(tmp_path / "logins")) as file:
        kept = {login for (login,) in file.execute("select login from logins")}
    assert kept == {"bad", *(f"login{n}" for n in range(21, 30))}
    clock.go_on(2 * DAY)
    assert await logins.take_step("next", 0, DAY)
    with closing(sqlite3.connect(tmp_path / "logins")) as file:
        assert file.execute("select login from logins").fetchall() == [("next",)]


async def test_a_file_that_cannot_be_reached_says_so(tmp_path: Path) -> None:
    logins = LoginsFile(tmp_path / "missing" / "logins")
    with pytest.raises(LoginsDown):
        await logins.take_step("a", 0, DAY)
    with pytest.raises(LoginsDown):
        await logins.revoke("a", DAY)
    with pytest.raises(LoginsDown):
        await logins.revoked(DAY)


class Unsteady:
    """Logins that can be reached, or not."""

    def __init__(self) -> None:
        self.list: frozenset[str] | None = frozenset({"bad"})
        self.asked = 0

    async def take_step(self, login: str, step: int, seconds: float) -> bool:
        raise NotImplementedError

    async def revoke(self, login: str, seconds: float) -> None:
        raise NotImplementedError

    async def revoked(self, seconds: float) -> frozenset[str]:
        self.asked += 1
        if self.list is None:
            raise LoginsDown
        return self.list

    async def close(self) -> None: ...


async def test_the_last_list_holds_for_five_minutes_and_then_nobody_comes_in(clock: Clock) -> None:
    logins = Unsteady()
    revocations = Revocations(logins, clock)
    await revocations.check("good")
    logins.list = None
    for _ in range(29):
        clock.go_on(10)
        await revocations.check("good")
        with pytest.raises(Refused):
            await revocations.check("bad")
        assert await revocations.problem() is None
    clock.go_on(11)
    with pytest.raises(ProviderDown):
        await revocations.check("good")
    assert await revocations.problem() is not None
    logins.list = frozenset({"good"})
    clock.go_on(3)
    await revocations.check("bad")
    with pytest.raises(Refused):
        await revocations.check("good")


async def test_who_starts_without_a_list_lets_nobody_in(clock: Clock) -> None:
    logins = Unsteady()
    logins.list = None
    with pytest.raises(ProviderDown):
        await Revocations(logins, clock).check("good")


async def test_the_list_is_asked_for_once_a_second_and_less_often_while_it_fails(clock: Clock) -> None:
    logins = Unsteady()
    revocations = Revocations(logins, clock)
    for _ in range(100):
        await asyncio.gather(*(revocations.check("good") for _ in range(5)))
        clock.go_on(0.1)
    assert 8 <= logins.asked <= 11
    logins.list, logins.asked = None, 0
    for _ in range(100):
        await revocations.check("good")
        clock.go_on(0.1)
    assert 3 <= logins.asked <= 7


def test_while_nothing_can_be_remembered_a_code_is_refused_and_kept(data: Path, clock: Clock) -> None:
    with house(data, ticks=clock) as url:
        ada = Person(url)
        tokens = ada.log_in()
        assert ada.status(tokens["access_token"]) == 200
        code = ada.code()
        with out_of_reach(data):
            clock.go_on(60)
            for answer in (ada.redeem(code), ada.refresh(tokens["refresh_token"])):
                assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
                assert int(answer.headers["retry-after"]) > 0
            assert ada.status(tokens["access_token"]) == 200, "by the last list"
            clock.go_on(301)
            answer = ada.call(tokens["access_token"])
            assert (answer.status_code, answer.json()["retryable"]) == (503, True)
        clock.go_on(60)
        assert ada.status(tokens["access_token"]) == 200
        assert ada.redeem(code).status_code == 200
        assert ada.refresh(tokens["refresh_token"]).status_code == 200


def test_a_login_that_begins_on_one_gateway_ends_on_another(data: Path) -> None:
    """Two replicas with one data directory, by turns, as behind a load balancer without sticky sessions."""
    public_url = "https://brains.example"
    with house(data, public_url=public_url) as one, house(data, public_url=public_url) as two:
        ada = Person(one, public_url)
        ada.register()

        def elsewhere() -> Person:
            ada.url = two if ada.url == one else one
            return ada

        page = elsewhere().begin()
        consent = elsewhere().enter(page)
        code = answer_of(elsewhere().fill(consent, decision="allow"))["code"]
        tokens = elsewhere().redeem(code).json()
        assert elsewhere().status(tokens["access_token"]) == 200
        fresh = elsewhere().refresh(tokens["refresh_token"]).json()
        assert elsewhere().status(fresh["access_token"]) == 200
        assert elsewhere().redeem(code).json()["error"] == "invalid_grant"
        assert ada.status(fresh["access_token"]) == 401, "where it was found out"
        elsewhere()
        while ada.status(fresh["access_token"]) == 200:
            pass
        assert ada.status(fresh["access_token"]) == 401, "within a second or so"
