"""How many requests may be repeats: a tenth, and never fewer than three."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.budget import Budget
from tests.gateway.upstream.platforms import Clock


def taken(budget: Budget, caller: str, most: int = 1000) -> int:
    """How many repeats a caller gets who always wants one more."""
    return next(n for n in count() if n == most or not budget.take(caller))


def after(sent: int, caller: str = "ada", clock: Clock | None = None) -> Budget:
    budget = Budget(clock or Clock())
    for _ in range(sent):
        budget.count_sent(caller)
    return budget


@pytest.mark.parametrize(
    ("sent", "repeats"), [(0, 3), (1, 3), (29, 3), (30, 3), (39, 3), (40, 4), (100, 10), (109, 10), (1000, 100)]
)
def test_a_tenth_may_be_repeats_and_always_three(sent: int, repeats: int) -> None:
    assert taken(after(sent), "ada") == repeats


def test_what_is_given_comes_back_after_ten_seconds() -> None:
    clock = Clock()
    budget = after(0, clock=clock)
    assert taken(budget, "ada") == 3
    clock.now += 9
    assert taken(budget, "ada") == 0
    clock.now += 2.1
    assert taken(budget, "ada") == 3


def test_what_was_sent_counts_for_ten_seconds() -> None:
    clock = Clock()
    budget = after(100, clock=clock)
    clock.now += 11.1
    assert taken(budget, "ada") == 3


def test_of_one_caller_in_trouble_others_keep_something() -> None:
    """The share is of all requests; of it nobody gets more than by their own."""
    budget = after(100, "ada")
    for _ in range(10):
        budget.count_sent("bob")
    assert taken(budget, "bob") == 3
    assert taken(budget, "ada") == 11 - 3


def test_many_callers_together_get_no_more_than_a_tenth_of_all() -> None:
    budget = Budget(Clock())
    callers = [f"c{n}" for n in range(50)]
    for caller in callers:
        budget.count_sent(caller)
    assert sum(taken(budget, caller) for caller in callers) == 5


def test_a_repeat_that_one_of_the_two_refuses_takes_from_neither() -> None:
    budget = after(100, "ada")
    assert taken(budget, "bob") == 3
    for _ in range(50):
        assert not budget.take("bob")
    assert taken(budget, "ada") == 10 - 3


def test_a_repeat_is_no_first_request() -> None:
    """Were it one, repeats would earn repeats."""
    budget = after(40)
    assert taken(budget, "ada") == 4
    assert taken(budget, "ada") == 0


def test_callers_without_number_are_forgotten_and_not_the_platform() -> None:
    budget = Budget(Clock())
    for n in range(2500):
        budget.count_sent(f"c{n}")
    assert len(budget._by_caller) <= 1000
    assert sum(taken(budget, f"c{n}") for n in range(2500)) == 250


def test_callers_who_have_gone_are_forgotten_first() -> None:
    clock = Clock()
    budget = Budget(clock)
    for n in range(999):
        budget.count_sent(f"gone{n}")
    clock.now += 11.1
    assert taken(budget, "here") == 3
    for n in range(500):
        budget.count_sent(f"new{n}")
    assert not budget.take("here")


@given(st.lists(st.tuples(st.sampled_from(["sent", "take"]), st.sampled_from("ab"), st.floats(0, 2)), max_size=200))
def test_in_any_ten_seconds_repeats_are_few(steps: list[tuple[str, str, float]]) -> None:
    clock = Clock()
    budget = Budget(clock)
    sent, repeated = list[tuple[float, str]](), list[tuple[float, str]]()
    for what, caller, pause in steps:
        clock.now += pause
        if what == "sent":
            budget.count_sent(caller)
            sent.append((clock.now, caller))
        elif budget.take(caller):
            repeated.append((clock.now, caller))
            for of in ({"a", "b"}, {caller}):
                # A window counts whole seconds: it may remember one more.
                first = sum(at > clock.now - 11 and who in of for at, who in sent)
                again = sum(at > clock.now - 10 and who in of for at, who in repeated)
                assert again <= max(3, int(first * 0.1))
