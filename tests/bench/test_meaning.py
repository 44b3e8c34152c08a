"""Notes are found as well as `bench/MEANING.md` says, on the half of the questions that no setting was chosen by."""

from functools import cache

import pytest

from bench.meaning.data import Part, collections
from bench.meaning.measure import NO_ANSWER, Figures, measure
from contract.platform import query
from contract.platform.meaning.offline import OfflineEmbedder

# Kind of question -> what share is among the first ten hits at least, by words and meaning together.
FLOORS = {
    "conversation": 0.36,
    "names and codes": 1.0,
    "not English, paraphrase": 0.85,
    "not English, same words": 1.0,
    "other language": 0.33,
    "paraphrase": 0.55,
    "same words": 1.0,
}


@cache
def figures(part: Part = "report") -> dict[str, dict[str, Figures]]:
    """By way of searching (`words`, `meaning`, `both`), then by kind of question."""
    made: dict[str, dict[str, Figures]] = {}
    for collection in collections():
        for way, of_kind in measure(collection, [OfflineEmbedder()], part).items():
            made.setdefault(way.partition(",")[0], {}).update(of_kind)
    return made


def test_there_are_enough_notes_and_questions() -> None:
    notes, conversation = collections()
    assert (len(notes.notes) >= 150, len(notes.questions) >= 150) == (True, True)
    assert (len(conversation.notes) >= 600, len(conversation.questions) >= 60) == (True, True)


def test_a_paraphrase_shares_no_telling_word_with_its_note() -> None:
    notes, _ = collections()
    shared = [
        question.text
        for question in notes.questions
        if question.kind == "paraphrase"
        for name in question.answers
        if {key for key, _, _ in query.lookups(question.text)} & {key for key, _, _ in query.lookups(notes.notes[name])}
    ]
    assert shared == []


@pytest.mark.slow
@pytest.mark.needs_offline_model
@pytest.mark.parametrize(("kind", "floor"), FLOORS.items())
def test_recall_is_not_below_what_is_written(kind: str, floor: float) -> None:
    assert figures()["both"][kind].recalls()[-1] >= floor


@pytest.mark.slow
@pytest.mark.needs_offline_model
@pytest.mark.parametrize("part", ["choose", "report"])
def test_meaning_takes_nothing_from_words(part: Part) -> None:
    by_words, by_both = figures(part)["words"], figures(part)["both"]
    for kind in ("same words", "names and codes", "not English, same words"):
        assert by_both[kind].recalls() == by_words[kind].recalls(), kind
    for kind in ("conversation", "paraphrase", "not English, paraphrase"):
        assert by_both[kind].recalls()[-1] > by_words[kind].recalls()[-1], kind


@pytest.mark.slow
@pytest.mark.needs_offline_model
def test_where_nothing_answers_the_first_hit_has_a_low_score() -> None:
    assert max(figures()["both"][NO_ANSWER].best) < 0.5
