"""Temporary files are marked as used for as long as they are needed, so that no cleaner takes them for old ones."""

import os
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import uvicorn

from gateway.app import fresh
from gateway.app.fresh import kept_fresh
from gateway.cli import serve
from gateway.config.settings import load
from gateway.config.sources import WORKER_OF
from tests.gateway.test_processes import wait_until

LONG_AGO = 1_000_000_000


@pytest.fixture(autouse=True)
def is_marked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh, "_SECONDS", 0.01)


def age(directory: Path) -> None:
    """Let everything look as if nobody had used it for years."""
    for path in (*directory.iterdir(), directory):
        os.utime(path, (LONG_AGO, LONG_AGO))


def is_fresh(directory: Path) -> bool:
    marks = [path.stat() for path in (directory, *directory.iterdir())]
    return all(min(mark.st_atime, mark.st_mtime) > LONG_AGO for mark in marks)


def test_a_directory_and_what_is_in_it_stay_fresh(tmp_path: Path) -> None:
    (tmp_path / "limits").write_bytes(b"x")
    with kept_fresh(tmp_path):
        for _ in range(2):
            age(tmp_path)
            wait_until(lambda: is_fresh(tmp_path), "it was not marked")
    age(tmp_path)
    assert not is_fresh(tmp_path)


def test_a_directory_that_is_not_there_is_no_trouble(tmp_path: Path) -> None:
    with kept_fresh(tmp_path / "later"):
        (tmp_path / "later").mkdir()
        age(tmp_path / "later")
        wait_until(lambda: is_fresh(tmp_path / "later"), "it was not marked, though it is there now")


def test_what_workers_share_and_where_they_count_stays_fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(WORKER_OF, "it is set anew")
    seen: list[str] = []

    class Looking:
        """Looks at the directories, where workers would be started."""

        def __init__(self, _config: uvicorn.Config, sockets: Sequence[socket.socket]) -> None:
            pass

        def run(self) -> None:
            for directory in tmp_path.iterdir():
                age(directory)
                wait_until(lambda directory=directory: is_fresh(directory), f"{directory} was not marked")
                seen.extend(path.name for path in directory.iterdir())

    monkeypatch.setattr(serve, "Workers", Looking)
    settings = load(upstream_url="http://127.0.0.1:9", dialect="platform", metrics_token="0123456789abcdef")
    with serve._metrics(settings) as place, socket.socket() as listening:
        assert place is not None
        (place.directory / "some.figures").write_bytes(b"x")
        serve._supervise(settings, 2, listening, place)
    assert sorted(seen) == ["some.figures", "state-keys"]
    assert list(tmp_path.iterdir()) == []
