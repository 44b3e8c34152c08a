"""How the file of a brain is: what was met in use, and what a look at it finds."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from contract.platform import health
from contract.platform.database import SCHEMA_VERSION
from contract.platform.health import DAMAGED, FULL, LOCKED, READ_ONLY, Health, damage
from contract.platform.store import Store


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def file(tmp_path: Path) -> Path:
    Store.open(tmp_path).close()
    return tmp_path / "brains.sqlite3"


def failed(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("as it may be")
    error.sqlite_errorcode = code
    return error


def test_a_whole_file_has_no_problem(file: Path) -> None:
    assert damage(file) is None
    assert Health(file, SCHEMA_VERSION).problem() is None


def test_damage_that_was_met_is_remembered_and_told_once(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    of_file = Health(file, SCHEMA_VERSION)
    for _ in range(3):
        # As SQLite extends its codes.
        of_file.note(failed(sqlite3.SQLITE_CORRUPT | (3 << 8)))
        assert of_file.problem() == DAMAGED
    (line,) = caplog.messages
    assert line == f"{file}: {DAMAGED}. Stop whatever uses it; `brains-gateway doctor` says what to do."


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (sqlite3.SQLITE_FULL, FULL),
        (sqlite3.SQLITE_READONLY, READ_ONLY),
        (sqlite3.SQLITE_READONLY_DBMOVED, READ_ONLY),
    ],
)
def test_what_may_pass_by_itself_is_told_for_a_minute(file: Path, code: int, problem: str) -> None:
    clock = Clock()
    of_file = Health(file, SCHEMA_VERSION, clock)
    of_file.note(failed(code))
    assert of_file.problem() == problem
    clock.now += 61
    assert of_file.problem() is None


def test_a_lock_is_told_as_long_as_another_program_holds_it_and_no_longer(file: Path) -> None:
    clock = Clock()
    of_file = Health(file, SCHEMA_VERSION, clock)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        of_file.note(failed(sqlite3.SQLITE_BUSY))
        assert of_file.problem() == LOCKED
        clock.now += 3600
        assert of_file.problem() == LOCKED
        other.execute("ROLLBACK")
        assert of_file.problem() is None
        # Whoever holds it later, no write has failed because of that.
        other.execute("BEGIN IMMEDIATE")
        assert of_file.problem() is None


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_READONLY])
def test_what_stood_in_the_way_of_a_write_is_gone_once_one_succeeds(tmp_path: Path, code: int) -> None:
    store = Store.open(tmp_path)
    try:
        store._database.health.note(failed(code))
        with store._database.writing():
            # It has the lock itself, which is no other program's.
            assert (store.problem() is None) == (code == sqlite3.SQLITE_BUSY)
        assert store.problem() is None
    finally:
        store.close()


def test_what_is_neither_is_no_problem_of_the_file(file: Path) -> None:
    of_file = Health(file, SCHEMA_VERSION)
    of_file.note(failed(sqlite3.SQLITE_BUSY_SNAPSHOT))
    of_file.note(failed(sqlite3.SQLITE_CONSTRAINT))
    assert of_file.problem() is None


def test_a_file_is_looked_at_again_after_some_minutes_only(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, looks = Clock(), []
    monkeypatch.setattr(health, "damage", lambda *_, **__: looks.append(clock.now))
    of_file = Health(file, SCHEMA_VERSION, clock)
    for _ in range(70):
        of_file.problem()
        clock.now += 10
    assert looks == [0, 300, 600]


def test_a_look_that_would_take_too_long_is_given_up(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_STEPS", 1)
    assert damage(file, seconds=0) is None


def test_a_file_that_is_no_database_is_damaged(file: Path) -> None:
    file.write_bytes(b"never was one" * 1000)
    assert damage(file) == "file is not a database"


def test_whoever_meets_damage_while_reading_or_writing_notes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "damage", lambda *_, **__: None)
    store = Store.open(tmp_path)
    try:
        assert store.problem() is None
        with pytest.raises(sqlite3.DatabaseError), store._database.reading():
            raise failed(sqlite3.SQLITE_CORRUPT)
        assert store.problem() == DAMAGED
    finally:
        store.close()


def test_a_conflict_inside_this_process_is_no_lock_of_another_program(file: Path) -> None:
    of_file = Health(file, SCHEMA_VERSION, Clock())
    of_file.note(failed(sqlite3.SQLITE_LOCKED))
    assert of_file.problem() is None
