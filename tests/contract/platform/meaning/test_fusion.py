"""What words and meaning come to together."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.platform.meaning.calibration import Calibration
from contract.platform.meaning.fusion import Fused, fuse, semantic

CALIBRATION = Calibration(unrelated=0.05, related=0.45)

shares = st.floats(0, 1)
candidates = st.lists(st.tuples(shares, shares), max_size=30)


def score(keyword: float, near: float) -> float:
    return fuse([keyword], [near]).scores[0]


def of_cosine(cosine: float) -> float:
    return float(semantic([cosine], CALIBRATION)[0])


@given(candidates)
def test_scores_are_from_0_to_1_and_fall_in_the_order_told(given: list[tuple[float, float]]) -> None:
    fused = fuse([keyword for keyword, _ in given], [near for _, near in given])
    ordered = [fused.scores[place] for place in fused.order]
    assert sorted(fused.order) == list(range(len(given)))
    assert ordered == sorted(ordered, reverse=True)
    assert all(0 <= score <= 1 for score in fused.scores)


@given(candidates)
def test_a_score_does_not_depend_on_what_else_is_found(given: list[tuple[float, float]]) -> None:
    fused = fuse([keyword for keyword, _ in given], [near for _, near in given])
    assert fused.scores == pytest.approx([score(keyword, near) for keyword, near in given])


@given(shares, shares, shares, shares)
def test_more_words_or_nearer_meaning_is_never_worse(one: float, two: float, near: float, nearer: float) -> None:
    assert score(min(one, two), min(near, nearer)) <= score(max(one, two), max(near, nearer)) + 1e-12


@given(shares)
def test_a_text_without_a_vector_is_taken_by_its_words(keyword: float) -> None:
    assert score(keyword, math.nan) == score(keyword, 0.0)


def test_equals_stay_in_the_order_given() -> None:
    assert fuse([0.3, 0.5, 0.3, 0.5], [0.1] * 4).order == [1, 3, 0, 2]


def test_nothing_found_is_nothing() -> None:
    assert fuse([], []) == Fused([], [])


def test_the_very_words_beat_the_nearest_meaning() -> None:
    assert score(0.7, 0.0) > score(0.0, 1.0)


def test_meaning_alone_beats_one_common_word() -> None:
    assert score(0.0, of_cosine(CALIBRATION.related)) > score(0.25, of_cosine(CALIBRATION.unrelated))


def test_unrelated_texts_have_a_low_score_by_meaning_and_related_ones_a_high_one() -> None:
    low, half, high = semantic([CALIBRATION.unrelated, CALIBRATION.related, 1.0], CALIBRATION).tolist()
    assert low < 0.15
    assert half == pytest.approx(0.5)
    assert high > 0.9


def test_scales_of_models_do_not_matter() -> None:
    narrow = Calibration(unrelated=0.7, related=0.8)
    places = np.linspace(-0.5, 1.5, 9)
    wide = semantic(list(0.05 + 0.4 * places), CALIBRATION)
    assert semantic(list(0.7 + 0.1 * places), narrow) == pytest.approx(wide)


def test_a_model_that_tells_nothing_apart_says_nothing() -> None:
    assert semantic([0.9], Calibration(0.5, 0.5)).tolist() == [0]
