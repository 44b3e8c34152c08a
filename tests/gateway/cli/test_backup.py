"""`brains-gateway backup` and `restore`, daily backups, and what start and doctor say of a file that is not sound."""

import json
import stat
import threading
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from contract.platform.store import Store
from gateway.app.database_file import DailyBackups
from gateway.app.embedded import EmbeddedBrain
from tests.gateway.cli.running import run


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With a brain that has one note, and a file of tokens."""
    store = Store.open(tmp_path / "data")
    store.documents.put(store.brain("main"), "memory/global/tea.md", b"Gyokuro, sixty degrees.")
    store.close()
    (tmp_path / "data" / "tokens.json").write_text('{"tokens": []}')
    return tmp_path


def test_a_backup_says_what_is_in_it_and_what_is_not(home: Path) -> None:
    done = run(home, "backup", "copy.sqlite3")
    assert (done.returncode, done.stdout) == (0, "")
    assert "1 brain, 1 document" in done.stderr
    assert "Tokens and keys are not in it." in done.stderr
    assert stat.S_IMODE((home / "copy.sqlite3").stat().st_mode) == 0o600
    again = run(home, "backup", "copy.sqlite3")
    assert (again.returncode, "is there already" in again.stderr) == (1, True)


def test_a_backup_in_a_directory_gets_a_name_of_its_own(home: Path) -> None:
    (home / "backups").mkdir()
    assert run(home, "backup", "backups").returncode == 0
    (made,) = (home / "backups").iterdir()
    assert made.name.startswith("brains-")


def test_a_restored_backup_is_served_again_and_tokens_only_come_with_it_if_asked(home: Path) -> None:
    run(home, "backup", "copy.sqlite3", "--with-secrets")
    tokens = home / "data" / "tokens.json"
    tokens.unlink()
    (home / "data" / "brains.sqlite3").write_bytes(b"no database" * 1000)
    first = run(home, "restore", "copy.sqlite3")
    assert (first.returncode, tokens.exists()) == (0, False)
    assert "were left alone" in first.stderr
    assert "is kept as brains.sqlite3.before-" in first.stderr
    assert run(home, "restore", "copy.sqlite3", "--with-secrets").returncode == 0
    assert tokens.read_text() == '{"tokens": []}'
    assert stat.S_IMODE(tokens.stat().st_mode) == 0o600
    store = Store.open(home / "data")
    assert store.documents.read(store.brain("main"), "memory/global/tea.md") == b"Gyokuro, sixty degrees."
    store.close()


def test_nothing_is_restored_while_the_brain_is_served(home: Path) -> None:
    run(home, "backup", "copy.sqlite3")
    brain = EmbeddedBrain(home / "data", None)
    try:
        done = run(home, "restore", "copy.sqlite3")
    finally:
        brain.stop()
    assert (done.returncode, "is in use: stop every gateway" in done.stderr) == (1, True)


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_before_a_platform_there_is_nothing_to_copy(home: Path, command: str) -> None:
    done = run(home, command, "copy.sqlite3", BRAINS_UPSTREAM_URL="http://127.0.0.1:9")
    assert (done.returncode, "for the embedded brain alone" in done.stderr) == (2, True)


def test_backups_are_made_while_the_brain_is_served(home: Path) -> None:
    brain = EmbeddedBrain(home / "data", None, backups=(home / "backups", 3))
    try:
        assert httpx.get(f"{brain.endpoint.url}/health").status_code < 500
    finally:
        brain.stop()
    (made,) = (home / "backups").iterdir()
    assert made.name.startswith("brains-20")


def test_a_backup_that_fails_is_told_in_the_log_and_tried_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed, made = threading.Event(), threading.Event()
    told = SimpleNamespace(error=lambda *_, **__: failed.set(), info=lambda *_, **__: made.set())
    monkeypatch.setattr("gateway.app.database_file.log", told)
    monkeypatch.setattr("gateway.app.database_file._LOOK_SECONDS", 0.001)
    (home / "backups").touch()
    backups = DailyBackups(home / "data", home / "backups", 3)
    assert failed.wait(30)
    (home / "backups").unlink()
    assert made.wait(30)
    backups.stop()
    assert len(list(home.glob("backups/*.sqlite3"))) == 1


def test_doctor_tells_of_backups_and_of_a_file_that_is_not_sound(home: Path) -> None:
    settings = {"BRAINS_SURFACES": "memory", "BRAINS_BACKUP_DIR": str(home / "backups")}
    sound = run(home, "doctor", **settings)
    assert (sound.returncode, sound.stderr) == (0, "")
    assert f"Backups    none yet in {home / 'backups'}" in sound.stdout
    run(home, "backup", "backups/brains-2026-01-31.sqlite3")
    told = f"Backups    1 in {home / 'backups'}, the newest brains-2026-01-31.sqlite3"
    assert told in run(home, "doctor", **settings).stdout
    file = home / "data" / "brains.sqlite3"
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 2 : len(whole) // 2 + 8192] = b"\xff" * 8192
    file.write_bytes(whole)
    damaged = run(home, "doctor", "--json", **settings)
    assert damaged.returncode == 1
    problem = json.loads(damaged.stdout)["problems"][0]
    assert problem["message"] == f"The brain file {file} is damaged."
    assert "brains-gateway restore FILE" in problem["remedy"]
