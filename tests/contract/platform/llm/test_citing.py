"""Marks of sources: never shown, and each points at the claim that it is about."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.platform.llm.citing import MARK, Cited, Marks, Said

CASES = {
    "behind a sentence": ("The shop opens at nine [2].", "The shop opens at nine.", {2: "The shop opens at nine"}),
    "behind its full stop": (
        "It opens at nine. [1] It rains.",
        "It opens at nine. It rains.",
        {1: "It opens at nine."},
    ),
    "two sentences": (
        "It opens at nine [1]. It shuts at six [2].",
        "It opens at nine. It shuts at six.",
        {1: "It opens at nine", 2: "It shuts at six"},
    ),
    "two parts of a sentence": (
        "It opens at nine [1] and shuts at six [2].",
        "It opens at nine and shuts at six.",
        {1: "It opens at nine", 2: "and shuts at six"},
    ),
    "several for one": ("Nine [1][3].", "Nine.", {1: "Nine", 3: "Nine"}),
    "listed": ("Nine [1, 3].", "Nine.", {1: "Nine", 3: "Nine"}),
    "a range": ("Nine [1-3].", "Nine.", {1: "Nine", 2: "Nine", 3: "Nine"}),
    "other brackets": ("Nine【1】.", "Nine.", {1: "Nine"}),
    "a footnote": ("Nine [^1].", "Nine.", {1: "Nine"}),
    "a named one": ("Nine [note 1].", "Nine.", {1: "Nine"}),
    "in front": (
        "[1] It opens at nine.\n[2] It shuts at six.",
        "It opens at nine.\n It shuts at six.",
        {1: "It opens at nine.", 2: "It shuts at six."},
    ),
    "a list": ("- nine [1]\n- six [2]", "- nine\n- six", {1: "nine", 2: "six"}),
    "in code": ("Use `rows[1]` [2].", "Use `rows[1]`.", {2: "Use `rows[1]`"}),
    "no mark": ("See [the page] or [2024].", "See [the page] or [2024].", {}),
    "never closed": ("Nine [1", "Nine [1", {}),
    "nothing to cite": ("[1]", "", {}),
    "Japanese": ("店は九時に開く。[1]雨。", "店は九時に開く。雨。", {1: "店は九時に開く。"}),
}


def heard(pieces: list[str]) -> tuple[str, list[Cited]]:
    marks = Marks()
    events = [event for piece in pieces for event in marks.feed(piece)] + list(marks.finish())
    said = "".join(event.text for event in events if isinstance(event, Said))
    assert said == marks.answer
    return said, [event for event in events if isinstance(event, Cited)]


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("case", CASES)
def test_a_mark_is_taken_out_and_cites_its_claim_however_the_answer_is_cut(case: str, cut: int) -> None:
    text, said, claims = CASES[case]
    answer, cited = heard([text[at : at + cut] for at in range(0, len(text), cut)])
    assert answer == said
    assert {one.number: answer[one.start : one.end] for one in cited} == claims


@given(st.lists(st.text("ab1[] .,`\n【】日", max_size=6), max_size=12))
def test_the_laws_hold_for_any_pieces(pieces: list[str]) -> None:
    answer, cited = heard(pieces)
    assert all(0 <= one.start < one.end <= len(answer) for one in cited)
    if "`" not in answer:
        assert heard(["".join(pieces)]) == (answer, cited)
        # What is left of two marks that stood in one another may look like one.
        assert not MARK.search(answer) or MARK.search(MARK.sub("", "".join(pieces)))
