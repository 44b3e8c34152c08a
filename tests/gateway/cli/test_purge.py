"""`rm --purge`: a word that was erased is in no answer, and not in the bytes of the files."""

import json
from pathlib import Path

import pytest

from contract.platform import database
from contract.platform.documents import Draft
from contract.platform.store import Store
from tests.daemons.fake import FakeDaemon, T
from tests.gateway.cli.running import run
from tests.served import listening

pytestmark = pytest.mark.not_quick

WORD = "xylographica"


def files_with(word: str, folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir() if word.encode() in file.read_bytes().lower()]


def edit(home: Path, path: str, **settings: str) -> None:
    editor = home / "editor.sh"
    editor.write_text('#!/bin/sh\necho more >> "$1"\n')
    editor.chmod(0o755)
    assert run(home, "edit", path, EDITOR=str(editor), **settings).returncode == 0


def test_an_erased_word_is_in_no_answer_and_not_in_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Some builds of SQLite overwrite what is deleted by themselves. It must hold with those that do not.
    monkeypatch.setattr(database, "PRAGMAS", (*database.PRAGMAS, "PRAGMA secure_delete = OFF"))
    others = [run(tmp_path, "add", f"Another note, number {n}.").stdout.strip() for n in range(3)]
    # So long that it takes pages of its own, which stay as they are when it is deleted.
    secret = f"The password is {WORD}. " * 4000
    path = run(tmp_path, "add", "--path", "memory/global/secret.md", stdin=secret).stdout.strip()
    edit(tmp_path, path)
    assert run(tmp_path, "rm", "--yes", path).returncode == 0
    assert files_with(WORD, tmp_path / "data") != []
    assert run(tmp_path, "rm", "--purge", path).returncode == 1
    done = run(tmp_path, "rm", "--purge", "--yes", path)
    assert done.returncode == 0, done.stderr
    assert "is erased: 2 in all." in done.stderr
    assert files_with(WORD, tmp_path / "data") == []
    assert path not in run(tmp_path, "search", WORD).stdout
    assert run(tmp_path, "history", path, "--json").stdout == "[]\n"
    assert run(tmp_path, "undo", path).returncode == 3
    assert run(tmp_path, "rm", "--purge", "--yes", path).returncode == 3
    # All else is there, and found.
    found = run(tmp_path, "search", "another note").stdout
    assert [other for other in others if other not in found] == []


def test_a_note_that_cannot_be_erased_leaves_no_word_of_one_that_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "PRAGMAS", (*database.PRAGMAS, "PRAGMA secure_delete = OFF"))
    path = run(tmp_path, "add", "--path", "memory/global/secret.md", stdin=f"{WORD} " * 4000).stdout.strip()
    done = run(tmp_path, "rm", "--purge", "--yes", path, "../climb.md")
    assert done.returncode != 0
    assert f"{path} is erased: 1 in all." in done.stderr
    assert files_with(WORD, tmp_path / "data") == []


def test_where_else_it_may_be_is_named(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "data")
    brain = store.brain("main")
    transcript = f"# Transcript\n\n## user\n\nI prefer {WORD} over oak.\n"
    store.documents.create(brain, Draft("raw/documents/talk.md", transcript.encode(), source="extract"))
    derived = [
        str(entry["path"])
        for entry in store.documents.entries(brain, "memory", recursive=True, include_generated=True, glob="*.md")
    ]
    store.close()
    assert derived != []
    backup = tmp_path / "backups" / "brains-2026-01-31.sqlite3"
    run(tmp_path, "backup", str(backup))
    settings = {"BRAINS_BACKUP_DIR": str(backup.parent)}
    done = run(tmp_path, "rm", "--purge", "--yes", "raw/documents/talk.md", **settings)
    assert done.returncode == 0, done.stderr
    for note in derived:
        assert f"Made of it, and still there: {note}" in done.stderr
    assert f"This backup still has it: {backup}" in done.stderr


def test_a_backup_with_only_a_version_and_a_file_that_restore_kept_are_named(tmp_path: Path) -> None:
    settings = {"BRAINS_BACKUP_DIR": str(tmp_path / "backups")}
    days = [tmp_path / "backups" / f"brains-2026-01-0{day}.sqlite3" for day in (1, 2)]
    run(tmp_path, "add", "Another note.")
    run(tmp_path, "backup", str(days[0]))
    path = run(tmp_path, "add", f"The password is {WORD}.").stdout.strip()
    run(tmp_path, "rm", "--yes", path)
    run(tmp_path, "backup", str(days[1]))
    # The copy that was put away is gone here, and in the backup there is no other.
    assert run(tmp_path, "undo", path).returncode == 0
    done = run(tmp_path, "rm", "--purge", "--yes", path, **settings)
    assert f"This backup still has it: {days[1]}\n" in done.stderr
    assert str(days[0]) not in done.stderr
    assert run(tmp_path, "restore", str(days[1])).returncode == 0
    assert run(tmp_path, "restore", str(days[1])).returncode == 0
    done = run(tmp_path, "rm", "--purge", "--yes", path)
    assert done.returncode == 0, done.stderr
    (_first, second) = sorted(
        file for file in (tmp_path / "data").glob("*.before-*") if not file.name.endswith(("-wal", "-shm"))
    )
    assert done.stderr.count("This backup still has it: ") == 1
    assert f"This backup still has it: {second}\n" in done.stderr


def test_of_a_platform_it_says_what_cannot_be_known(tmp_path: Path) -> None:
    fake = FakeDaemon(T)
    fake.brains["main"] = {}
    with listening(fake.app()) as url:
        settings = {"BRAINS_UPSTREAM_URL": url}
        path = run(tmp_path, "add", f"The password is {WORD}.", **settings).stdout.strip()
        edit(tmp_path, path, **settings)
        done = run(tmp_path, "rm", "--purge", "--yes", path, **settings)
    assert done.returncode == 0, done.stderr
    assert "cannot be known from here" in done.stderr
    assert WORD not in json.dumps({name: body.decode() for name, (body, _) in fake.brains["main"].items()})
