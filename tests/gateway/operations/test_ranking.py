"""Putting hits in order: by age in whatever way a time is written, by two searches at once, by words alone."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.operations.ranking import (
    blend,
    likeness,
    meaning_of,
    moment,
    places,
    salient,
    sort_hits,
)
from gateway.operations.table import JsonObject

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
hits = st.lists(st.text("abcdefgh", min_size=1, max_size=1), unique=True).map(
    lambda paths: [{"path": path, "score": 1.0 / (n + 1)} for n, path in enumerate(paths)]
)


def hit(path: str, score: Any = 1.0, **other: Any) -> JsonObject:
    return {"path": path, "score": score, **other}


def paths(found: list[JsonObject]) -> list[str]:
    return [str(one["path"]) for one in found]


def said(*contents: str) -> list[JsonObject]:
    return [{"role": "user", "content": content} for content in contents]


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-03T04:05:06.789Z",
        "2026-02-03T04:05:06.789000+00:00",
        "2026-02-03T04:05:06.789000321Z",
        "2026-02-03T04:05:06.789",
        "2026-02-03T05:05:06.789+01:00",
        "20260203T040506.789Z",
    ],
)
def test_a_time_is_read_as_any_platform_writes_it(text: str) -> None:
    assert moment(text) == datetime(2026, 2, 3, 4, 5, 6, 789_000, tzinfo=UTC)


@pytest.mark.parametrize("text", [None, "", "yesterday", 17, {}, "2026-13-01T00:00:00Z", "0001-01-01T00:00:00Z"])
def test_a_time_that_says_nothing_is_long_ago(text: object) -> None:
    assert moment(text) < moment("1970-01-01T00:00:00Z")


CHANGED = {
    "a.md": "2026-02-03T04:05:06.789Z",
    "b.md": "2026-02-03T04:05:06.790000+00:00",
    "c.md": "2026-02-03T04:05:06.790000001Z",
    "old.md": "1970-01-01T00:00:00.000Z",
}


def test_the_latest_come_first_and_what_has_no_time_last() -> None:
    found = [hit("none.md", 9), hit("old.md", 8), hit("a.md", 7), hit("b.md", 1), hit("c.md", 2)]
    assert paths(sort_hits(found, CHANGED, "recency")) == ["c.md", "b.md", "a.md", "old.md", "none.md"]


def test_the_most_relevant_come_first_and_of_equals_the_latest() -> None:
    found = [hit("old.md", 2), hit("a.md", 1), hit("none.md", 2), hit("b.md", 2), hit("c.md", 3)]
    expected = ["c.md", "b.md", "old.md", "none.md", "a.md"]
    assert paths(sort_hits(found, CHANGED, "relevance_then_recency")) == expected


def test_equals_in_everything_stay_in_the_order_of_the_platform() -> None:
    found = [hit("x.md"), hit("y.md"), hit("z.md")]
    for sort in ("recency", "relevance_then_recency"):
        assert sort_hits(found, {}, sort) == found


@pytest.mark.parametrize("score", [None, "high", {}])
def test_a_hit_without_a_score_comes_last(score: Any) -> None:
    found = [hit("x.md", score), hit("y.md", 0.1), {"path": "z.md"}]
    assert paths(sort_hits(found, {}, "relevance_then_recency"))[0] == "y.md"


@UNHURRIED
@given(hits)
def test_blending_with_nothing_keeps_the_order(found: list[JsonObject]) -> None:
    assert paths(blend(found, [], "s")) == paths(found)
    assert paths(blend([], found, "s")) == paths(found)


@UNHURRIED
@given(hits, hits)
def test_blending_loses_nothing_and_doubles_nothing(one: list[JsonObject], other: list[JsonObject]) -> None:
    both = blend(one, other, "s")
    assert sorted(paths(both)) == sorted({*paths(one), *paths(other)})
    assert [h["score"] for h in both] == sorted((h["score"] for h in both), reverse=True)


@UNHURRIED
@given(hits)
def test_blending_with_the_same_keeps_the_order(found: list[JsonObject]) -> None:
    assert paths(blend(found, found, "s")) == paths(found)


def test_ranks_count_and_not_scores_and_the_query_more_than_the_session() -> None:
    by_query, by_session = [hit("a", 0.01), hit("b", 0.001)], [hit("c", 900), hit("b", 800)]
    scores = {h["path"]: h["score"] for h in blend(by_query, by_session, "s")}
    assert scores == {
        "a": pytest.approx(1 / 61),
        "b": pytest.approx(1 / 62 + 0.5 / 62),
        "c": pytest.approx(0.5 / 61),
    }
    assert paths(blend(by_query, by_session, "s")) == ["b", "a", "c"]


@pytest.mark.parametrize("metadata", [{"session_id": "s"}, {"sessionId": "s"}])
def test_what_was_said_in_the_session_itself_rises(metadata: JsonObject) -> None:
    found = [hit("a"), hit("b"), hit("mine", metadata=metadata)]
    assert paths(blend(found, [], "s")) == ["mine", "a", "b"]
    assert paths(blend(found, [], "other")) == ["a", "b", "mine"]


@pytest.mark.parametrize("metadata", [None, "s", ["s"], {}])
def test_metadata_that_names_no_session_is_no_matter(metadata: Any) -> None:
    found = [hit("a"), hit("b", metadata=metadata)]
    assert paths(blend(found, [], "s")) == ["a", "b"]


def test_two_chunks_of_one_document_are_two_hits() -> None:
    found = [hit("a", chunk_id="a:1"), hit("a", chunk_id="a:2")]
    assert [h["chunk_id"] for h in blend(found, [], "s")] == ["a:1", "a:2"]


def test_the_telling_words_of_the_last_messages_are_salient() -> None:
    messages = said("forgotten altogether", *["please tell me more"] * 4, "I run at dawn", "Marathon in Zürich, 日本")
    assert salient(messages) == "日本 zürich marathon dawn"


def test_at_most_twelve_words_are_salient_each_once() -> None:
    words = [f"word{n:02}" for n in range(20)]
    assert salient(said(" ".join([*words, *words]))).split() == words[:-13:-1]


@pytest.mark.parametrize("messages", [[], said(""), said("I am so it is"), [{"role": "user"}]])
def test_nothing_is_salient_where_nothing_was_said(messages: list[JsonObject]) -> None:
    assert salient(messages) == ""


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        ({"component_scores": {"semantic": 0.31, "bm25": 7}}, 0.31),
        ({"component_scores": {"vector": 1.7}}, 1.0),
        ({"component_scores": {"embedding": -0.2}}, 0.0),
        ({"vector_similarity": 0.5}, 0.5),
        ({"component_scores": {"semantic": 0}}, None),
        ({"component_scores": {"semantic": float("nan")}}, None),
        ({"component_scores": {"semantic": True}}, None),
        ({"component_scores": {"semantic": "high"}}, None),
        ({"component_scores": [0.5]}, None),
        ({}, None),
    ],
)
def test_how_near_a_hit_is_in_meaning_is_what_the_platform_says(said: JsonObject, meaning: float | None) -> None:
    assert meaning_of({"path": "a", "score": 1, **said}) == meaning


def test_hits_of_one_score_share_a_place_and_without_scores_each_has_its_own() -> None:
    assert places([hit("a", 3), hit("b", 3), hit("c", 2), hit("d", 0.5), hit("e", 0.5)]) == [0, 0, 1, 2, 2]
    assert places([hit("a", None), hit("b", 0), hit("c", "high")]) == [0, 1, 2]
    assert places([]) == []


def test_likeness_is_what_is_covered_and_of_equals_the_platforms_order_stays() -> None:
    assert likeness(1.0, 0) == 1.0
    assert likeness(1.0, 0) > likeness(1.0, 1) > likeness(1.0, 99) > likeness(1.0) == likeness(1.0, 5000) > 0.85
    assert likeness(0.5, 0) < likeness(1.0)
    # Found by the platform, nobody knows why.
    assert 0.5 > likeness(0.0, 0) > likeness(0.0, 1) > 0
