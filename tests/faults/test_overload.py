"""A platform in trouble, at a size for every day: `make proof` has the full minute."""

import pytest

from tests.faults.overload import FULL, Called, Course, Moody, Trouble, run


@pytest.mark.slow
def test_a_platform_in_trouble_gets_no_more_than_it_was_offered_and_is_used_again() -> None:
    part = run(full=False)
    assert part.failures == [], part.rows


def judged(trouble: Trouble, calls: list[Called], reached: int) -> list[str]:
    """The complaints about ten seconds of trouble from 100 to 110, and fifteen more."""
    moody = Moody(asked=[(105.0, "memory_search")] * reached)
    course = Course(
        FULL, trouble, calls, moody, {"memory_search": 1.0, "memory_remember": 1.0, "memory_ask": 1.0}, 100, 110, 125
    )
    return [complaint.partition(": ")[2] for complaint in course.failures()]


def steady(code: str, since: int, until: int) -> list[Called]:
    """Ten calls a second of every tool."""
    tools = ("memory_search", "memory_remember", "memory_ask")
    return [
        Called(tool, at + n / 10, code, at + n / 10) for at in range(since, until) for n in range(10) for tool in tools
    ]


UNAVAILABLE = Trouble("503", "503 Service Unavailable")
REFUSED = Trouble("429", "429 Too Many Requests")
FAILED, SERVED = steady("upstream_unavailable", 100, 110), steady("ok", 110, 125)


def test_the_judge_is_content_with_what_is_promised() -> None:
    assert judged(UNAVAILABLE, FAILED + SERVED, 330) == []
    assert judged(REFUSED, steady("rate_limited", 100, 110) + SERVED, 320) == []


def test_the_judge_sees_a_storm_of_repeats() -> None:
    assert judged(UNAVAILABLE, FAILED + SERVED, 333) == [
        "1.110 times the offered requests reached the platform, of 1.100"
    ]


def test_the_judge_allows_a_platform_that_refuses_the_budget_and_no_more() -> None:
    before = steady("ok", 95, 100)  # half as many requests as in the trouble: a twentieth more
    calls = before + steady("rate_limited", 100, 110) + SERVED
    assert judged(REFUSED, calls, 345) == []
    assert judged(REFUSED, calls, 346) == ["1.153 times the offered requests reached the platform, of 1.150"]


def test_the_judge_sees_an_answer_without_a_code() -> None:
    unclear = steady("nothing", 100, 110)
    assert judged(UNAVAILABLE, unclear + SERVED, 300) == ["callers were told ['nothing']"]


def test_the_judge_sees_a_call_that_hangs() -> None:
    late = Called("memory_ask", 101, "timeout", 120)
    assert judged(UNAVAILABLE, [*FAILED, late, *SERVED], 300) == ["a call failed after 19.0 s only"]


def test_the_judge_sees_a_late_return() -> None:
    late = steady("upstream_unavailable", 110, 121) + steady("ok", 121, 125)
    assert judged(UNAVAILABLE, FAILED + late, 300) == [
        "first served 11.0 s after its return",
        "served as before 11.0 s after its return",
    ]


def test_the_judge_sees_a_few_that_still_fail() -> None:
    late = [Called("memory_ask", 121 + n / 10, "upstream_unavailable", 121 + n / 10) for n in range(8)]
    assert judged(UNAVAILABLE, FAILED + SERVED + late, 300) == ["served as before 11.8 s after its return"]


def test_the_judge_sees_that_who_refuses_was_left_alone() -> None:
    assert judged(REFUSED, steady("upstream_unavailable", 100, 110) + SERVED, 100) == [
        "only 0.33 of the offered requests were tried: left alone",
        "who was refused was told ['upstream_unavailable']",
    ]
