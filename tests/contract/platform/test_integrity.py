"""What is said of a brain file that cannot be used."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from contract.platform import integrity
from contract.platform.database import SCHEMA_VERSION
from contract.platform.integrity import check_database
from contract.platform.store import Store, StoreUnavailable


@pytest.fixture
def brain_file(tmp_path: Path) -> Path:
    """The file of a brain with some notes, closed."""
    store = Store.open(tmp_path)
    for number in range(60):
        store.documents.put(store.brain("main"), f"{number}.md", f"words {number} ".encode() * 200)
    store.close()
    return tmp_path / "brains.sqlite3"


def kind_of(file: Path, *, thorough: bool = False) -> str | None:
    found = check_database(file.parent, thorough=thorough, patience=0)
    if found is None:
        return None
    assert str(file) in found.message
    assert found.remedy.endswith(".")
    return found.kind


def refusal(file: Path) -> str:
    with pytest.raises(StoreUnavailable) as refused:
        Store.open(file.parent)
    return str(refused.value)


def test_a_sound_file_and_none_at_all_are_no_trouble(brain_file: Path, tmp_path: Path) -> None:
    assert kind_of(brain_file) is None
    assert kind_of(brain_file, thorough=True) is None
    assert check_database(tmp_path / "new") is None


def test_a_file_in_use_is_no_trouble_and_stays_locked_for_its_users(brain_file: Path) -> None:
    store = Store.open(brain_file.parent)
    store.documents.put(store.brain("main"), "a.md", b"words")
    assert kind_of(brain_file, thorough=True) is None
    assert store.documents.read(store.brain("main"), "a.md") == b"words"
    store.close()


def test_what_is_no_database_is_damaged(brain_file: Path) -> None:
    brain_file.write_bytes(b"this is no database" * 1000)
    assert kind_of(brain_file) == "corrupt"
    assert "brains-gateway restore FILE" in refusal(brain_file)


def test_a_file_that_is_cut_off_is_told_as_such(brain_file: Path) -> None:
    whole = brain_file.read_bytes()
    brain_file.write_bytes(whole[: len(whole) // 2])
    assert kind_of(brain_file) == "truncated"
    assert "is cut off" in refusal(brain_file)


def test_bad_pages_are_found_by_a_thorough_look(brain_file: Path) -> None:
    whole = bytearray(brain_file.read_bytes())
    whole[len(whole) // 2 : len(whole) // 2 + 8192] = b"\xff" * 8192
    brain_file.write_bytes(whole)
    assert kind_of(brain_file) is None
    assert kind_of(brain_file, thorough=True) == "corrupt"


def test_a_log_that_was_left_behind_makes_the_start_look_at_every_page(brain_file: Path, tmp_path: Path) -> None:
    """As after a copy that was put over the file, with the log of before still beside it."""
    copy = tmp_path / "copy"
    shutil.copy(brain_file, copy)
    store = Store.open(brain_file.parent)
    for number in range(60):
        store.documents.put(store.brain("main"), f"more/{number}.md", f"other words {number} ".encode() * 200)
    # What a process leaves behind that is killed.
    log = brain_file.with_name("brains.sqlite3-wal").read_bytes()
    store.close()
    shutil.copy(copy, brain_file)
    with closing(sqlite3.connect(brain_file, isolation_level=None)) as older:
        older.execute("DELETE FROM bodies WHERE document > 5")
        older.execute("VACUUM")
    brain_file.with_name("brains.sqlite3-wal").write_bytes(log)
    assert "brains-gateway restore FILE" in refusal(brain_file)


def test_a_file_of_a_newer_version_is_told_as_such(brain_file: Path) -> None:
    with closing(sqlite3.connect(brain_file)) as newer:
        newer.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    assert kind_of(brain_file) == "too_new"
    assert "newer version" in refusal(brain_file)


def test_a_file_that_somebody_keeps_locked_is_told_as_such(brain_file: Path) -> None:
    with closing(sqlite3.connect(brain_file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert kind_of(brain_file) == "locked"
    assert kind_of(brain_file) is None


def test_a_file_that_cannot_be_written_is_told_as_such(brain_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whoever runs the tests may be allowed everything.
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != brain_file)
    assert kind_of(brain_file) == "read_only"
    monkeypatch.undo()
    with closing(integrity.connect(brain_file)) as reader, pytest.raises(sqlite3.OperationalError) as refused:
        reader.execute("CREATE TABLE more (n)")
    assert integrity.kind_of(refused.value) == "read_only"


def test_a_full_disk_is_told_as_such(brain_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1024))
    assert kind_of(brain_file) == "full"
    # What is there can still be read.
    Store.open(brain_file.parent).close()


def test_what_sqlite_says_of_a_full_disk_is_told_as_such(brain_file: Path) -> None:
    with closing(sqlite3.connect(brain_file, isolation_level=None)) as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(sqlite3.OperationalError) as refused:
            connection.execute("CREATE TABLE more AS SELECT randomblob(1000000) AS much")
    assert integrity.kind_of(refused.value) == "full"
