"""Keeps temporary files from being taken for old ones: systems remove what nobody has used for some days."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# The time between two marks. Cleaners remove what is older than some days, and the boldest what is older than one.
_SECONDS = 60 * 60.0


@contextmanager
def kept_fresh(directory: Path) -> Iterator[None]:
    """Mark a directory and what is in it as used now, again and again.

    Writing to a file that is mapped into memory does not mark it in every file system.
    """
    stop = threading.Event()

    def mark_on() -> None:
        while not stop.wait(_SECONDS):
            _mark(directory)

    marking = threading.Thread(target=mark_on, name="fresh", daemon=True)
    marking.start()
    try:
        yield
    finally:
        stop.set()
        marking.join()


def _mark(directory: Path) -> None:
    # What is marked may be removed meanwhile.
    with suppress(OSError):
        for path in (directory, *directory.iterdir()):
            with suppress(OSError):
                os.utime(path)
