"""What is served over HTTP, once it has started."""

import gc
from collections.abc import Iterator

import pytest

from gateway.app.http_app import _warm_up

# Of several calls that are under way.
HELD = 5_000


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """The generations that the collector was started for since the gateway has started."""
    started: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            started.append(info["generation"])

    before = gc.get_threshold()
    _warm_up()
    gc.callbacks.append(note)
    yield started
    gc.callbacks.remove(note)
    gc.set_threshold(*before)


def test_what_a_few_calls_hold_does_not_start_the_collector(collections: list[int]) -> None:
    held: list[list[int]] = [[] for _ in range(HELD)]
    assert (len(held), collections) == (HELD, [])


def test_what_is_there_from_the_start_is_not_looked_at_again(collections: list[int]) -> None:
    assert gc.get_freeze_count() > 10_000
    assert collections == []
