"""How well questions are answered without a model: the data is whole, and nothing of what was reached is lost."""

from collections import Counter

import pytest

from bench.answers import __main__ as answers
from bench.answers.__main__ import Outcome, judged, played
from bench.processes import ROOT


def test_the_data_has_what_it_should() -> None:
    notes, questions, told = (answers._rows(f"{name}.yaml") for name in ("notes", "questions", "told"))
    assert len({note["path"] for note in notes}) == len(notes) >= 50
    assert len({row["ask"] for row in questions}) == len(questions) >= 60
    assert len(told) == 40
    texts = "\n".join(note["text"] for note in notes)
    # What no note says, no answer can be asked to say.
    assert [part for row in questions for part in row.get("says", ()) if part.split("|")[0] not in texts] == []
    assert [row["tell"] for row in told if row["says"] not in row["tell"]] == []


@pytest.mark.parametrize(
    ("row", "answer", "is_right"),
    [
        ({"says": ["a", "b|c"]}, "a and c", True),
        ({"says": ["a", "b|c"]}, "a alone", False),
        ({"says": ["a"], "not": ["d"]}, "a and d", False),
        ({"nothing": True}, answers.NOTHING, True),
        ({"nothing": True}, "a", False),
    ],
)
def test_an_answer_is_judged_by_what_it_says_and_what_it_does_not(
    row: dict[str, object], answer: str, is_right: bool
) -> None:
    assert answers._is_right(row, answer) is is_right


def test_figures_are_told_for_each_half() -> None:
    outcomes = [Outcome("answered", n % 2 == 1, "q", n < 3, "a") for n in range(4)]
    told = answers.figures({"before": outcomes[:2], "now": outcomes}).splitlines()
    assert told[0] == "|  | reported: before | reported: now | for choosing: before | for choosing: now |"
    assert told[-1] == "| answered | 1 of 1 | 1 of 2 | 1 of 1 | 2 of 2 |"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["words", "meaning"])
def test_no_answer_that_was_reached_is_lost(method: answers.Method) -> None:
    right = Counter(outcome.what for outcome in judged(played(ROOT, method)) if outcome.is_right)
    assert right["questions answered"] >= 72
    # By meaning, some note is always near.
    assert right["questions without an answer"] >= (22 if method == "words" else 16)
    assert right["facts told, found by search"] >= 38
    assert right["facts told, found by recall in the session"] >= 38
    assert right["facts told, answered by ask"] >= 35
