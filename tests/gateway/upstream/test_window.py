"""How much happened in the last ten seconds."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.window import Window
from tests.gateway.upstream.platforms import Clock

SECONDS = 10


def test_a_new_window_is_empty() -> None:
    assert Window(Clock()).counts() == (0, 0)


def test_what_happens_is_counted_by_kind() -> None:
    window = Window(Clock())
    window.add(one=1)
    window.add(one=1, other=1)
    window.add(other=3)
    assert window.counts() == (2, 4)


@pytest.mark.parametrize("start", [0.0, 0.25, 0.5, 0.95, 0.999])
def test_what_happened_counts_for_ten_seconds_and_for_eleven_at_most(start: float) -> None:
    """In any ten seconds: whatever part of a second it happened in."""
    clock = Clock(1000 + start)
    window = Window(clock)
    window.add(one=1)
    clock.now += SECONDS - 0.01
    assert window.counts() == (1, 0)
    clock.now = 1000 + start + SECONDS + 1.01
    assert window.counts() == (0, 0)


def test_a_window_that_was_cleared_is_empty() -> None:
    window = Window(Clock())
    window.add(one=5, other=5)
    window.clear()
    assert window.counts() == (0, 0)


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 2), st.integers(0, 2)), max_size=60))
def test_counts_are_those_of_the_last_ten_seconds(happened: list[tuple[float, int, int]]) -> None:
    clock = Clock()
    window, kept = Window(clock), list[tuple[float, int, int]]()
    for pause, one, other in happened:
        clock.now += pause
        window.add(one=one, other=other)
        kept.append((clock.now, one, other))
    counts = window.counts()
    for kind in (0, 1):
        surely = sum(row[kind + 1] for row in kept if row[0] > clock.now - SECONDS)
        perhaps = sum(row[kind + 1] for row in kept if row[0] > clock.now - SECONDS - 1)
        assert surely <= counts[kind] <= perhaps


def test_a_window_that_nobody_looks_at_does_not_grow() -> None:
    """As on a platform that is well for a year: failures alone have it counted."""
    clock = Clock()
    window = Window(clock)
    tracemalloc.start()
    try:
        for _ in range(20_000):
            clock.now += 1
            window.add(one=1)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 100_000
