"""Notes are found as well as `bench/MEANING.md` says, on the half of the questions that no setting was chosen by."""

from functools import cache

import pytest

from bench.meaning.data import Part, collections
from bench.meaning.measure import NO_ANSWER, Kinds, Way, measure
from contract.platform import query
from contract.platform.meaning.offline import OfflineEmbedder
from contract.platform.meaning.sentence import SentenceEmbedder

# Reading a thousand notes takes ten seconds of a processor, and others may use it.
pytestmark = pytest.mark.timeout(600)

NOTES, SMALL, CONVERSATION = collections()

# Kind of question -> what share is among the first ten hits at least, by words and the small model together.
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

# And so much more by words and the sentence model together.
MORE = {
    NOTES.name: {"paraphrase": 0.22, "not English, paraphrase": 0.1},
    SMALL.name: {"paraphrase": 0.1, "not English, paraphrase": 0.1},
    CONVERSATION.name: {"conversation": 0.05},
}
# The small model alone, and what the gateway comes with.
MODELS: dict[str, type[OfflineEmbedder | SentenceEmbedder]] = {"small": OfflineEmbedder, "sentences": SentenceEmbedder}


@cache
def figures(model: str, part: Part = "report") -> dict[str, dict[Way, Kinds]]:
    """For each collection by way of searching, then by kind of question."""
    every = collections()
    by_words, by_meaning = measure(every, None, part), measure(every, MODELS[model](), part)
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
    assert figures("small")[name]["both"][kind].recalls()[-1] >= FLOORS[name][kind]
    by_sentences = figures("sentences")[name]["both"][kind].recalls()[-1]
    # Of 18 questions in another language than their note, one is a twentieth.
    slack = 0.06 if kind == "other language" else 0.0
    assert by_sentences >= FLOORS[name][kind] + MORE[name].get(kind, 0.0) - slack


@pytest.mark.slow
@pytest.mark.needs_offline_model
@pytest.mark.parametrize("part", ["choose", "report"])
@pytest.mark.parametrize("name", FLOORS)
@pytest.mark.parametrize("model", MODELS)
def test_meaning_takes_nothing_from_words(model: str, part: Part, name: str) -> None:
    by_words, by_both = figures(model, part)[name]["words"], figures(model, part)[name]["both"]
    for kind in by_words.keys() & {"same words", "names and codes", "not English, same words"}:
        assert by_both[kind].recalls() == by_words[kind].recalls(), kind
    for kind in by_words.keys() & {"conversation", "paraphrase", "not English, paraphrase"}:
        assert by_both[kind].recalls()[-1] > by_words[kind].recalls()[-1], kind


@pytest.mark.slow
@pytest.mark.needs_offline_model
@pytest.mark.parametrize("name", [NOTES.name, SMALL.name])
@pytest.mark.parametrize("model", MODELS)
def test_where_nothing_answers_the_first_hit_has_a_low_score(model: str, name: str) -> None:
    assert max(figures(model)[name]["both"][NO_ANSWER].best) < 0.5


@pytest.mark.slow
@pytest.mark.needs_offline_model
@pytest.mark.parametrize(
    ("model", "name", "paraphrases", "nothing"),
    [
        ("small", NOTES.name, 0.2, 0.85),
        ("small", SMALL.name, 0.3, 0.85),
        ("sentences", NOTES.name, 0.36, 0.8),
        ("sentences", SMALL.name, 0.5, 0.85),
    ],
)
def test_an_answer_tells_notes_in_other_words_and_nothing_where_there_is_none(
    model: str, name: str, paraphrases: float, nothing: float
) -> None:
    by_both = figures(model)[name]["both"]
    told, unanswerable = by_both["paraphrase"].told, by_both[NO_ANSWER].told
    assert told["right"] + told["nearest, right"] >= paraphrases * told.total()
    assert unanswerable["nothing"] >= nothing * unanswerable.total()
