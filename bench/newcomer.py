"""`python -m bench.newcomer`: what search by meaning adds to the set-up, and to the first call of a new process.

Each is measured in turn with and without search by meaning. The set-up gets its packages from wherever pip gets them
here, without pip's cache. So its figures say more about the machine than about a network.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from bench.processes import ROOT, environment, running
from bench.result import Unmeasured, percentile, table

# By the clock, and of CPU.
Seconds: TypeAlias = tuple[float, float]

# The packages that only search by meaning needs, and their lines in pyproject.toml.
PACKAGES: Final = ("numpy", "tokenizers", "wordllama")
_LINE: Final = re.compile(rf'    "(?:{"|".join(PACKAGES)})\b.*\n')
_NOTES: Final = 100
_LONGEST_WAIT: Final = 120
_NOTE: Final = b"# Tyres\n\nThe garage changes the tyres of the car on Thursday at nine."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.newcomer", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of each measurement")
    parser.add_argument("--no-set-up", action="store_true", help="only first calls: a set-up takes minutes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [] if given.no_set_up else list(_set_ups(Path(folder), given.rounds))
        rows += _first_calls(Path(folder), given.rounds)
    sys.stdout.write(table(["What", "Without", "With", "Ratio", "Difference"], rows) + "\n")


def _set_ups(folder: Path, rounds: int) -> Iterator[list[str]]:
    """The set-up of `make run`, in seconds by the clock and of CPU."""
    without, whole = _copy(folder / "set-up-without", is_whole=False), _copy(folder / "set-up-with", is_whole=True)
    turns = [(_set_up(without), _set_up(whole)) for _ in range(rounds)]
    yield from _rows("set-up", turns)


def _copy(tree: Path, *, is_whole: bool) -> Path:
    tree.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "-x"], cwd=tree, input=archive, check=True)
    project = tree / "pyproject.toml"
    text, left_out = _LINE.subn("", project.read_text(encoding="utf-8"))
    if left_out != len(PACKAGES):
        raise Unmeasured(f"pyproject.toml has {left_out} of the lines of {', '.join(PACKAGES)}.")
    if not is_whole:
        project.write_text(text, encoding="utf-8")
    return tree


def _set_up(tree: Path) -> Seconds:
    (tree / ".venv" / ".running").unlink(missing_ok=True)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    env = environment({"PYTHON": sys.executable, "PIP_NO_CACHE_DIR": "1"})
    subprocess.run(["make", ".venv/.running"], cwd=tree, env=env, check=True, stdout=subprocess.DEVNULL)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _first_calls(folder: Path, rounds: int) -> Iterator[list[str]]:
    """From the start of a process to its first answer, in seconds."""
    ways = [
        ["bench.words_only", "--data-dir", str(folder / name), *flags]
        for name, flags in (("without", []), ("with", ["--vectors"]))
    ]
    for way in ways:
        with running(way[0], way, folder) as server:
            for n in range(_NOTES):
                _write(server.url, n)
            _wait_for_vectors(server.url)
    calls: dict[str, Callable[[str, int], None]] = {"write": _write, "search": _search}
    for what, call in calls.items():
        # The first turn is not counted, because it writes the bytecode that is missing.
        turns = [(_first(ways[0], folder, call, n), _first(ways[1], folder, call, n)) for n in range(rounds + 1)]
        yield from _rows(f"first call of a process, {what}", turns[1:])


def _first(way: list[str], folder: Path, call: Callable[[str, int], None], n: int) -> Seconds:
    began = time.perf_counter()
    with running(way[0], way, folder) as server:
        call(server.url, _NOTES + n)
        return time.perf_counter() - began, server.cpu_seconds()


def _wait_for_vectors(url: str) -> None:
    ends = time.monotonic() + _LONGEST_WAIT
    while True:
        with urllib.request.urlopen(f"{url}/v1/models") as answer:
            if json.load(answer)["embedding"]["state"] in ("ready", "off"):
                return
        if time.monotonic() > ends:
            raise Unmeasured(f"After {_LONGEST_WAIT} s, not all notes have a vector.")
        time.sleep(0.1)


def _write(url: str, n: int) -> None:
    address = f"{url}/v1/brains/main/documents?path=memory/global/{n}.md"
    headers = {"content-type": "application/octet-stream"}
    urllib.request.urlopen(urllib.request.Request(address, _NOTE + b" %d" % n, headers, method="PUT")).close()


def _search(url: str, n: int) -> None:
    urllib.request.urlopen(f"{url}/v1/brains/main/search?q=when+does+car+{n}+get+new+tyres").close()


def _rows(what: str, turns: list[tuple[Seconds, Seconds]]) -> Iterator[list[str]]:
    for place, of in enumerate(("the clock", "processors")):
        one, other = (percentile([turn[side][place] for turn in turns], 0.5) for side in (0, 1))
        yield [f"{what}, s of {of}", f"{one:.2f}", f"{other:.2f}", f"{other / one:.2f}", f"{other - one:+.2f}"]


if __name__ == "__main__":
    main()
