"""Which tests run: `make quick`, `make test`, `make test-all` and `make nightly`, each with all of the one before.

`make` names the tier in TIER; who calls pytest by hand gets `all`. Five markers say what a tier leaves out:

- `slow`: not in `make quick` and `make test`.
- `not_quick`: not in `make quick`. So is whatever is not below one of the directories in QUICK. A file that is marked
  as a whole is not even imported.
- `nightly`: only in `make nightly`, and in `make test-frameworks`, which has the tests of that kind alone.
- `sampled(n)`: of its cases, `make quick` and `make test` run every n-th.
- `few(n)`: of its cases, which take long, `make test-all` runs n, and those of `make test`.

Two more say what a test needs: `needs_offline_model` the small model that comes with the gateway, of which there is no
build for every system, and `needs_command(name)` a program such as nginx. Where that is not installed, it is left out.

A test costs some milliseconds whatever it does. Of the cases of one function, the tiers therefore run no more than
CASES says; `make nightly` runs them all.

What a tier leaves out is deselected, never skipped: a skipped test reads as if it had been run.
"""

import gc
import os
from collections import Counter, defaultdict
from enum import IntEnum
from pathlib import Path
from shutil import which
from typing import TypeVar
from zlib import crc32

import pytest

from contract.platform.meaning import offline

T = TypeVar("T")
TESTS = Path(__file__).parent
# Everything here runs in the process of the tests, and most of it without a socket.
QUICK = (
    "test_architecture.py",
    "test_docs.py",
    "test_pins.py",
    "test_seeds.py",
    "test_tiers.py",
    "gateway/brain",
    "gateway/config",
    "gateway/ingest",
    "gateway/mcp",
    "gateway/operations",
    "gateway/surfaces",
    "gateway/upstream",
)


class Tier(IntEnum):
    quick = 1
    test = 2
    all = 3
    nightly = 4


# The smaller number is of the smaller tier, so that what `make quick` runs is in `make test` too.
CASES = {Tier.quick: 5, Tier.test: 5, Tier.all: 24}
# As a line of its own: the mark of a whole file.
NOT_QUICK = "\npytestmark = pytest.mark.not_quick\n"
TIER = Tier[os.environ.get("TIER") or "all"]


def by_tier(small: T, whole: T, nightly: T | None = None) -> T:
    """How much of something: a small number in `make quick` and `make test`, and the whole of it in `make test-all`."""
    if TIER in (Tier.quick, Tier.test):
        return small
    return nightly if nightly is not None and TIER is Tier.nightly else whole


def nth(cases: list[T], step: int) -> list[T]:
    """The cases for a test that goes through them by itself: every so many of them where `by_tier` is small."""
    return cases[:: by_tier(step, 1)]


def is_left_out(tier: Tier, path: Path) -> bool:
    """Whether nothing in a file or directory is of a tier, so that it is not even imported."""
    if tier > Tier.quick:
        return False
    here = path.relative_to(TESTS)
    if not any(here.is_relative_to(quick) or Path(quick).is_relative_to(here) for quick in QUICK):
        return True
    return path.suffix == ".py" and path.is_file() and NOT_QUICK in path.read_text(encoding="utf-8")


def chosen(tier: Tier, items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests of a tier, in their order."""
    if tier is Tier.nightly:
        return items
    items = [item for item in items if not item.get_closest_marker("nightly")]
    if tier is Tier.all:
        wanted = {*few_of_each(tier, items), *chosen(Tier.test, items)}
        return [item for item in items if item in wanted]
    seen: Counter[str] = Counter()
    kept = []
    for item in items:
        if item.get_closest_marker("slow"):
            continue
        # Counted the same in both tiers, so that what `make quick` runs is in `make test` too.
        sampled, function = item.get_closest_marker("sampled"), item.nodeid.partition("[")[0]
        is_sample = sampled is None or seen[function] % sampled.args[0] == 0
        seen[function] += 1
        if is_sample and not (tier is Tier.quick and item.get_closest_marker("not_quick")):
            kept.append(item)
    return few_of_each(tier, kept)


def possible(items: list[pytest.Item], *, has_model: bool) -> list[pytest.Item]:
    """The tests that can be run here at all."""
    return [
        item for item in items if (has_model or not item.get_closest_marker("needs_offline_model")) and _has_all(item)
    ]


def _has_all(item: pytest.Item) -> bool:
    """Whether the programs that a test needs are installed."""
    return all(which(needed.args[0]) is not None for needed in item.iter_markers("needs_command"))


def few_of_each(tier: Tier, items: list[pytest.Item]) -> list[pytest.Item]:
    """Some cases of each function: always the same, and mixed, so that all values of a parameter have a chance."""
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    kept = set[pytest.Item]()
    for every in cases.values():
        few = every[0].get_closest_marker("few") if tier is Tier.all else None
        most = few.args[0] if few else CASES[tier]
        kept.update(sorted(every, key=lambda item: crc32(item.nodeid.encode()))[:most])
    return [item for item in items if item in kept]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Of pytest: what is left out as a whole is not looked into. It asks others where this is None."""
    inside = collection_path != TESTS and collection_path.is_relative_to(TESTS)
    return True if inside and is_left_out(TIER, collection_path) else None


def pytest_collection() -> None:
    """Of pytest: what is collected stays until the end. To look for garbage among it takes a second of each worker."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Of pytest: nor is there any among it later."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of pytest: what is left out is deselected, and counted at the end as such. What was asked for by name is run."""
    is_named = any("::" in argument for argument in config.args)
    kept = chosen(Tier.nightly if is_named else TIER, possible(items, has_model=offline.is_installed()))
    left_out = {item.nodeid for item in items} - {item.nodeid for item in kept}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
        items[:] = kept
