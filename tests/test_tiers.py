"""The tiers: each has all of the one before it, the markers mean what they say, and nothing is skipped instead."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests import times
from tests.tiers import CASES, QUICK, TESTS, Tier, chosen, is_left_out, possible
from tests.times import Timed

ROOT = TESTS.parent


class Marked:
    """As much of a test as a tier looks at."""

    def __init__(self, nodeid: str, *marks: Any) -> None:
        self.nodeid = nodeid
        self._marks = [mark.mark for mark in marks]

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next(self.iter_markers(name), None)

    def iter_markers(self, name: str) -> Iterator[pytest.Mark]:
        return (mark for mark in self._marks if mark.name == name)


PLAIN = Marked("a.py::test_plain")
SLOW = Marked("a.py::test_slow", pytest.mark.slow)
NOT_QUICK = Marked("a.py::test_not_quick", pytest.mark.not_quick)
NIGHTLY = Marked("a.py::test_nightly", pytest.mark.nightly)
SAMPLED = [Marked(f"a.py::test_cases[{n}]", pytest.mark.sampled(3)) for n in range(7)]
# The first of its cases is not for `make quick`: the others are counted as if it were.
MIXED = [
    Marked(f"a.py::test_mixed[{n}]", pytest.mark.sampled(2), *([pytest.mark.not_quick] if n == 0 else []))
    for n in range(4)
]
# Of two parameters, one with four values.
MANY = [Marked(f"a.py::test_many[{n}-{n % 4}]") for n in range(10 * CASES[Tier.all])]
# A few of these are in `make test-all`, and the sample of `make test` besides.
LONG = [Marked(f"a.py::test_long[{n}]", pytest.mark.sampled(4), pytest.mark.few(3)) for n in range(12)]
ALL = [PLAIN, SLOW, NIGHTLY, NOT_QUICK, *SAMPLED, *MIXED, *MANY, *LONG]


def test_what_needs_a_program_is_left_out_where_that_is_not_installed() -> None:
    there, missing = (
        Marked(f"a.py::test_{name}", pytest.mark.needs_command(name)) for name in ("sh", "no-such-program")
    )
    one_of_two = Marked("a.py::test_both", *(pytest.mark.needs_command(name) for name in ("sh", "no-such-program")))
    items = cast(list[pytest.Item], [PLAIN, there, missing, one_of_two])
    assert possible(items, has_model=True) == items[:2]


def test_what_is_of_the_small_model_is_left_out_where_that_is_not_installed() -> None:
    of_model = Marked("a.py::test_of_the_model", pytest.mark.needs_offline_model)
    items = cast(list[pytest.Item], [PLAIN, of_model])
    assert possible(items, has_model=True) == items
    assert possible(items, has_model=False) == items[:1]


def in_tier(tier: Tier) -> list[Any]:
    return chosen(tier, cast(list[pytest.Item], ALL))


def without_many(items: list[Any]) -> list[Any]:
    return [item for item in items if item not in MANY]


def test_quick_leaves_out_what_is_marked_so_and_takes_every_nth_case() -> None:
    assert without_many(in_tier(Tier.quick)) == [PLAIN, *SAMPLED[::3], MIXED[2], *LONG[::4]]


@pytest.mark.parametrize("tier", CASES)
def test_of_many_cases_a_few_are_taken_in_their_order_and_mixed(tier: Tier) -> None:
    few = [item for item in in_tier(tier) if item in MANY]
    # What `make test` takes is in `make test-all` too.
    assert CASES[tier] <= len(few) <= CASES[tier] + (CASES[Tier.test] if tier is Tier.all else 0)
    assert few == [item for item in MANY if item in few]
    assert len({item.nodeid[-2] for item in few}) > 2


def test_test_leaves_out_what_is_slow_and_takes_every_nth_case() -> None:
    expected = [PLAIN, NOT_QUICK, *SAMPLED[::3], *MIXED[::2], *LONG[::4]]
    assert without_many(in_tier(Tier.test)) == expected


def test_test_all_leaves_out_what_is_nightly_and_cases_of_which_there_are_many() -> None:
    kept = in_tier(Tier.all)
    assert [item for item in without_many(kept) if item not in LONG] == [PLAIN, SLOW, NOT_QUICK, *SAMPLED, *MIXED]
    long = [item for item in kept if item in LONG]
    assert set(LONG[::4]) < set(long)
    assert 3 < len(long) <= 6


def test_nightly_leaves_out_nothing() -> None:
    assert in_tier(Tier.nightly) == ALL


@pytest.mark.parametrize("tier", [Tier.all, Tier.nightly])
def test_from_test_all_on_every_file_is_looked_into(tier: Tier) -> None:
    assert not is_left_out(tier, TESTS / "faults" / "test_matrix.py")


def test_every_tier_has_all_of_the_one_before_it() -> None:
    for small, large in ((Tier.quick, Tier.test), (Tier.test, Tier.all), (Tier.all, Tier.nightly)):
        assert set(in_tier(small)) <= set(in_tier(large))


def test_quick_looks_into_its_directories_and_no_others() -> None:
    looked_into = [TESTS / quick for quick in QUICK]
    assert [path for path in looked_into if not path.exists()] == []
    assert not any(is_left_out(Tier.quick, path) for path in looked_into)
    assert not is_left_out(Tier.quick, TESTS / "gateway")
    assert not is_left_out(Tier.quick, TESTS / "gateway" / "upstream" / "wire" / "test_any.py")
    assert is_left_out(Tier.quick, TESTS / "faults")
    assert is_left_out(Tier.quick, TESTS / "gateway" / "test_processes.py")


def test_a_file_that_is_marked_as_a_whole_is_not_imported_for_quick() -> None:
    marked = TESTS / "gateway" / "brain" / "test_limits.py"
    assert is_left_out(Tier.quick, marked)
    assert not is_left_out(Tier.test, marked)
    assert not is_left_out(Tier.quick, TESTS / "gateway" / "brain" / "test_brain.py")


def test_make_names_every_tier_and_the_build_runs_all_of_python_and_the_peers() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.findall(r"TIER=(\w+) \$\(TIERED\)", makefile) == [tier.name for tier in Tier]
    for tests in ("$(FRAMEWORKS)", "$(PEERS)"):
        assert f"TIER=nightly $(PYTEST) {tests} $(ARGS)" in makefile
    build = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.findall(r"^make (?!set-up)(.+)$", build, re.MULTILINE) == ["check", "test-all", "test-peers"]


def test_the_tables_of_times_put_a_test_that_moved_beside_itself(tmp_path: Path) -> None:
    now, earlier = tmp_path / "now.xml", tmp_path / "earlier.xml"
    now.write_text('<s><testcase classname="tests.b.test_b" name="test_it[1]" time="2.0"/></s>', encoding="utf-8")
    earlier.write_text(
        '<s><testcase classname="tests.a.test_a" name="test_it[1]" time="3.0"/>'
        '<testcase classname="tests.a.test_a" name="test_gone" time="1.0"/></s>',
        encoding="utf-8",
    )
    assert times.read(now) == [Timed("tests.b.test_b", "test_it[1]", 2.0)]
    told = times.tables(times.read(now), times.read(earlier))
    assert "1 tests, 2 s of all workers together; before: 2 tests, 4 s." in told
    assert "| `b/test_b` | 3.0 | 2.0 |" in told
    assert "| `a/test_a` | 1.0 | - |" in told
    assert "| `test_it[1]` | 3.0 | 2.0 |" in told
    assert times.tables(times.read(now)).count("| `b/test_b` | 2.0 |") == 1
