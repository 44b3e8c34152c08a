"""Routes, the shapes of requests, and how a platform's JSON is read."""

import json
import string
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.operations import READS, Op
from gateway.upstream.dialect import (
    Body,
    Route,
    Upload,
    as_empty_object,
    as_json,
    as_query,
    as_upload,
    json_object,
    parsed_json,
    unchanged,
)
from gateway.upstream.platform import PLATFORM

VECTORS = Path(__file__).parents[2] / "vectors"
BAD_IDS: list[str] = json.loads((VECTORS / "bad-ids.json").read_text(encoding="utf-8"))
WITH_IDS = {op: route for op, route in PLATFORM.routes.items() if "{" in route.path}


def placeholders(route: Route) -> list[str]:
    return [name for _, name, _, _ in string.Formatter().parse(route.path) if name]


def test_arguments_that_were_given_are_sent_as_an_object() -> None:
    encode = as_json("title", "content", "tags")
    args: dict[str, Any] = {"title": None, "content": "x", "tags": [], "brain": "b"}
    assert encode(args) == Body(json={"content": "x", "tags": []})


def test_arguments_that_were_given_are_sent_as_a_query_under_their_wire_names() -> None:
    encode = as_query(q="query", top_k="top_k", sort="sort")
    assert encode({"query": "a&b=c", "top_k": 0, "sort": None}) == Body(params={"q": "a&b=c", "top_k": "0"})


def test_a_file_is_sent_as_it_is() -> None:
    upload = Upload("a.md", "text/markdown", b"x")
    assert as_upload({"upload": upload}) == Body(upload=upload)


def test_a_route_without_arguments_sends_an_empty_object() -> None:
    assert as_empty_object({"query": "x"}) == Body(json={})
    assert Route("POST", "/v1/x").encode is as_empty_object


def test_a_route_is_called_by_its_method_and_path() -> None:
    assert Route("POST", "/v1/brains/{brain}/ask").name == "POST /v1/brains/{brain}/ask"


def test_a_path_is_filled_with_every_value_as_one_segment() -> None:
    route = Route("GET", "/v1/brains/{brain}/sessions/{session_id}/recall")
    filled = route.fill({"brain": "a/b c", "session_id": "ä?#%:", "query": "unused"})
    assert filled == "/v1/brains/a%2Fb%20c/sessions/%C3%A4%3F%23%25%3A/recall"


@pytest.mark.parametrize("value", ["", ".", ".."])
def test_an_empty_or_a_dot_segment_never_reaches_a_url(value: str) -> None:
    with pytest.raises(ValueError, match="segment"):
        Route("GET", "/v1/brains/{brain}/search").fill({"brain": value})


@pytest.mark.parametrize("bad", [bad for bad in BAD_IDS if bad not in {"", ".", ".."}], ids=lambda bad: ascii(bad[:20]))
def test_no_id_changes_the_number_of_segments_of_a_url(bad: str) -> None:
    """The second lock, behind the check of ids: what an HTTP client makes of the URL is what was meant."""
    assert len(WITH_IDS) >= 10
    for route in WITH_IDS.values():
        args: dict[str, Any] = dict.fromkeys(placeholders(route), bad)
        url = httpx.URL("http://platform.example" + route.fill(args))
        assert url.host == "platform.example"
        assert url.query == url.fragment.encode() == b""
        assert len(url.raw_path.split(b"/")) == len(route.path.split("/"))


def test_the_canonical_dialect_can_do_everything() -> None:
    assert set(PLATFORM.routes) == set(Op)


@pytest.mark.parametrize("op", WITH_IDS)
def test_paths_have_no_other_placeholders_than_ids(op: Op) -> None:
    assert placeholders(WITH_IDS[op]) in (["brain"], ["brain", "session_id"])


@pytest.mark.parametrize("op", sorted(READS))
def test_what_counts_as_reading_is_a_get_or_a_recall(op: Op) -> None:
    assert PLATFORM.routes[op].method == "GET" or op is Op.SESSION_RECALL


def test_answers_pass_through_unchanged() -> None:
    answer = {"unknown": [1, {"kept": None}]}
    assert all(route.decode is unchanged for route in PLATFORM.routes.values())
    assert unchanged(answer) is answer


@pytest.mark.parametrize(("value", "expected"), [({"a": 1}, {"a": 1}), ({}, {}), ([], None), (None, None), ("x", None)])
def test_only_an_object_is_an_object(value: Any, expected: Any) -> None:
    assert json_object(value) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a": [1, 2.5, null, true, "\xc3\xa4"]}', {"a": [1, 2.5, None, True, "ä"]}),
        (b"\xef\xbb\xbf{}", {}),
        ('{"a": "\\u00e4"}', {"a": "ä"}),
        (b'"\\ud83d\\ude00"', "😀"),
        (b'"cut \\ud83d"', "cut \ufffd"),
        (b'"\\ude00 cut"', "\ufffd cut"),
        (b'"\\uD83D and \\ud83d\\ude00"', "\ufffd and 😀"),
        (b'{"\\udfff": ["\\udbff", {"a": "\\udc00b"}], "n": 1}', {"\ufffd": ["\ufffd", {"a": "\ufffdb"}], "n": 1}),
        (b'"\\\\ud83d"', "\\ud83d"),
    ],
)
def test_json_is_read_and_half_a_character_is_replaced(text: bytes | str, value: Any) -> None:
    found = parsed_json(text)
    assert found == value
    json.dumps(found, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "text",
    [b"", b" ", b"<html>", b"{", b"{}{}", b"\xff", b'"\xed\xa0\xbd"', b"[" * 100_000, b"9" * 5000, '{"a":}'],
    ids=lambda text: ascii(text[:12]),
)
def test_what_is_no_json_is_a_value_error(text: bytes | str) -> None:
    with pytest.raises(ValueError, match=r"Expecting|Extra data|can't decode|nested|digits"):
        parsed_json(text)
