"""The file itself: who may read it, how it is opened, and that nothing acknowledged is ever lost."""

import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from contract.platform import database, documents
from contract.platform.refusal import Refused
from contract.platform.store import Store, StoreUnavailable
from tests.contract.platform.writing import content_of

ROOT = Path(__file__).parents[3]


def writer(data_dir: Path, name: str, threads: int, writes: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.contract.platform.writing", str(data_dir), name, str(threads), str(writes)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def assert_sound(data_dir: Path) -> None:
    with closing(sqlite3.connect(data_dir / "brains.sqlite3")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        connection.execute("INSERT INTO words_1 (words_1, rank) VALUES ('integrity-check', 1)")
        counted = connection.execute("SELECT chunks, (SELECT count(*) FROM chunks) FROM brains").fetchone()
        assert counted[0] == counted[1]


def test_the_directory_and_file_are_for_the_owner_only(data_dir: Path) -> None:
    deep = data_dir / "deep"
    store = Store.open(deep)
    store.documents.put(store.brain("main"), "a.md", b"x")
    assert stat.S_IMODE(deep.stat().st_mode) == 0o700
    files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in deep.iterdir()}
    assert files["brains.sqlite3"] == 0o600
    assert set(files.values()) == {0o600}
    store.close()


def test_what_was_stored_is_there_after_opening_again(data_dir: Path) -> None:
    first = Store.open(data_dir)
    brain = first.create_brain("Kept")
    first.documents.put(brain, "a.md", b"kept words")
    first.close()
    second = Store.open(data_dir)
    assert [found.slug for found in second.brains()] == ["main", "kept"]
    assert second.search(second.brain("kept"), "words", 5).hits[0].path == "a.md"
    second.close()


def test_a_deleted_main_brain_does_not_come_back(data_dir: Path) -> None:
    store = Store.open(data_dir)
    store.delete_brain(store.brain("main"))
    store.close()
    again = Store.open(data_dir)
    assert again.brains() == []
    again.close()


def test_a_directory_that_cannot_be_made_is_said_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(StoreUnavailable, match=r"cannot be used: .*\.$"):
        Store.open(tmp_path / "file" / "brains")


def test_a_file_that_is_no_database_is_said_in_one_sentence(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "brains.sqlite3").write_bytes(b"no database " * 100)
    with pytest.raises(StoreUnavailable, match=r"is damaged\. Put a backup in its place: .*\.$"):
        Store.open(data_dir)


def test_a_file_of_a_newer_version_is_left_alone(data_dir: Path) -> None:
    Store.open(data_dir).close()
    with closing(sqlite3.connect(data_dir / "brains.sqlite3")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreUnavailable, match="newer version"):
        Store.open(data_dir)


def test_commits_are_durable_by_setting(data_dir: Path) -> None:
    store = Store.open(data_dir)
    with store._database.reading() as connection:
        settings = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert settings == ["wal", 2]
    store.close()


def test_a_refusal_inside_a_write_leaves_no_trace_and_a_working_store(data_dir: Path) -> None:
    store = Store.open(data_dir)
    brain = store.brain("main")
    with pytest.raises(Refused):
        store.documents.delete(brain, "missing.md")

    def broken_halfway() -> None:
        with store._database.writing() as connection:
            connection.execute("INSERT INTO sessions (brain, id, created_at, updated_at) VALUES (1, 's', '', '')")
            connection.execute("SELECT nonsense")

    with pytest.raises(sqlite3.OperationalError):
        broken_halfway()
    assert store.sessions.messages(brain, "s", 10) == []
    with pytest.raises(Refused):
        store.sessions.get(brain, "s")
    store.documents.put(brain, "a.md", b"x")
    store.close()


def test_a_reader_sees_one_moment_while_others_write(data_dir: Path) -> None:
    store = Store.open(data_dir)
    brain = store.brain("main")
    with store._database.reading() as connection:
        store.documents.put(brain, "a.md", b"x")
        assert connection.execute("SELECT count(*) FROM documents").fetchone()[0] == 0
    assert store.documents.exists(brain, "a.md")
    store.close()


def test_a_writer_waits_for_another_process(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than SQLite itself waits: the bounded repeats on top of it do their part."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    store = Store.open(data_dir)
    brain = store.brain("main")
    with closing(sqlite3.connect(data_dir / "brains.sqlite3", isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.4, lambda: other.execute("COMMIT"))
        release.start()
        store.documents.put(brain, "a.md", b"x")
        release.join()
    assert store.documents.exists(brain, "a.md")
    store.close()


def test_a_writer_does_not_wait_for_ever(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr(database, "BUSY_ATTEMPTS", 2)
    store = Store.open(data_dir)
    brain = store.brain("main")
    with closing(sqlite3.connect(data_dir / "brains.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            store.documents.put(brain, "a.md", b"x")
    store.documents.put(brain, "a.md", b"x")
    store.close()


def test_a_document_does_not_grow_without_end(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "LARGEST_DOCUMENT", 10)
    store = Store.open(data_dir)
    brain = store.brain("main")
    store.documents.append(brain, "log.txt", b"x" * 10)
    with pytest.raises(Refused, match="at most 10 bytes"):
        store.documents.append(brain, "log.txt", b"x")
    assert store.documents.read(brain, "log.txt") == b"x" * 10
    store.close()


def test_closing_while_threads_still_use_it_is_safe(data_dir: Path) -> None:
    store = Store.open(data_dir)
    brain = store.brain("main")
    with store._database.reading() as connection:
        store.close()
        assert connection.execute("SELECT 1").fetchone()[0] == 1
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("SELECT 1")
    assert not store.documents.exists(brain, "a.md")
    store.close()


@pytest.mark.slow
def test_many_may_open_a_new_directory_at_once(data_dir: Path) -> None:
    """First in threads, which meet more closely than processes do, then in processes."""
    barrier = threading.Barrier(8)

    def opened(number: int) -> list[str]:
        barrier.wait()
        store = Store.open(data_dir / "threads")
        found = [brain.id for brain in store.brains()]
        store.close()
        return found

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(opened, range(8)))
    assert len(ids[0]) == 1
    assert all(found == ids[0] for found in ids)

    processes = [writer(data_dir / "processes", f"p{number}", 1, 1) for number in range(3)]
    outcomes = [(*process.communicate(timeout=60), process.returncode) for process in processes]
    assert [(stderr, code) for _, stderr, code in outcomes] == [("", 0)] * 3
    assert_sound(data_dir / "processes")


@pytest.mark.slow
def test_two_processes_with_eight_threads_each_lose_nothing(data_dir: Path) -> None:
    processes = [writer(data_dir, name, 8, 60) for name in ("left", "right")]
    outcomes = [(*process.communicate(timeout=60), process.returncode) for process in processes]
    assert [(stderr, code) for _, stderr, code in outcomes] == [("", 0)] * 2
    acknowledged = [path for stdout, _, _ in outcomes for path in stdout.split()]
    assert len(acknowledged) == 120

    store = Store.open(data_dir)
    brain = store.brain("main")
    assert all(store.documents.read(brain, path) == content_of(path) for path in acknowledged)
    assert sorted(store.documents.read(brain, "log.txt").decode().split()) == sorted(acknowledged)
    for name in ("left", "right"):
        assert len(store.sessions.messages(brain, name, 1000)) == 60
    store.close()
    assert_sound(data_dir)


@pytest.mark.parametrize("moment", [40, 90, 150])
@pytest.mark.sampled(3)
def test_a_killed_process_loses_nothing_it_had_acknowledged(data_dir: Path, moment: int) -> None:
    process = writer(data_dir, "doomed", 4, 100_000)
    assert process.stdout is not None
    assert process.stderr is not None
    acknowledged = [process.stdout.readline().strip() for _ in range(moment)]
    process.kill()
    rest, _ = process.communicate()
    # The last line may be half printed; what is whole was acknowledged.
    acknowledged += rest.split("\n")[:-1]

    store = Store.open(data_dir)
    brain = store.brain("main")
    assert all(store.documents.read(brain, path) == content_of(path) for path in acknowledged)
    logged = store.documents.read(brain, "log.txt").decode().split("\n")
    assert set(acknowledged) <= set(logged)
    said = {str(message["content"]) for message in store.sessions.messages(brain, "doomed", 1000)}
    numbers = [path.partition("/")[2].removesuffix(".md") for path in acknowledged]
    assert {f"I like number {number} of doomed." for number in numbers[:900]} <= said
    assert store.search(brain, "acknowledged words", 5).hits
    store.close()
    assert_sound(data_dir)
