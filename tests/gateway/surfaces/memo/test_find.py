"""How well a memo answers, and which memos are read to find that out. Pure functions."""

import pytest

from gateway.operations.coverage import Query
from gateway.operations.notes import Note
from gateway.operations.table import JsonObject
from gateway.surfaces.memo.find import Found, in_order, in_reach


def hit(path: str, content: str, score: float = 1.0, **component_scores: float) -> JsonObject:
    return {"path": path, "content": content, "score": score, "component_scores": component_scores}


def similarity(query: str, found: JsonObject, note: Note | None = None) -> float:
    asked = Query(query)
    (near,) = in_reach(asked, [found], 10).values()
    return near.opened(asked, note or Note(str(found["content"]))).similarity


def test_the_platforms_score_by_meaning_is_the_similarity() -> None:
    assert similarity("otters", hit("a", "Otters sleep.", 9.0, semantic=0.31)) == 0.31
    assert similarity("otters", hit("a", "Seals.", 0.1, semantic=0.93)) == 0.93


def test_where_words_are_compared_too_they_may_show_it_as_well() -> None:
    assert similarity("ops-1234", hit("a", "See OPS-1234.", 0.5, semantic=0.31, keyword=0.6)) == 1.0
    assert similarity("ops-1234", hit("a", "Seals.", 0.5, semantic=0.31, keyword=0.0)) == 0.31
    assert similarity("otters", hit("a", "Otters sleep.", 0.5, semantic=0.0, keyword=0.6)) == 1.0


def test_without_one_it_is_what_the_memo_covers_and_not_its_share_of_the_best_score() -> None:
    assert similarity("machine learning model drift", hit("a", "The coffee machine is new.", 9.0)) < 0.2
    assert similarity("coffee machines", hit("a", "The coffee machine is new.", 0.01)) == 1.0


@pytest.mark.parametrize(
    "note",
    [
        Note("Always release them.", {"tags": ["DuckDB", "OPS-1234"]}),
        Note("Always release them.", {"metadata": '{"ticket": "OPS-1234", "of": "duckdb"}'}),
        Note(f"{'Always release them. ' * 400} DuckDB, see OPS-1234."),
    ],
    ids=["tags", "metadata", "another part"],
)
def test_tags_metadata_and_parts_that_a_hit_does_not_show_count_too(note: Note) -> None:
    assert similarity("duckdb ops-1234", hit("a", "Always release them."), note) == 1.0


def test_only_what_may_be_among_the_first_is_read() -> None:
    shown_whole = [hit(f"p{n}", "Otters swim.", 9 - n) for n in range(5)]
    assert list(in_reach(Query("otters"), shown_whole, 2)) == ["p0", "p1"]
    # What the others do not show may be in their tags; but then, others came first.
    in_part = [hit("a", "Otters."), hit("b", "Otters swim."), hit("c", "Seals.")]
    assert list(in_reach(Query("otters swim"), in_part, 1)) == ["a", "b", "c"]
    told = [hit("a", "Seals.", semantic=0.9), hit("b", "Otters.", semantic=0.2), hit("c", "", semantic=0.5)]
    assert list(in_reach(Query("otters"), told, 2)) == ["a", "c"]


def test_of_equals_the_newest_comes_first() -> None:
    memos = [Found("a", Note(""), 0.5, 2), Found("b", Note(""), 0.5, 3), Found("c", Note(""), 0.9, 1)]
    assert [memo.path for memo in in_order(memos)] == ["c", "b", "a"]
