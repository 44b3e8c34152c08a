"""Backups of the brain file: made under load, put back after a crash, and refused where they would do harm."""

import sqlite3
import stat
import threading
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from contract.platform import backup
from contract.platform.backup import BackupFailed, back_up, back_up_daily, daily_backups, restore
from contract.platform.store import Store
from tests.contract.platform.test_store import assert_sound, writer
from tests.contract.platform.writing import content_of

FIRST, SECOND = 40, 30


def store_with(data_dir: Path, *paths: str) -> None:
    store = Store.open(data_dir)
    for path in paths:
        store.documents.put(store.brain("main"), path, content_of(path))
    store.close()


def paths_in(data_dir: Path) -> set[str]:
    store = Store.open(data_dir)
    try:
        listed = store.documents.entries(store.brain("main"), "", recursive=True, include_generated=True, glob="*.md")
        return {str(entry["path"]) for entry in listed}
    finally:
        store.close()


@pytest.mark.slow
@pytest.mark.few(2)
@pytest.mark.parametrize("round_", range(20))
def test_every_acknowledged_write_is_there_after_a_backup_under_load_a_kill_and_a_restore(
    tmp_path: Path, round_: int
) -> None:
    data_dir, copy = tmp_path / "data", tmp_path / "copy.sqlite3"
    with writer(data_dir, "load", 2, 100_000) as process:
        assert process.stdout is not None
        acknowledged = [process.stdout.readline().strip() for _ in range(FIRST + round_)]
        made = back_up(data_dir, copy)
        for _ in range(SECOND + 7 * round_):
            process.stdout.readline()
        process.kill()
        process.communicate()
    # It ended with a log beside the file: put under the copy, that log would destroy it.
    assert (data_dir / "brains.sqlite3-wal").stat().st_size > 0
    restored = restore(data_dir, copy)
    assert_sound(data_dir)
    assert restored.documents == made.documents >= len(acknowledged)
    store = Store.open(data_dir)
    for path in acknowledged:
        assert store.documents.read(store.brain("main"), path) == content_of(path)
    store.documents.put(store.brain("main"), "after.md", b"words after it")
    store.close()
    assert_sound(data_dir)


def test_a_backup_is_one_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "data")
    store.documents.put(store.brain("main"), "a.md", b"words")
    made = back_up(tmp_path / "data", tmp_path / "deep" / "copy.sqlite3")
    assert (made.brains, made.documents) == (1, 1)
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["copy.sqlite3"]
    assert stat.S_IMODE(made.file.stat().st_mode) == 0o600
    store.close()


def test_a_backup_replaces_no_file(tmp_path: Path) -> None:
    store_with(tmp_path / "data", "a.md")
    (tmp_path / "copy").write_text("mine")
    with pytest.raises(BackupFailed, match="is there already"):
        back_up(tmp_path / "data", tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "mine"
    with pytest.raises(BackupFailed, match="no brain file"):
        back_up(tmp_path, tmp_path / "other")


def test_what_a_restored_backup_replaces_is_kept_and_can_be_restored_itself(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    store_with(data_dir, "a.md")
    back_up(data_dir, tmp_path / "copy")
    store_with(data_dir, "b.md")
    (kept,) = restore(data_dir, tmp_path / "copy").kept
    assert paths_in(data_dir) == {"a.md"}
    restore(data_dir, kept)
    assert paths_in(data_dir) == {"a.md", "b.md"}


def test_a_damaged_brain_is_put_aside_with_all_that_is_beside_it(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    store_with(data_dir, "a.md")
    back_up(data_dir, tmp_path / "copy")
    (data_dir / "brains.sqlite3").write_bytes(b"no database" * 1000)
    (data_dir / "brains.sqlite3-wal").write_bytes(b"no log either")
    kept = restore(data_dir, tmp_path / "copy").kept
    assert sorted(path.read_bytes()[:11] for path in kept)[0] == b"no database"
    assert not (data_dir / "brains.sqlite3-wal").exists()
    assert paths_in(data_dir) == {"a.md"}


def test_nothing_is_restored_while_anybody_uses_the_directory(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    store = Store.open(data_dir)
    back_up(data_dir, tmp_path / "copy")
    with pytest.raises(BackupFailed, match="is in use: stop every gateway"):
        restore(data_dir, tmp_path / "copy")
    store.close()
    assert restore(data_dir, tmp_path / "copy").documents == 0


def test_a_program_that_does_not_know_our_lock_counts_as_use_too(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    store_with(data_dir, "a.md")
    back_up(data_dir, tmp_path / "copy")
    with closing(sqlite3.connect(data_dir / "brains.sqlite3")) as other:
        other.execute("SELECT count(*) FROM documents").fetchone()
        with pytest.raises(BackupFailed, match="is in use"):
            restore(data_dir, tmp_path / "copy")
    assert paths_in(data_dir) == {"a.md"}


def test_whoever_starts_during_a_restore_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data_dir = tmp_path / "data"
    store_with(data_dir, "a.md")
    back_up(data_dir, tmp_path / "copy")
    store_with(data_dir, "b.md")
    found: list[set[str]] = []
    other = threading.Thread(target=lambda: found.append(paths_in(data_dir)))
    put_aside = backup._put_aside

    def put_aside_while_another_starts(file: Path) -> tuple[Path, ...]:
        other.start()
        return put_aside(file)

    monkeypatch.setattr(backup, "_put_aside", put_aside_while_another_starts)
    restore(data_dir, tmp_path / "copy")
    other.join(timeout=30)
    assert found == [{"a.md"}]


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"no database at all" * 100, "is damaged"), (b"", "no brains in it"), (None, "There is no file")],
)
def test_what_is_no_backup_changes_nothing(tmp_path: Path, content: bytes | None, said: str) -> None:
    data_dir = tmp_path / "data"
    store_with(data_dir, "a.md")
    if content is not None:
        (tmp_path / "copy").write_bytes(content)
    with pytest.raises(BackupFailed, match=said):
        restore(data_dir, tmp_path / "copy")
    assert paths_in(data_dir) == {"a.md"}
    assert not list(data_dir.glob("*.before-*"))


def test_a_backup_with_a_bad_page_is_refused(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    store_with(data_dir, *(f"{n}.md" for n in range(40)))
    copy = back_up(data_dir, tmp_path / "copy").file
    whole = bytearray(copy.read_bytes())
    whole[len(whole) // 2 : len(whole) // 2 + 8192] = b"\xff" * 8192
    copy.write_bytes(whole)
    with pytest.raises(BackupFailed, match="is damaged"):
        restore(data_dir, copy)


def test_a_damaged_brain_is_named_and_gives_no_backup(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    store_with(data_dir, *(f"{n}.md" for n in range(40)))
    file = data_dir / "brains.sqlite3"
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 2 : len(whole) // 2 + 8192] = b"\xff" * 8192
    file.write_bytes(whole)
    with pytest.raises(BackupFailed) as failed:
        back_up(data_dir, tmp_path / "copy")
    assert str(failed.value).startswith(f"The brain file {file} is damaged. Put a backup in its place")
    assert not list(tmp_path.glob("copy*"))


def test_secrets_travel_in_the_backup_alone(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    store_with(data_dir, "a.md")
    back_up(data_dir, tmp_path / "copy", {"tokens": b"hash-of-a-token"})
    assert restore(data_dir, tmp_path / "copy").secrets == {"tokens": b"hash-of-a-token"}
    assert b"hash-of-a-token" not in (data_dir / "brains.sqlite3").read_bytes()


def test_one_backup_a_day_is_made_and_only_so_many_are_kept(tmp_path: Path) -> None:
    data_dir, directory = tmp_path / "data", tmp_path / "backups"
    store_with(data_dir, "a.md")
    directory.mkdir()
    for day in range(1, 6):
        (directory / f"brains-2020-01-0{day}.sqlite3").touch()
    (directory / "mine.sqlite3").touch()
    made = back_up_daily(data_dir, directory, keep=3)
    assert made == directory / f"brains-{datetime.now(UTC).date().isoformat()}.sqlite3"
    assert back_up_daily(data_dir, directory, keep=3) is None
    older = [file.name for file in daily_backups(directory)][1:]
    assert older == ["brains-2020-01-05.sqlite3", "brains-2020-01-04.sqlite3"]
    assert (directory / "mine.sqlite3").exists()
