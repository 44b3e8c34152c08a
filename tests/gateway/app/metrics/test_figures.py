"""Figures of several processes: they add up, and what the dead counted is kept."""

import time
from pathlib import Path

import pytest

from gateway.app.metrics.figures import Exemplar, Family, Figures, Layout, Totals, read_all

CALLS = Family("calls", "counter", "", ("tool", "outcome"), (("a", "ok"), ("a", "bad"), ("b", "ok"), ("b", "bad")))
RUNNING = Family("running", "gauge", "")
LACKING = Family("lacking", "gauge", "", is_largest=True)
SECONDS = Family("seconds", "histogram", "", ("tool",), (("a",), ("b",)), (0.1, 1.0))
LAYOUT = Layout([CALLS, RUNNING, LACKING, SECONDS])
TRACE = bytes(range(16))


def figures_in(directory: Path, *, calls: int = 0, running: int = 0, lacking: int = 0) -> Figures:
    made = Figures(directory, LAYOUT)
    made.values[LAYOUT.place("calls", "a", "ok")] += calls
    made.values[LAYOUT.place("running")] = running
    made.values[LAYOUT.place("lacking")] = lacking
    return made


def shown(totals: Totals, family: Family) -> dict[tuple[str, ...], list[float]]:
    return {labels: values for labels, values, _ in totals.rows(family)}


def test_figures_of_the_living_add_up_and_of_some_the_largest_counts(tmp_path: Path) -> None:
    both = [figures_in(tmp_path, calls=2, running=1, lacking=3), figures_in(tmp_path, calls=5, running=4, lacking=2)]
    totals = read_all(tmp_path, LAYOUT)
    assert totals.alive == 2
    assert shown(totals, CALLS)["a", "ok"] == [7]
    assert shown(totals, RUNNING) == {(): [5]}
    assert shown(totals, LACKING) == {(): [3]}
    for one in both:
        one.close()


def test_what_a_dead_process_counted_is_kept_and_what_it_measured_is_not(tmp_path: Path) -> None:
    figures_in(tmp_path, calls=2, running=1, lacking=9).close()
    figures_in(tmp_path, calls=3, running=1).close()
    living = figures_in(tmp_path, calls=5, running=4)
    for _ in range(3):
        totals = read_all(tmp_path, LAYOUT)
        assert totals.alive == 1
        assert shown(totals, CALLS)["a", "ok"] == [10]
        assert shown(totals, RUNNING) == {(): [4]}
        assert shown(totals, LACKING) == {(): [0]}
    # A process that dies again and again leaves no file each time.
    assert len(list(tmp_path.glob("*.figures"))) == 1
    living.close()


def test_what_is_not_used_is_not_shown_and_what_is_used_is_shown_with_every_outcome(tmp_path: Path) -> None:
    living = figures_in(tmp_path, calls=1)
    living.observe(LAYOUT.place("seconds", "b"), SECONDS.buckets, 0.5)
    totals = read_all(tmp_path, LAYOUT)
    assert shown(totals, CALLS) == {("a", "ok"): [1], ("a", "bad"): [0]}
    assert shown(totals, SECONDS) == {("b",): [0, 1, 0, 0.5]}
    living.close()


def test_a_value_is_counted_in_the_bucket_that_it_does_not_exceed(tmp_path: Path) -> None:
    living = figures_in(tmp_path)
    for value in (0.05, 0.1, 0.11, 1.0, 7.0):
        living.observe(LAYOUT.place("seconds", "a"), SECONDS.buckets, value)
    (*buckets, total) = shown(read_all(tmp_path, LAYOUT), SECONDS)["a",]
    assert buckets == [2, 2, 1]
    assert round(total, 6) == 8.26
    living.close()


def test_the_newest_trace_of_a_bucket_is_its_example_also_of_a_process_that_is_dead(tmp_path: Path) -> None:
    first, second = figures_in(tmp_path), figures_in(tmp_path)
    place = LAYOUT.place("seconds", "a")
    first.observe(place, SECONDS.buckets, 0.5, TRACE)
    second.observe(place, SECONDS.buckets, 0.6, TRACE[::-1])
    first.close()
    ((_, _, examples),) = read_all(tmp_path, LAYOUT).rows(SECONDS)
    example = examples[1]
    assert isinstance(example, Exemplar)
    assert (example.trace_id, example.value) == (TRACE[::-1].hex(), 0.6)
    assert [examples[0], *examples[2:]] == [None, None, None]
    second.close()


@pytest.mark.parametrize(("later", "is_newer"), [(0.5, False), (1.0, True), (-3600.0, True)])
def test_a_bucket_gets_another_example_after_a_second_or_when_the_clock_was_set(
    later: float, is_newer: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_790_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    living, place = figures_in(tmp_path), LAYOUT.place("seconds", "a")
    living.observe(place, SECONDS.buckets, 0.5, TRACE)
    now += later
    living.observe(place, SECONDS.buckets, 0.6, TRACE[::-1])
    ((_, _, examples),) = read_all(tmp_path, LAYOUT).rows(SECONDS)
    assert examples[1] is not None
    assert examples[1].trace_id == (TRACE[::-1] if is_newer else TRACE).hex()
    living.close()
