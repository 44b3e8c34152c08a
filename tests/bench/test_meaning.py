"""Notes are found as well as `bench/MEANING.md` says, on the half of the questions that no setting was chosen by."""

from functools import cache

import pytest

from bench.meaning.data import Part, collections
from bench.meaning.measure import NO_ANSWER, Kinds, Way, measure
from contract.platform import query
from contract.platform.meaning.offline import OfflineEmbedder

NOTES, SMALL, CONVERSATION = collections()

# Kind of question -> what share is among the first ten hits at least, by words and meaning together.
FLOORS = {
    NOTES.name: {
        "names and codes": 1.0,
        "not English, paraphrase": 0.85,
        "not English, same words": 1.0,
        "other language": 0.33,
        "paraphrase": 0.65,
        "same words": 1.0,
    },
    SMALL.name: {
        "names and codes": 1.0,
        "not English, paraphrase": 0.85,
        "not English, same words": 1.0,
        "other language": 0.45,
        "paraphrase": 0.85,
        "same words": 1.0,
    },
    CONVERSATION.name: {"conversation": 0.45},
}


@cache
def figures(part: Part = "report") -> dict[str, dict[Way, Kinds]]:
    """For each collection by way of searching, then by kind of question."""
    every = collections()
    by_words, by_meaning = measure(every, None, part), measure(every, OfflineEmbedder(), part)
    return {name: {**by_words[name], **by_meaning[name]} for name in by_words}


def test_there_are_enough_notes_and_questions() -> None:
    (notes,), (turns,) = NOTES.brains, CONVERSATION.brains
    assert (len(notes) >= 150, len(NOTES.questions) >= 150) == (True, True)
    assert (len(turns) >= 600, len(CONVERSATION.questions) >= 60) == (True, True)


def test_the_small_brains_have_all_notes_between_them() -> None:
    (notes,) = NOTES.brains
    assert {name: text for brain in SMALL.brains for name, text in brain.items()} == notes
    assert {len(brain) for brain in SMALL.brains} <= {*range(20, 31)}


def test_a_paraphrase_shares_no_telling_word_with_its_note() -> None:
    (notes,) = NOTES.brains
    shared = [
        question.text
        for question in NOTES.questions
        if question.kind == "paraphrase"
        for name in question.answers
        if {key for key, _, _ in query.lookups(question.text)} & {key for key, _, _ in query.lookups(notes[name])}
    ]
    assert shared == []


@pytest.mark.slow
@pytest.mark.needs_offline_model
@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, floors in FLOORS.items() for kind in floors])
def test_recall_is_not_below_what_is_written(name: str, kind: str) -> None:
    assert figures()[name]["both"][kind].recalls()[-1] >= FLOORS[name][kind]


@pytest.mark.slow
@pytest.mark.needs_offline_model
@pytest.mark.parametrize("part", ["choose", "report"])
@pytest.mark.parametrize("name", FLOORS)
def test_meaning_takes_nothing_from_words(part: Part, name: str) -> None:
    by_words, by_both = figures(part)[name]["words"], figures(part)[name]["both"]
    for kind in by_words.keys() & {"same words", "names and codes", "not English, same words"}:
        assert by_both[kind].recalls() == by_words[kind].recalls(), kind
    for kind in by_words.keys() & {"conversation", "paraphrase", "not English, paraphrase"}:
        assert by_both[kind].recalls()[-1] > by_words[kind].recalls()[-1], kind


@pytest.mark.slow
@pytest.mark.needs_offline_model
@pytest.mark.parametrize("name", [NOTES.name, SMALL.name])
def test_where_nothing_answers_the_first_hit_has_a_low_score(name: str) -> None:
    assert max(figures()[name]["both"][NO_ANSWER].best) < 0.5


@pytest.mark.slow
@pytest.mark.needs_offline_model
@pytest.mark.parametrize(("name", "paraphrases", "nothing"), [(NOTES.name, 0.2, 0.95), (SMALL.name, 0.3, 0.85)])
def test_an_answer_tells_notes_in_other_words_and_nothing_where_there_is_none(
    name: str, paraphrases: float, nothing: float
) -> None:
    by_both = figures()[name]["both"]
    told, unanswerable = by_both["paraphrase"].told, by_both[NO_ANSWER].told
    assert told["right"] + told["nearest, right"] >= paraphrases * told.total()
    assert unanswerable["nothing"] >= nothing * unanswerable.total()
