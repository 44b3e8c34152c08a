"""How much of a query a text covers: by everyday notes, by forms of words, in other languages, and in bounded time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.operations import coverage
from gateway.operations.coverage import Query, is_same_word
from tests.gateway.surfaces.everyday import FIRST, SECOND, THIRD, Everyday
from tests.growth import is_linear

SETS = pytest.mark.parametrize("everyday", [FIRST, SECOND, THIRD], ids=["first", "second", "third"])


def covered(query: str, *texts: str) -> float:
    return Query(query).covered_by(*texts)


@SETS
def test_no_note_covers_much_of_a_query_that_none_answers(everyday: Everyday) -> None:
    most = {query: max(covered(query, note) for note in everyday.notes.values()) for query in everyday.unanswered}
    assert len(most) >= 20
    assert {query: share for query, share in most.items() if share > 0.5} == {}


@SETS
def test_the_note_that_answers_covers_the_most(everyday: Everyday) -> None:
    for query, name in everyday.answered.items():
        shares = {other: covered(query, note) for other, note in everyday.notes.items()}
        assert shares[name] == max(shares.values()) > 0, query
    shares_of_all = [covered(query, everyday.notes[name]) for query, name in everyday.answered.items()]
    assert sum(share >= 0.7 for share in shares_of_all) / len(shares_of_all) > 0.75


def test_all_of_the_telling_words_are_all_of_the_query() -> None:
    note = "Fixed DuckDB timeout by increasing pool_size to 20."
    for query in ("duckdb timeout", "What was the DuckDB timeout?", "pool size", "how did we increase the pool_size"):
        assert covered(query, note) == 1.0
    assert covered("DuckDB timeout error", note) > 0.7
    assert covered("duckdb timeout on windows", note) < 0.5
    assert covered("xylophone", note) == 0.0


def test_words_may_stand_in_any_of_the_texts() -> None:
    assert covered("otters sleep", "Otters", "", "they sleep") == 1.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(("timeout", "timeouts"), ("query", "queries"), ("plan", "planned"), ("run", "running"), ("bake", "baking")),
        *(("migrate", "migration"), ("configure", "configuration"), ("deploy", "deployments"), ("ask", "asked")),
        *(("connected", "connection"), ("box", "boxes"), ("manage", "management"), ("house", "housing")),
        *(("rechnung", "rechnungen"), ("facture", "factures"), ("reunion", "reuniones"), ("projekt", "projekte")),
    ],
)
def test_forms_of_a_word_are_one_word(one: str, other: str) -> None:
    assert is_same_word(one, other)
    assert is_same_word(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(("car", "care"), ("car", "caring"), ("plan", "plane"), ("plane", "planet"), ("party", "partner")),
        *(("police", "policy"), ("universe", "university"), ("import", "important"), ("mission", "miss")),
        *(("sum", "summer"), ("list", "listen"), ("20", "200"), ("v1", "v1s"), ("ab", "abs"), ("station", "state")),
    ],
)
def test_words_that_only_begin_alike_are_two(one: str, other: str) -> None:
    assert not is_same_word(one, other)
    assert not is_same_word(other, one)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("CAFÉ Zürich", "a cafe in Zurich"),
        ("cafe zurich", "Cafe\u0301 in Zu\u0308rich"),
        ("Где лежит паспорт?", "Паспорт лежит где всегда, в столе."),
        ("हिन्दी किताब", "यह हिन्दी किताब है"),
        ("会議室の予約", "会議室は予約が要る"),
        ("会议室在哪", "会议室在三楼"),
        ("커피 머신", "커피 머신은 주방에 있다"),
        ("กาแฟ", "เครื่องชงกาแฟ"),
        ("どこ", "どこかに"),
    ],
)
def test_words_are_found_in_every_script(query: str, text: str) -> None:
    assert covered(query, text) > 0.5
    assert covered(query, "Something else altogether.") == 0


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("コーヒーマシンの保証期間", "コーヒーマシンは毎月洗浄する"),
        ("हिन्दी किताब", "यह मेरा घर है"),
        ("咖啡店几点关门", "咖啡机需要除垢"),
    ],
)
def test_what_shares_a_word_or_single_letters_is_not_covered(query: str, text: str) -> None:
    assert covered(query, text) < 0.5


def test_small_words_count_if_there_is_nothing_else() -> None:
    assert covered("who are you", "You know who we are.") == 1.0
    assert covered("who are you", "Otters.") == 0.0
    assert covered("the otters", "The seals.") == 0.0


@pytest.mark.parametrize("query", ["", "  ", "?!", "#", "🎉"])
def test_a_query_without_words_is_covered_by_nothing(query: str) -> None:
    assert covered(query, "?! # 🎉 words") == 0.0


@given(st.text(), st.text())
@settings(deadline=None)
def test_a_share_is_between_none_and_all_and_a_text_covers_itself(query: str, text: str) -> None:
    assert 0 <= covered(query, text) <= 1
    assert covered(query, query) in (0.0, pytest.approx(1.0))


@pytest.mark.not_quick
@pytest.mark.parametrize("unit", ["a\u0301", "\u0301", "aaab ", "語", "aaa" * 20 + " "], ids=ascii)
def test_it_takes_linear_time_at_most(unit: str) -> None:
    assert is_linear(lambda size: covered(unit * size, unit * size), 2_000)


def test_however_many_words_begin_alike_few_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    def count(one: str, other: str) -> bool:
        nonlocal compared
        compared += 1
        return is_same_word(one, other)

    monkeypatch.setattr(coverage, "is_same_word", count)
    endings = "bcdefghijklmnopqrst"
    words = [f"aaa{a}{b}{c}" for a in "bcdefg" for b in "bcdefghijk" for c in endings]
    # Between two groups that differ only in their last letter: within one, `…e` and `…n` are forms of one word.
    cut = 3 * len(endings)
    query = Query(" ".join(words[:cut]))
    for _ in range(100):
        assert query.covered_by(" ".join(words[cut:])) == 0.0
    assert compared == 20_000
    assert query.covered_by(" ".join(words[:cut])) == 1.0, "equal words count whatever was compared before"


def test_which_words_are_compared_follows_from_the_text_alone() -> None:
    words = [f"aaa{a}{b}{c}" for a in "bcdefg" for b in "bcdfghijk" for c in "bcdefghijklmnopqrst"]
    query = " ".join([*words[:40], "aaarbeit"])
    assert covered(query, " ".join(["aaarbeiten", *words[40:]])) > 0.0
    assert covered(query, " ".join([*words[40:], "aaarbeiten"])) == 0.0, "by then, enough was compared"
