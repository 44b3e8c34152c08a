"""What goes wrong between the gateway and a MemoAI core, and what the caller is told of it."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tenacity import wait_none

from gateway.upstream import budget, retry
from gateway.upstream.dialects.memoai import MEMOAI
from tests.memoai.fake import RECORD, SEARCH, cut_off, error
from tests.memoai.world import Person, World, memo_world

CALLS: dict[str, dict[str, Any]] = {"search": {"query": "otters"}, "record": {"content": "Otters hold hands."}}
MEMO = {"id": "a", "content": "A", "episode_type": "other", "created_at": "2026-01-01T00:00:00Z"}
SECRET = "zq-what-the-core-says"

Answer = Callable[[Request], Response]


@pytest.fixture(autouse=True)
def _repeated_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as ever, however much was repeated just before, and without a wait."""
    monkeypatch.setattr(budget, "_ALWAYS", 1000)
    monkeypatch.setattr(retry, "_BACKOFF", wait_none())


@pytest.fixture
def ada(world: World, project: str) -> Person:
    # One person, who alone does not keep others from the platform.
    return world.person("ada", "acme", project)


def says(body: Any, status: int = 200, **headers: str) -> Answer:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda _request: Response(content, status, headers=headers, media_type="application/json")


def memos_of(world: World, ada: Person) -> int:
    return len(world.core.memos.get(("acme", str(ada.project)), []))


def test_a_record_whose_answer_is_lost_is_not_sent_again(world: World, ada: Person) -> None:
    world.core.afterwards.append(cut_off)
    said = ada.error("record", **CALLS["record"])
    assert said["type"] == "internal_error"
    assert said["details"]["code"] == "outcome_unknown"
    assert said["message"].endswith("Search for it before you try again.")
    assert (world.core.requests, memos_of(world, ada)) == ([RECORD], 1)


def test_a_record_that_is_lost_on_the_way_is_not_sent_again_either(world: World, ada: Person) -> None:
    world.core.instead.append(cut_off)
    assert ada.error("record", **CALLS["record"])["details"]["code"] == "outcome_unknown"
    assert (world.core.requests, memos_of(world, ada)) == ([RECORD], 0)


def test_a_search_whose_answer_is_lost_is_sent_again(world: World, ada: Person) -> None:
    world.core.afterwards.append(cut_off)
    assert ada.search("otters") == []
    assert world.core.requests == [SEARCH, SEARCH]


@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize(
    ("status", "type_", "words"),
    [
        (400, "invalid_request", "did not accept these arguments"),
        (401, "authentication_error", MEMOAI.wants),
        (403, "authentication_error", "may not do this"),
        (404, "not_found", "not found or access denied"),
        (413, "invalid_request", "more than the platform takes"),
        (422, "invalid_request", "did not accept these arguments"),
    ],
)
def test_a_refusal_is_told_in_our_words(
    world: World, ada: Person, tool: str, status: int, type_: str, words: str
) -> None:
    world.core.instead.append(lambda _request: error(status, "some_error", SECRET))
    said = ada.error(tool, **CALLS[tool])
    assert (said["type"], words in said["message"], SECRET in str(said)) == (type_, True, False)
    assert len(world.core.requests) == 1


@pytest.mark.parametrize("status", [500, 503])
def test_a_core_that_fails_leaves_the_outcome_of_a_record_open(world: World, ada: Person, status: int) -> None:
    world.core.instead.append(lambda _request: error(status, "internal_error", SECRET))
    said = ada.error("record", **CALLS["record"])
    assert (said["type"], said["details"]["code"], SECRET in str(said)) == ("internal_error", "outcome_unknown", False)
    assert world.core.requests == [RECORD]


@pytest.mark.parametrize(("status", "code"), [(500, "upstream_error"), (503, "upstream_unavailable")])
def test_a_core_that_fails_to_find_is_asked_again(world: World, ada: Person, status: int, code: str) -> None:
    world.core.instead += [lambda _request: error(status, "internal_error", SECRET)] * 3
    said = ada.error("search", **CALLS["search"])
    assert (said["type"], said["details"]["code"], SECRET in str(said)) == ("internal_error", code, False)
    assert world.core.requests == [SEARCH] * 3


def test_a_record_that_was_certainly_not_made_is_sent_again(world: World, ada: Person) -> None:
    world.core.instead.append(says({"error": {"type": "busy"}}, 503, **{"retry-after": "0"}))
    ada.record("Otters hold hands.")
    assert (world.core.requests, memos_of(world, ada)) == ([RECORD, RECORD], 1)


NO_MEMOS: dict[str, Any] = {
    "not JSON": b"otters",
    "an object": {"results": []},
    "a sentence": "nothing found",
    "null": None,
    "not objects": ["a memo"],
    "without an id": [{**MEMO, "id": None}],
    "without content": [{key: value for key, value in MEMO.items() if key != "content"}],
    "a number as a text": [{**MEMO, "episode_type": 7}],
    "too like": [{**MEMO, "similarity": 1.5}],
    "less than nothing": [{**MEMO, "similarity": -0.1}],
    "no number": b'[{"id":"a","content":"A","episode_type":"o","created_at":"x","similarity":NaN}]',
    "yes": [{**MEMO, "similarity": True}],
    "a text as a number": [{**MEMO, "similarity": "0.5"}],
    "one tag": [{**MEMO, "tags": "tag"}],
    "tags that are none": [{**MEMO, "tags": [1]}],
    "metadata that are none": [{**MEMO, "extra_metadata": []}],
    "a source that is none": [{**MEMO, "source": {}}],
    "too deep": b"[" * 100_000,
    "too large": b'["' + b"x" * (17 * 1024 * 1024) + b'"]',
}


@pytest.mark.parametrize("body", NO_MEMOS.values(), ids=NO_MEMOS)
def test_what_is_no_list_of_memos_is_an_error_of_the_platform(world: World, ada: Person, body: Any) -> None:
    world.core.instead.append(says(body))
    said = ada.error("search", **CALLS["search"])
    assert (said["type"], said["details"]["code"]) == ("internal_error", "upstream_error")


NO_RECEIPTS: dict[str, Any] = {
    "not JSON": b"recorded",
    "nothing": b"",
    "a list": [],
    "no id": {"status": "recorded"},
    "a number": {"id": 7},
    "empty": {"id": ""},
    "long": {"id": "x" * 129},
    "not to be seen": {"id": "a\u202eb"},
    "a sentence without an id": "Memo recorded successfully.",
    "too large": b'{"id": "' + b"x" * (2 * 1024 * 1024) + b'"}',
}


@pytest.mark.parametrize("body", NO_RECEIPTS.values(), ids=NO_RECEIPTS)
def test_a_receipt_that_names_no_memo_leaves_the_outcome_open(world: World, ada: Person, body: Any) -> None:
    world.core.afterwards.append(says(body))
    assert ada.error("record", **CALLS["record"])["details"]["code"] == "outcome_unknown"
    assert (world.core.requests, memos_of(world, ada)) == ([RECORD], 1)


def test_a_core_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with memo_world(tmp_path, dialect="memoai", read_seconds=0.3) as silent:
        silent.core.gate = threading.Event()
        person = silent.person("ada", "acme", "orion")
        assert person.error("search", **CALLS["search"])["details"]["code"] == "timeout"
        assert person.error("record", **CALLS["record"])["details"]["code"] == "outcome_unknown"
        silent.core.gate.set()
        assert silent.core.requests.count(RECORD) == 1


def test_a_core_that_loses_its_routes_is_told_as_such(tmp_path: Path) -> None:
    with memo_world(tmp_path) as world:
        ada = world.person("ada", "acme", "orion")
        ada.search("otters")
        world.core.instead += [lambda _request: JSONResponse({"detail": "Not Found"}, 404)] * 4
        assert ada.error("search", **CALLS["search"])["type"] == "configuration_error"
