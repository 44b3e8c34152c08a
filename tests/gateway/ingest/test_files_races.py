"""Files that change while they are opened and read: by links swapped in, by growth, by mounts."""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.ingest import openat2
from gateway.ingest.files import FILE_BYTES, Roots
from gateway.operations.errors import GatewayError
from tests.gateway.ingest.races import INSIDE, SECRET, TARGETS, WAYS, naive, plant, racing, use

pytestmark = pytest.mark.not_quick

NOBODY = 65534
ROUNDS = 6_700
# As many times a read opens something, at most: a root, two directories and a file.
STEPS = range(5)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    use(request.param, monkeypatch)
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return plant(tmp_path)


@pytest.fixture(autouse=True)
def _every_file_is_closed_again(tmp_path: Path) -> Iterator[None]:
    yield
    for descriptor in Path("/proc/self/fd").glob("*"):
        with suppress(FileNotFoundError):
            assert not os.readlink(descriptor).startswith(str(tmp_path))


def outcome(roots: Roots, path: str) -> bytes:
    try:
        return roots.read(path)
    except GatewayError as error:
        return error.code.encode()


@pytest.mark.usefixtures("way")
@pytest.mark.slow
def test_in_20_000_reads_during_a_race_no_link_leads_out(root: Path) -> None:
    with racing(root) as race:
        tally = race.run(Roots([root]).read, ROUNDS)
    assert tally.reads >= 20_000
    assert tally.escapes == 0
    assert set(tally.outcomes) <= {INSIDE, b"file_not_allowed", b"not_found"}
    # The race was one: things were swapped in the middle of reads, and reads saw both states.
    assert tally.raced
    assert tally.outcomes[INSIDE]
    assert tally.outcomes[b"file_not_allowed"]


@pytest.mark.slow
def test_a_reader_that_looks_first_meets_the_same_race(root: Path) -> None:
    """How often it is fooled is chance (`python -m tests.gateway.races` counts); that it can be is shown below."""
    with racing(root) as race:
        tally = race.run(naive(root), ROUNDS)
    assert tally.raced
    assert tally.outcomes[INSIDE]
    assert tally.outcomes[b"file_not_allowed"]


SWAPS = [
    ("note.md", "note.md", "outside/note.md"),
    ("sub", "sub/deep.md", "outside"),
    ("sub", "sub/deeper/deepest.md", "outside"),
    ("sub/deeper", "sub/deeper/deepest.md", "outside"),
    ("sub/deeper/deepest.md", "sub/deeper/deepest.md", "outside/deepest.md"),
]


def swapped(root: Path, name: str, target: str) -> None:
    if not (root / name).is_symlink():
        (root / name).rename(root / "kept")
        (root / name).symlink_to(root.parent / target)


@pytest.mark.parametrize(("name", "path", "target"), SWAPS)
def test_a_swap_after_the_look_fools_a_reader_that_looks_first(root: Path, name: str, path: str, target: str) -> None:
    assert naive(root, between=lambda: swapped(root, name, target))(path) == SECRET


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("name", "path", "target"), SWAPS)
def test_a_swap_before_any_step_of_a_read_fools_nobody(
    root: Path, way: str, monkeypatch: pytest.MonkeyPatch, name: str, path: str, target: str, step: int
) -> None:
    roots, steps, me = Roots([root]), [0], threading.get_ident()

    def swapping_first(call: Callable[..., int]) -> Callable[..., int]:
        def wrapped(*args: Any, **options: Any) -> int:
            if threading.get_ident() == me:
                if steps[0] == step:
                    swapped(root, name, target)
                steps[0] += 1
            return call(*args, **options)

        return wrapped

    with monkeypatch.context() as patched:
        patched.setattr(openat2, "open_below", swapping_first(openat2.open_below))
        patched.setattr(os, "open", swapping_first(os.open))
        seen = outcome(roots, path)

    assert steps[0] == 2 if way == "openat2" else steps[0] in range(1, path.count("/") + 3)
    assert seen in {INSIDE, b"file_not_allowed"}
    # As soon as it is open, it is read: whatever bears its name now.
    assert seen == b"file_not_allowed" if step == 0 else True
    assert seen == INSIDE if step >= path.count("/") + 2 else True


def test_a_file_that_is_deleted_once_it_is_open_is_not_read(
    root: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no name below the root any more; whoever took it away meant it."""
    fstat = os.fstat

    def deleting_first(fd: int) -> os.stat_result:
        if os.readlink(f"/proc/self/fd/{fd}") == str(root / "note.md"):
            (root / "note.md").unlink()
        return fstat(fd)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", deleting_first)
        assert outcome(Roots([root]), "note.md") == b"file_not_allowed"


def test_one_way_is_taken_and_not_the_other(root: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, real = [], openat2.open_below

    def noted(directory: int, path: str, flags: int) -> int:
        taken.append(path)
        return real(directory, path, flags)

    monkeypatch.setattr(openat2, "open_below", noted)
    assert [outcome(Roots([root]), target) for target in TARGETS] == [INSIDE] * 3
    assert taken == (list(TARGETS) if way == "openat2" else [])


@pytest.mark.parametrize("machine", ["riscv64", "armv7l", ""])
def test_on_other_machines_files_are_opened_by_the_walk(monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert not openat2.is_available.__wrapped__()


@pytest.mark.parametrize("number", [38, 1, 22])
def test_where_a_filter_forbids_the_call_files_are_opened_by_the_walk(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """ENOSYS of an old kernel, EPERM of an old container runtime, EINVAL of something else."""

    def forbidden(*_args: Any) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(openat2, "open_below", forbidden)
    assert not openat2.is_available.__wrapped__()
    monkeypatch.setattr(openat2, "is_available", openat2.is_available.__wrapped__)
    assert [outcome(Roots([root]), target) for target in TARGETS] == [INSIDE] * 3


def test_a_call_that_breaks_its_promise_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openat2, "open_below", lambda directory, path, flags: os.open(path, flags, dir_fd=directory))
    assert not openat2.is_available.__wrapped__()


@pytest.mark.usefixtures("way")
def test_a_file_that_grows_while_it_is_read_is_read_no_further_than_the_limit(root: Path) -> None:
    growing, stop = root / "growing.bin", threading.Event()
    growing.write_bytes(bytes(FILE_BYTES - 1))

    def grow() -> None:
        with growing.open("ab", buffering=0) as file:
            while not stop.is_set() and file.tell() < 4 * FILE_BYTES:
                file.write(bytes(65536))

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        seen = [outcome(Roots([root]), "growing.bin") for _ in range(5)]
    finally:
        stop.set()
        writer.join()
    assert all(each == b"file_too_large" or len(each) <= FILE_BYTES for each in seen)
    assert outcome(Roots([root]), "growing.bin") == b"file_too_large"


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("size", [FILE_BYTES + 1, 1 << 40])
def test_a_file_that_has_grown_since_it_was_looked_at_is_too_large(
    root: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    fstat = os.fstat

    def growing_after(fd: int) -> os.stat_result:
        status = fstat(fd)
        if os.readlink(f"/proc/self/fd/{fd}") == str(root / "note.md"):
            os.truncate(root / "note.md", size)
        return status

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", growing_after)
        assert outcome(Roots([root]), "note.md") == b"file_too_large"


@pytest.mark.usefixtures("way")
def test_a_file_that_is_too_large_is_not_even_begun(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.truncate(root / "note.md", FILE_BYTES + 1)
    with monkeypatch.context() as patched:
        patched.delattr(os, "fdopen")
        assert outcome(Roots([root]), "note.md") == b"file_too_large"


@contextmanager
def open_to_all() -> Iterator[Path]:
    """A directory that every user may look into, which those of tests are not."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


def as_nobody(do: Callable[[], bytes]) -> bytes:
    """What comes of it for a user who may do little. Only the one thread is that user."""
    results: list[bytes] = []

    def run() -> None:
        if os.geteuid() == 0:
            ctypes.CDLL(None).setfsuid(NOBODY)
        results.append(do())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.usefixtures("way")
@pytest.mark.skipif(sys.platform != "linux", reason="needs a user for one thread alone")
def test_a_file_that_may_not_be_read_is_refused() -> None:
    with open_to_all() as root:
        (root / "readable.md").write_bytes(INSIDE)
        (root / "unreadable.md").write_bytes(SECRET)
        (root / "closed").mkdir()
        (root / "closed" / "note.md").write_bytes(SECRET)
        (root / "unreadable.md").chmod(0)
        (root / "closed").chmod(0)
        assert as_nobody(lambda: outcome(Roots([root]), "readable.md")) == INSIDE
        assert as_nobody(lambda: outcome(Roots([root]), "unreadable.md")) == b"file_not_allowed"
        assert as_nobody(lambda: outcome(Roots([root]), "closed/note.md")) == b"file_not_allowed"
        assert as_nobody(lambda: outcome(Roots([root]), "closed/missing.md")) == b"file_not_allowed"
        (root / "closed").chmod(0o700)


MOUNTED = """
import sys
from pathlib import Path
from gateway.ingest import openat2
from gateway.operations.errors import GatewayError
from gateway.ingest.files import Roots
if sys.argv[2] == "walk":
    openat2.is_available = lambda: False
for name in sys.argv[3:]:
    try:
        print(Roots([Path(sys.argv[1])]).read(name).decode())
    except GatewayError as error:
        print(error.code)
"""


def test_what_is_mounted_below_a_root_is_not_read(root: Path, way: str) -> None:
    """A bind mount of the same file system cannot be told from a directory by the walk; whoever mounts it means it."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here")
    (root / "tmpfs").mkdir()
    (root / "bind").mkdir()
    script = (
        'mount -t tmpfs none "$1/tmpfs" && printf "the secret outside" > "$1/tmpfs/note.md" && '
        'mount --bind "$1/../outside" "$1/bind" && shift && exec "$@"'
    )
    reader = [
        sys.executable,
        "-c",
        MOUNTED,
        str(root),
        way,
        "note.md",
        "tmpfs/note.md",
        "tmpfs/missing",
        "bind/deep.md",
    ]
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", script, "sh", str(root), *reader]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if ran.returncode != 0 and "Error" not in ran.stderr:
        pytest.skip(f"nothing can be mounted here: {ran.stderr.strip()}")
    assert ran.stderr == ""
    bound = "file_not_allowed" if way == "openat2" else SECRET.decode()
    assert ran.stdout.splitlines() == ["inside", "file_not_allowed", "file_not_allowed", bound]
