"""Files that an operator may change while we run."""

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.config.reread_file import RereadFile, header_word, replace_file, state_keys

A, B = "ab" * 32, "CD" * 32


def number(body: bytes) -> int:
    return int(body)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "number"
    made.write_bytes(b"1")
    return made


def in_place(path: Path, body: bytes) -> None:
    path.write_bytes(body)
    # Two writes within one tick of the clock would look alike.
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1_000_000))


def by_a_link(path: Path, body: bytes) -> None:
    """As secrets are mounted: the name is a link, and what it leads to is another file now."""
    target = path.with_name(f"version-{body.decode()}")
    target.write_bytes(body)
    link = path.with_name("link")
    link.symlink_to(target)
    link.replace(path)


Change = Callable[[Path, bytes], None]


@pytest.mark.parametrize("change", [replace_file, in_place, by_a_link])
def test_a_change_is_seen_at_the_next_look_and_told_once(path: Path, change: Change) -> None:
    watched = RereadFile(path, number)
    with capture_logs() as logs:
        assert watched.value() == 1
        for n in (2, 3):
            change(path, str(n).encode())
            assert [watched.value() for _ in range(3)] == [n] * 3
    assert logs == [{"event": "file.reloaded", "file": "number", "log_level": "info"}] * 2


def test_what_does_not_change_is_read_once(path: Path) -> None:
    bodies: list[bytes] = []
    watched = RereadFile(path, bodies.append)
    for _ in range(5):
        watched.value()
    assert bodies == [b"1"]


def turned_into_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "nonsense": lambda path: replace_file(path, b"secret words"),
    "nothing in it": lambda path: replace_file(path, b""),
    "gone": lambda path: path.unlink(),
    "a directory": turned_into_a_directory,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_what_cannot_be_read_is_told_once_and_what_was_said_before_holds(
    path: Path, damage: Callable[[Path], object]
) -> None:
    watched = RereadFile(path, number)
    with capture_logs() as logs:
        damage(path)
        assert [(watched.value(), watched.is_current) for _ in range(3)] == [(1, False)] * 3
        if path.is_dir():
            path.rmdir()
        replace_file(path, b"2")
        assert (watched.value(), watched.is_current) == (2, True)
    assert [entry["event"] for entry in logs] == ["file.unreadable", "file.reloaded"]
    assert "secret" not in str(logs)
    assert str(path.parent) not in str(logs), "where it lies is nobody's business"


class Clock:
    """Goes on when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("damage", [name for name in DAMAGE if name != "gone"])
def test_where_nothing_may_outlive_the_file_what_it_said_holds_for_the_time_of_writing_one(
    path: Path, damage: str
) -> None:
    clock = Clock()
    watched = RereadFile(path, number, without=0, clock=clock)
    with capture_logs() as logs:
        DAMAGE[damage](path)
        assert watched.value() == 1
        clock.now += 4.9
        assert watched.value() == 1
        clock.now += 0.2
        assert [(watched.value(), watched.is_current) for _ in range(3)] == [(0, False)] * 3
        if path.is_dir():
            path.rmdir()
        replace_file(path, b"2")
        assert (watched.value(), watched.is_current) == (2, True)
        clock.now += 1000
        assert watched.value() == 2
    assert [entry["event"] for entry in logs] == ["file.unreadable", "file.reloaded"]
    assert logs[0]["meanwhile"] == "What it said before holds for 5 seconds. Put a good one in its place."


def test_where_nothing_may_outlive_the_file_nothing_does_once_it_is_gone(path: Path) -> None:
    watched = RereadFile(path, number, without=0, clock=Clock())
    with capture_logs() as logs:
        path.unlink()
        assert [watched.value() for _ in range(3)] == [0] * 3
        # What comes in its place is not what was there.
        path.write_bytes(b"nonsense")
        assert [watched.value() for _ in range(3)] == [0] * 3
        path.write_bytes(b"2")
        assert watched.value() == 2
    assert [entry["event"] for entry in logs] == ["file.unreadable", "file.unreadable", "file.reloaded"]
    assert logs[0]["meanwhile"] == "Nothing it said holds any more. Put it back, or make a new one."


def test_a_file_that_is_damaged_and_then_gone_is_gone(path: Path) -> None:
    watched = RereadFile(path, number, without=0, clock=Clock())
    path.write_bytes(b"nonsense")
    assert watched.value() == 1
    path.unlink()
    assert watched.value() == 0


def test_the_same_file_put_back_is_current_again(path: Path) -> None:
    watched = RereadFile(path, number)
    path.rename(path.with_name("away"))
    assert (watched.value(), watched.is_current) == (1, False)
    path.with_name("away").rename(path)
    assert (watched.value(), watched.is_current) == (1, True)


@pytest.mark.parametrize(("body", "raised"), [(None, OSError), (b"one", ValueError)])
def test_the_first_time_it_must_be_there_and_right(tmp_path: Path, body: bytes | None, raised: type[Exception]) -> None:
    path = tmp_path / "number"
    if body is not None:
        path.write_bytes(body)
    with pytest.raises(raised):
        RereadFile(path, number)


@pytest.mark.parametrize("body", [b"word", b"word\n", b"  word \r\n", b"w!~#"])
def test_a_word_for_a_header_is_what_stands_between_the_blanks(body: bytes) -> None:
    assert header_word(body) == body.decode().strip()


@pytest.mark.parametrize(
    "body", [b"", b"\n", b"two words", b"a\nb", b"a\r\nx-evil: 1", b"a\0b", b"a\x7f", "größe".encode()]
)
def test_what_is_not_one_word_goes_into_no_header(body: bytes) -> None:
    with pytest.raises(ValueError, match="not one word"):
        header_word(body)


@pytest.mark.parametrize(
    ("body", "keys"), [(A, [A]), (f"{A}\n{B}\n", [A, B]), (f"\n {A} \r\n", [A])], ids=["one", "two", "blanks"]
)
def test_state_keys_are_one_a_line_the_first_in_use(body: str, keys: list[str]) -> None:
    assert state_keys(body.encode()) == [bytes.fromhex(key) for key in keys]


@pytest.mark.parametrize("body", ["", "\n", "ab", A[:-1], A + "a", "zz" * 32, f"{A}\nshort", f"{A},{B}", f"0x{A}"])
def test_what_is_not_all_keys_is_no_keys_at_all(body: str) -> None:
    with pytest.raises(ValueError, match="not keys of 64 hex digits"):
        state_keys(body.encode())


def test_a_file_is_replaced_for_its_owner_alone_whatever_it_was_before(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o666)
    before = os.umask(0)
    try:
        replace_file(path, b"new")
    finally:
        os.umask(before)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_replacement_that_fails_leaves_what_was_there_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(_descriptor: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_whoever_reads_while_it_is_replaced_sees_one_of_the_two_whole(path: Path) -> None:
    bodies = {letter * 100_000 for letter in (b"1", b"2")}
    replace_file(path, next(iter(bodies)))
    stop = threading.Event()

    def replace() -> None:
        while not stop.is_set():
            for body in bodies:
                replace_file(path, body)

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        assert {path.read_bytes() for _ in range(500)} <= bodies
    finally:
        stop.set()
        writer.join()
