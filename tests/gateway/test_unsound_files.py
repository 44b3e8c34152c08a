"""Six things that can be wrong with the embedded brain's file, each told at the start, by `doctor` and by `/readyz`."""

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from contract.platform import database, health
from contract.platform.database import SCHEMA_VERSION
from contract.platform.store import Store
from gateway.app import platform_watch
from tests.commands import logging_as_it_was
from tests.daemons.real import free_port
from tests.gateway.cli.running import run
from tests.served import raw_call, serving

pytestmark = pytest.mark.not_quick

Spoil = Callable[[Path, pytest.MonkeyPatch], AbstractContextManager[None]]
NOTES = 60


@contextmanager
def corrupt(file: Path, _patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Overwrite the middle of the file."""
    whole = bytearray(file.read_bytes())
    middle = len(whole) // 2 // 4096 * 4096
    whole[middle : middle + 10 * 4096] = b"\xff" * 10 * 4096
    file.write_bytes(whole)
    yield


@contextmanager
def truncated(file: Path, _patch: pytest.MonkeyPatch) -> Iterator[None]:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    yield


@contextmanager
def newer(file: Path, _patch: pytest.MonkeyPatch) -> Iterator[None]:
    with closing(sqlite3.connect(file)) as other:
        other.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    yield


@contextmanager
def locked(file: Path, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hold a lock as an SQLite shell with an open transaction does. Nobody here waits a minute for it."""
    patch.setattr(database, "BUSY_SECONDS", 0.01)
    patch.setattr(database, "BUSY_ATTEMPTS", 1)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def read_only(file: Path, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take away the right to write. Root may write in spite of the mode, so `os.access` is told to deny it, too."""
    file.chmod(0o400)
    patch.setattr("os.access", lambda path, _mode: Path(path) != file)
    yield
    file.chmod(0o600)


@contextmanager
def full(file: Path, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let SQLite add no page, as if the disk had no room."""
    with closing(sqlite3.connect(file)) as other:
        (pages,) = other.execute("PRAGMA page_count").fetchone()
    patch.setattr(database, "PRAGMAS", (*database.PRAGMAS, f"PRAGMA max_page_count = {pages}"))
    patch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 4096}))
    yield


@dataclass(frozen=True)
class Case:
    """A thing that can be wrong, and what users are told about it."""

    spoil: Spoil
    message: str
    remedy: str
    ready: str
    starts: bool = False
    is_written: bool = False
    """Whether only a write finds it."""
    is_there_before: bool = False
    """Whether it must be there before the gateway starts, because it affects only connections that are opened later."""


CASES = [
    Case(corrupt, "is damaged", "brains-gateway restore FILE", health.DAMAGED, starts=True),
    Case(truncated, "is cut off", "brains-gateway restore FILE", health.DAMAGED),
    Case(newer, "by a newer version", "Install that version", health.NEWER),
    Case(locked, "is locked by another program", "an SQLite shell", health.LOCKED, is_written=True),
    Case(read_only, "cannot be written to", "Let this user write", health.READ_ONLY),
    Case(
        full,
        "The disk of the brain file",
        "Make room there",
        health.FULL,
        starts=True,
        is_written=True,
        is_there_before=True,
    ),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.spoil.__name__)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    store = Store.open(tmp_path / "data")
    for n in range(NOTES):
        store.documents.put(store.brain("main"), f"n{n}.md", f"Note {n}. ".encode() * 800)
    store.close()
    return tmp_path / "data" / "brains.sqlite3"


@each_case
def test_the_start_says_what_is_wrong_and_what_to_do(file: Path, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    # A start that succeeds would serve until it is stopped.
    monkeypatch.setattr("gateway.cli.serve.run_until_stopped", lambda _, sockets: [one.close() for one in sockets])
    # A start reads every page only if a killed process left the file open.
    left_open = case.spoil is corrupt
    with case.spoil(file, monkeypatch):
        if left_open:
            file.with_name(f"{file.name}-wal").write_bytes(b"not empty")
        with logging_as_it_was():
            done = run(file.parent.parent, "serve", "--port", str(free_port()), BRAINS_LOG_FORMAT="text")
    assert done.returncode == (0 if case.starts and not left_open else 1), done.stderr
    assert case.message in done.stderr
    assert case.remedy in done.stderr


@pytest.mark.parametrize(("command", "code"), [(("serve",), 1), (("token", "create", "bot", "--brain", "main"), 0)])
def test_a_bad_page_that_opening_does_not_read_is_told_in_one_line(
    file: Path, command: tuple[str, ...], code: int
) -> None:
    """Nothing says that the file was left open, so it is opened without a look at each page. A token is made without
    the brain, too: it is only not known then whether the brain exists."""
    with closing(sqlite3.connect(file)) as other:
        (page,) = other.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'brains'").fetchone()
    whole = bytearray(file.read_bytes())
    whole[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    file.write_bytes(whole)
    with logging_as_it_was():
        done = run(file.parent.parent, *command, BRAINS_LOG_FORMAT="text")
    assert done.returncode == code, done.stderr
    assert f"The brain file {file} is damaged. Put a backup in its place" in done.stderr


@each_case
def test_doctor_says_what_is_wrong_and_what_to_do(file: Path, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    with case.spoil(file, monkeypatch):
        done = run(file.parent.parent, "doctor", "--json", BRAINS_SURFACES="memory")
    assert done.returncode == 1, done.stdout
    told = [problem for problem in json.loads(done.stdout)["problems"] if case.message in problem["message"]]
    assert told != [], done.stdout
    assert str(file) in told[0]["message"]
    assert case.remedy in told[0]["remedy"]


@each_case
def test_readyz_says_what_has_become_of_a_file_that_is_served(
    file: Path, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody here waits a minute for a lock.
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    # The system ends a process that reads a mapped part of a file which another program has cut off.
    monkeypatch.setattr(database, "PRAGMAS", tuple(one for one in database.PRAGMAS if "mmap_size" not in one))
    with ExitStack() as stack:
        if case.is_there_before:
            stack.enter_context(case.spoil(file, monkeypatch))
        served = stack.enter_context(serving(file.parent, None))
        http = stack.enter_context(httpx.Client(trust_env=False, timeout=60))
        http.post(f"{served.url}/mcp", **raw_call("modern", "memory_list_brains", {}))
        if not case.is_there_before:
            stack.enter_context(case.spoil(file, monkeypatch))
        if case.is_written:
            # Large enough to need new pages.
            note = {"content": "A larger note. " * 20_000}
            refused = http.post(f"{served.url}/mcp", **raw_call("modern", "memory_remember", note))
            assert refused.json()["result"]["isError"] is True
        # The gateway looks in the background. Until it has looked, it answers what it knew before.
        deadline = time.monotonic() + 30
        while (answer := http.get(f"{served.url}/readyz")).status_code == 200 and time.monotonic() < deadline:
            pass
        assert (answer.status_code, answer.json()["problems"]) == (503, [case.ready])


def test_a_lock_that_passes_is_no_problem_any_more_once_it_has_passed(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The gateway may look each time.
    monkeypatch.setattr(platform_watch, "_EVERY_SECONDS", 0)
    monkeypatch.setattr(platform_watch, "_SOON_SECONDS", 0)
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    with serving(file.parent, None) as served, httpx.Client(trust_env=False, timeout=60) as http:
        remember = raw_call("modern", "memory_remember", {"content": "A note."})
        assert http.post(f"{served.url}/mcp", **remember).json()["result"]["isError"] is False
        with locked(file, monkeypatch):
            remember = raw_call("modern", "memory_remember", {"content": "Another note."})
            refused = http.post(f"{served.url}/mcp", **remember).json()["result"]
            assert refused["isError"] is True
            assert ready(http, served.url) == (503, [health.LOCKED])
        assert ready(http, served.url) == (200, [])


def ready(http: httpx.Client, url: str) -> tuple[int, list[str]]:
    """What `/readyz` says after it has looked: the first answer may be that of the look before."""
    http.get(f"{url}/readyz")
    answer = http.get(f"{url}/readyz")
    return answer.status_code, answer.json()["problems"]
