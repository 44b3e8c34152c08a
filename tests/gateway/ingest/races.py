"""Files and directories that turn into links and back while they are read: `python -m tests.gateway.races` counts."""

import ctypes
import errno
import mmap
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.ingest import openat2
from gateway.ingest.files import Roots
from gateway.operations.errors import GatewayError

INSIDE, SECRET = b"inside", b"the secret outside"
WAYS = ("openat2", "walk")
# A file that is swapped, a file in a directory that is, and one two directories below it.
TARGETS = ("note.md", "sub/deep.md", "sub/deeper/deepest.md")

Read = Callable[[str], bytes]

# A process of its own: threads of ours would take turns, and the swap would hardly ever fall into a read.
_SWAPPER = """
import mmap, os, struct, sys
os.chdir(sys.argv[1])
with open("../swaps", "r+b") as file: swaps = mmap.mmap(file.fileno(), 8)
count = 0
def swapped():
    global count
    count += 1
    swaps[:] = struct.pack("<Q", count)
print("ready", flush=True)
while True:
    os.rename("sub", "kept"); os.rename("way-out", "sub"); swapped()
    os.rename("sub", "way-out"); os.rename("kept", "sub"); swapped()
    os.symlink("../outside/note.md", "link.tmp"); os.rename("link.tmp", "note.md"); swapped()
    with open("note.tmp", "wb") as file: file.write(b"inside")
    os.rename("note.tmp", "note.md"); swapped()
"""


def use(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open files one way or the other, whatever the kernel could do."""
    if way == "walk":
        monkeypatch.setattr(openat2, "is_available", lambda: False)
    elif not _kernel_has_openat2():
        pytest.skip("this kernel has no openat2, or a filter forbids it")
    else:
        assert openat2.is_available()


def _kernel_has_openat2() -> bool:
    """Found out another way than the gateway does: called with nothing at all, it finds that invalid."""
    if sys.platform != "linux" or platform.machine() not in {"x86_64", "aarch64"}:
        return False
    ctypes.CDLL(None, use_errno=True).syscall(437, -1, None, None, 0)
    return ctypes.get_errno() == errno.EINVAL


def plant(base: Path) -> Path:
    """A root, and beside it a directory with a secret under each name that a link could lead to."""
    root, outside = base / "root", base / "outside"
    (root / "sub" / "deeper").mkdir(parents=True)
    (outside / "deeper").mkdir(parents=True)
    for name in TARGETS:
        (root / name).write_bytes(INSIDE)
    for name in ("note.md", "deep.md", "deepest.md", "deeper/deepest.md"):
        (outside / name).write_bytes(SECRET)
    (root / "way-out").symlink_to(outside)
    return root


@dataclass
class Tally:
    """What came of reads during a race."""

    outcomes: Counter[bytes] = field(default_factory=Counter)
    raced: int = 0
    """Reads during which something was swapped."""
    swaps: int = 0

    @property
    def reads(self) -> int:
        return self.outcomes.total()

    @property
    def escapes(self) -> int:
        return self.outcomes[SECRET]


class Race:
    """A root whose files another process swaps for links, for as long as the block lasts."""

    def __init__(self, swaps: mmap.mmap, swapper: "subprocess.Popen[bytes]") -> None:
        self._swaps, self._swapper = swaps, swapper

    def run(self, read: Read, rounds: int) -> Tally:
        """Read each of the targets so many times."""
        tally, first = Tally(), self._count()
        for _ in range(rounds):
            for target in TARGETS:
                before = self._count()
                try:
                    outcome = read(target)
                except GatewayError as error:
                    outcome = error.code.encode()
                tally.raced += self._count() != before
                tally.outcomes[outcome] += 1
        tally.swaps = self._count() - first
        assert self._swapper.poll() is None, "the swapper stopped: nothing was raced"
        return tally

    def _count(self) -> int:
        return int.from_bytes(self._swaps[:8], "little")


@contextmanager
def racing(root: Path) -> Iterator[Race]:
    (root.parent / "swaps").write_bytes(bytes(8))
    with (
        (root.parent / "swaps").open("rb") as file,
        mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ) as swaps,
        subprocess.Popen([sys.executable, "-c", _SWAPPER, str(root)], stdout=subprocess.PIPE) as swapper,
    ):
        try:
            assert swapper.stdout is not None
            assert swapper.stdout.readline() == b"ready\n"
            yield Race(swaps, swapper)
        finally:
            swapper.kill()


def naive(root: Path, between: Callable[[], None] = lambda: None) -> Read:
    """The reader that looks first and opens then: what is opened need not be what was looked at."""

    def read(path: str) -> bytes:
        asked = os.path.join(root, path)
        try:
            if not os.path.realpath(asked).startswith(f"{os.path.realpath(root)}/"):
                raise GatewayError("file_not_allowed")
            between()
            with open(asked, "rb") as file:
                return file.read()
        except OSError:
            raise GatewayError("not_found") from None

    return read


def main(rounds: int = 20_000) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch, tempfile.TemporaryDirectory() as base:
        root = plant(Path(base))
        with racing(root) as race:
            for name, read in (("naive", naive(root)), ("openat2", Roots([root]).read), ("walk", Roots([root]).read)):
                if name in WAYS:
                    use(name, monkeypatch)
                began = time.monotonic()
                tally = race.run(read, rounds)
                sys.stdout.write(
                    f"{name}: {tally.escapes} escapes in {tally.reads} reads, {tally.raced} of them during a swap"
                    f" ({tally.swaps} swaps, {time.monotonic() - began:.1f} s): {dict(tally.outcomes)}\n"
                )


if __name__ == "__main__":
    main()
