"""From the spellings of platforms to the canonical one."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.operations.errors import GatewayError
from gateway.operations.json_text import parse_json
from gateway.upstream.dialects.spelling import number, objects, snake, snake_keys, text

# A busy machine is no failure.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
WORDS = st.lists(st.from_regex(r"[a-z][a-z0-9]{1,7}", fullmatch=True), min_size=1, max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("chunkId", "chunk_id"),
        ("DocumentID", "document_id"),
        ("TookMs", "took_ms"),
        ("took_ms", "took_ms"),
        ("Path", "path"),
        ("bm25Rank", "bm25_rank"),
        ("HTTPStatus", "http_status"),
        ("shouldRecordEpisode", "should_record_episode"),
        ("index_entry", "index_entry"),
        ("URL", "url"),
        ("", ""),
        ("größeInKB", "größe_in_kb"),
    ],
)
def test_a_key_is_spelled_in_snake_case(theirs: str, ours: str) -> None:
    assert snake(theirs) == ours


@UNHURRIED
@given(WORDS)
def test_every_common_spelling_of_some_words_becomes_the_same(words: list[str]) -> None:
    wanted = "_".join(words)
    pascal = "".join(word.capitalize() for word in words)
    assert snake(wanted) == wanted
    assert snake(pascal) == wanted
    assert snake(pascal[0].lower() + pascal[1:]) == wanted


@UNHURRIED
@given(st.text(max_size=30))
def test_what_is_in_snake_case_stays_as_it_is(key: str) -> None:
    once = snake(key)
    assert snake(once) == once
    assert once.replace("_", "") == key.lower().replace("_", "")


@UNHURRIED
@given(st.dictionaries(st.text(max_size=8), JSON, max_size=5))
def test_what_keys_hold_is_left_alone(answer: dict[str, Any]) -> None:
    found = snake_keys(answer)
    assert found.keys() == {snake(key) for key in answer}
    for key, value in found.items():
        assert any(snake(theirs) == key and value is held for theirs, held in answer.items())


@pytest.mark.parametrize("keys", [("brain_id", "brainId"), ("brainId", "brain_id"), ("BrainID", "brain_id")])
def test_of_two_spellings_the_canonical_one_is_meant(keys: tuple[str, str]) -> None:
    assert snake_keys({key: key for key in keys}) == {"brain_id": "brain_id"}


def test_keys_further_down_are_a_callers_own() -> None:
    answer = {"metaData": {"userKey": 1, "Nested": {"ID": 2}}, "List": [{"aB": 1}]}
    assert snake_keys(answer) == {"meta_data": {"userKey": 1, "Nested": {"ID": 2}}, "list": [{"aB": 1}]}


@pytest.mark.parametrize("answer", [None, [], "x", 7, True, [{}]])
def test_what_is_no_object_is_an_error_of_the_platform(answer: Any) -> None:
    with pytest.raises(GatewayError, match="upstream_error"):
        snake_keys(answer)


def test_null_is_an_empty_list_and_objects_in_a_list_are_spelled_too() -> None:
    assert objects({"chunks": None}, "chunks") == []
    assert objects({"chunks": []}, "chunks") == []
    assert objects({"chunks": [{"chunkId": 1}, {}]}, "chunks") == [{"chunk_id": 1}, {}]


@pytest.mark.parametrize(
    "held", [{}, {"chunks": {}}, {"chunks": "x"}, {"chunks": 0}, {"chunks": [1]}, {"chunks": [[]]}]
)
def test_a_list_that_is_missing_or_none_is_an_error_of_the_platform(held: dict[str, Any]) -> None:
    with pytest.raises(GatewayError, match="upstream_error"):
        objects(held, "chunks")


def test_a_text_is_a_text_or_nothing() -> None:
    assert text({"path": "a"}, "path") == "a"
    assert text({"path": ""}, "path") == ""
    assert text({"path": None}, "path") is None
    assert text({}, "path") is None


@pytest.mark.parametrize("held", [0, 1, False, [], {}, ["a"]])
def test_something_else_than_a_text_is_an_error_of_the_platform(held: Any) -> None:
    with pytest.raises(GatewayError, match="upstream_error"):
        text({"path": held}, "path")


def test_a_number_is_a_number_or_zero() -> None:
    assert [number({"score": held}, "score") for held in (0.5, 3, 0, -1.5, None)] == [0.5, 3, 0, -1.5, 0]
    for held in ("NaN", "Infinity", "-Infinity"):
        with pytest.raises(ValueError, match="is not JSON"):
            parse_json(f'{{"score": {held}}}')
    assert number({"score": 10**400}, "score") == 10**400
    assert number({}, "score") == 0


@pytest.mark.parametrize("held", ["0.5", True, [], {}, ""])
def test_something_else_than_a_number_is_an_error_of_the_platform(held: Any) -> None:
    with pytest.raises(GatewayError, match="upstream_error"):
        number({"score": held}, "score")


def nested(depth: int, inner: str, kind: str) -> str:
    return "[" * depth + inner + "]" * depth if kind == "list" else '{"a":' * depth + (inner or "1") + "}" * depth


@pytest.mark.parametrize("kind", ["list", "object"])
@pytest.mark.parametrize("inner", ["", '"\\ud83d"', '"[[[["'])
@pytest.mark.parametrize("encoded", [True, False])
def test_json_is_read_to_a_depth_that_can_be_written_again(kind: str, inner: str, encoded: bool) -> None:
    for depth, is_read in (
        (1, True),
        (99, True),
        (100, True),
        (101, False),
        (450, False),
        (700, False),
        (50_000, False),
    ):
        text = nested(depth, inner, kind)
        try:
            parse_json(text.encode() if encoded else text)
        except ValueError:
            assert not is_read, depth
        else:
            assert is_read, depth


def test_brackets_in_a_text_are_no_depth() -> None:
    assert parse_json('{"a": "' + "[{" * 1000 + '"}') == {"a": "[{" * 1000}
    assert parse_json(json.dumps([[n] for n in range(1000)])) == [[n] for n in range(1000)]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"hello", b"[1] [2]"])
def test_what_is_no_json_is_not_read(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_json(body)
