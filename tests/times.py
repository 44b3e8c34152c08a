"""Where the time of a run goes, as tables: `python -m tests.times junit.xml [earlier.xml]`.

Any run writes such a file with `--junit-xml=junit.xml`. Beside an earlier run, a test is found by its name alone: files
may have moved since.
"""

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree import ElementTree

SLOWEST, LONGEST_NAME = 20, 90
Seconds: TypeAlias = dict[str, float]


@dataclass(frozen=True)
class Timed:
    """One test, with all of its set-up; its seconds are those of one worker."""

    place: str
    name: str
    seconds: float

    @property
    def function(self) -> str:
        """Its name without the case."""
        return self.name.partition("[")[0]


def read(path: Path) -> list[Timed]:
    cases = ElementTree.parse(path).iter("testcase")
    return [Timed(case.get("classname", ""), case.get("name", ""), float(case.get("time", 0))) for case in cases]


def file_of(place: str) -> str:
    return place.removeprefix("tests.").replace(".", "/")


def by_file(tests: Sequence[Timed]) -> Seconds:
    return _summed((file_of(one.place), one.seconds) for one in tests)


def moved(earlier: Sequence[Timed], now: Sequence[Timed]) -> list[Timed]:
    """The tests of the earlier run where they are now. What is at no place or at several stays where it was."""
    places: dict[str, set[str]] = defaultdict(set)
    for one in now:
        places[one.function].add(one.place)
    found = []
    for one in earlier:
        here = places[one.function]
        found.append(Timed(here.copy().pop(), one.name, one.seconds) if len(here) == 1 else one)
    return found


def tables(now: Sequence[Timed], earlier: Sequence[Timed] | None = None) -> str:
    """By file and by test, those that take longest first."""
    earlier = None if earlier is None else moved(earlier, now)
    files = _table("file", by_file(now), None if earlier is None else by_file(earlier))
    tests = _table("test", _by_name(now), None if earlier is None else _by_name(earlier))
    parts = [_total(now, earlier), f"The {SLOWEST} slowest files:", files, f"The {SLOWEST} slowest tests:", tests]
    return "\n\n".join(parts) + "\n"


def _total(now: Sequence[Timed], earlier: Sequence[Timed] | None) -> str:
    said = f"{len(now):,} tests, {sum(one.seconds for one in now):,.0f} s of all workers together"
    if earlier is None:
        return f"{said}."
    return f"{said}; before: {len(earlier):,} tests, {sum(one.seconds for one in earlier):,.0f} s."


def _by_name(tests: Sequence[Timed]) -> Seconds:
    return _summed((re.sub(r"\s+", " ", one.name), one.seconds) for one in tests)


def _summed(parts: Iterator[tuple[str, float]]) -> Seconds:
    found: Seconds = defaultdict(float)
    for name, seconds in parts:
        found[name] += seconds
    return dict(found)


def _table(head: str, now: Seconds, earlier: Seconds | None) -> str:
    """What took longest in either run."""
    before = earlier or {}
    names = sorted({**before, **now}, key=lambda name: -max(now.get(name, 0.0), before.get(name, 0.0)))
    rows = [
        [f"`{_short(name)}`", *([_told(before, name)] if earlier is not None else []), _told(now, name)]
        for name in names
    ]
    heads = [head, *(["before, s"] if earlier is not None else []), "s"]
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows[:SLOWEST]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _short(name: str) -> str:
    plain = name.replace("`", "'").replace("|", "/")
    return plain if len(plain) <= LONGEST_NAME else f"{plain[: LONGEST_NAME - 1]}…"


def _told(seconds: Seconds, name: str) -> str:
    return f"{seconds[name]:.1f}" if name in seconds else "-"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.times", description=__doc__)
    parser.add_argument("now", type=Path, help="what `--junit-xml` wrote")
    parser.add_argument("earlier", type=Path, nargs="?", help="the same of an earlier run")
    given: Any = parser.parse_args(arguments)
    sys.stdout.write(tables(read(given.now), None if given.earlier is None else read(given.earlier)))


if __name__ == "__main__":
    main()
