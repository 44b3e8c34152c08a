"""Routes, the shapes of requests, and how a platform's JSON is read."""

import json
import string
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest

from gateway.config.settings import Settings
from gateway.operations.json_text import parse_json
from gateway.operations.table import Op, Upload
from gateway.upstream.dialects.catalog import DIALECTS
from gateway.upstream.dialects.daemon import DAEMON
from gateway.upstream.dialects.dialect import (
    Body,
    Dialect,
    Route,
    as_content,
    as_empty_object,
    as_json,
    as_query,
    as_upload,
    json_object,
    unchanged,
)
from gateway.upstream.dialects.memoai import MEMOAI
from gateway.upstream.dialects.platform import PLATFORM
from gateway.upstream.dialects.store import STORE

VECTORS = Path(__file__).parents[3] / "vectors"
BAD_IDS: list[str] = json.loads((VECTORS / "bad-ids.json").read_text(encoding="utf-8"))
WITH_IDS = [route for dialect in DIALECTS.values() for route in dialect.routes.values() if "{" in route.path]
# What platforms of other kinds need or have, and what is the gateway's own to do.
NOT_CANONICAL = {Op.CREATE_BARE_BRAIN, Op.INGEST_TEXT, Op.EXTRACT, Op.REFLECT, *MEMOAI.routes, Op.FETCH_PAGE}
WITH_BRAINS = [dialect for dialect in DIALECTS.values() if not dialect.without_brains]


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
    for route in WITH_IDS:
        args: dict[str, Any] = dict.fromkeys(placeholders(route), bad)
        url = httpx.URL("http://platform.example" + route.fill(args))
        assert url.host == "platform.example"
        assert url.query == url.fragment.encode() == b""
        assert len(url.raw_path.split(b"/")) == len(route.path.split("/"))


def test_a_documents_bytes_are_sent_as_they_are_and_its_path_in_the_query() -> None:
    assert as_content({"path": "a/b.md", "body": b"\xff"}) == Body(params={"path": "a/b.md"}, content=b"\xff")


def test_the_canonical_dialect_can_do_everything_that_platforms_do() -> None:
    assert set(PLATFORM.routes) == set(Op) - NOT_CANONICAL


def test_every_operation_but_our_own_has_a_route_in_some_dialect() -> None:
    assert set(PLATFORM.routes) | set(DAEMON.routes) | set(MEMOAI.routes) == set(Op) - {Op.FETCH_PAGE}


@pytest.mark.parametrize("dialect", WITH_BRAINS, ids=lambda dialect: dialect.name)
def test_every_dialect_with_brains_keeps_documents_by_the_same_routes(dialect: Dialect) -> None:
    assert {op: dialect.routes[op] for op in STORE} == dict(STORE)


def test_a_dialect_without_brains_has_none_in_any_of_its_routes() -> None:
    assert [dialect.name for dialect in DIALECTS.values() if dialect.without_brains] == ["memoai"]
    assert [placeholders(route) for route in MEMOAI.routes.values()] == [[], []]


@pytest.mark.parametrize("route", WITH_IDS, ids=lambda route: route.name)
def test_paths_have_no_other_placeholders_than_ids(route: Route) -> None:
    assert placeholders(route) in (["brain"], ["brain", "session_id"])


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_what_is_got_is_read_and_what_is_put_is_not(dialect: Dialect) -> None:
    for op, route in dialect.routes.items():
        assert op.reads or route.method != "GET"
        assert not op.reads or route.method in {"GET", "POST"}


def test_a_batch_is_a_list_of_writes_with_their_bytes() -> None:
    args = {"writes": {"a.md": b"# A", "b/c.md": b"\xff"}, "reason": "extract"}
    assert STORE[Op.BATCH_WRITE].encode(args).json == {
        "reason": "extract",
        "ops": [
            {"type": "write", "path": "a.md", "content_base64": "IyBB"},
            {"type": "write", "path": "b/c.md", "content_base64": "/w=="},
        ],
    }


@pytest.mark.parametrize(("args", "directory"), [({}, ""), ({"dir": "memory/agent"}, "memory/agent")])
def test_a_listing_goes_all_the_way_down(args: dict[str, str], directory: str) -> None:
    assert STORE[Op.LIST_DOCUMENTS].encode(args) == Body(params={"dir": directory, "recursive": "true"})


def test_answers_pass_through_unchanged() -> None:
    answer = {"unknown": [1, {"kept": None}]}
    assert all(route.decode is unchanged for route in PLATFORM.routes.values())
    assert unchanged(answer, {"query": "x"}) is answer


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
    found = parse_json(text)
    assert found == value
    json.dumps(found, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "text",
    [b"", b" ", b"<html>", b"{", b"{}{}", b"\xff", b'"\xed\xa0\xbd"', b"[" * 100_000, b"9" * 5000, '{"a":}'],
    ids=lambda text: ascii(text[:12]),
)
def test_what_is_no_json_is_a_value_error(text: bytes | str) -> None:
    with pytest.raises(ValueError, match=r"Expecting|Extra data|can't decode|nested|is not JSON"):
        parse_json(text)


@pytest.mark.parametrize("text", ["1e999", "-1e999", '{"score": 1e400}', "[[1E999]]"])
def test_a_number_that_is_too_large_to_pass_on_is_no_json(text: str) -> None:
    with pytest.raises(ValueError, match="is not JSON"):
        parse_json(text)


def test_the_setting_knows_every_dialect() -> None:
    assert get_args(Settings.model_fields["dialect"].annotation) == ("auto", *DIALECTS)


def test_arguments_may_have_another_name_in_json() -> None:
    encode = as_json("top_k", q="query")
    assert encode({"query": "otters", "top_k": 3, "scope": "all"}).json == {"q": "otters", "top_k": 3}
    assert encode({"query": "otters"}).json == {"q": "otters"}
