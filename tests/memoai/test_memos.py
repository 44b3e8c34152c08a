"""Both tools of `memo` in front of a MemoAI core, over HTTP: what is sent, what comes back, and whose it is."""

import json
from typing import Any
from uuid import UUID

import pytest
from starlette.responses import JSONResponse

from gateway.upstream.dialects.memoai import MEMOAI
from tests.memoai.fake import RECORD, SEARCH
from tests.memoai.world import World
from tests.served import Era

TIMEOUT = "Fixed DuckDB timeout by increasing pool_size to 20. This solved the connection leak issue."
METADATA = {"file": "src/core/store.py", "severity": "high"}


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_memo_is_recorded_by_the_core_and_found_by_its_meaning(world: World, project: str, era: Era) -> None:
    ada = world.person("ada", "acme", project).but(era=era)
    memo_id = ada.record(TIMEOUT, source="manual", metadata=METADATA)
    ada.record("Lunch is at noon.")
    (memo,) = ada.search("the database hangs", limit=5)

    assert UUID(memo_id)
    assert 0 < memo.pop("similarity") < 1
    assert memo == {
        "id": memo_id,
        "content": TIMEOUT,
        "episode_type": "other",
        "created_at": memo["created_at"],
        "source": "manual",
        "tags": [],
        "extra_metadata": METADATA,
        "gardener": {"queued": True},
    }
    assert world.core.requests == [RECORD, RECORD, SEARCH], "one request for each call"
    assert world.core.bodies == [
        {"content": TIMEOUT, "source": "manual", "metadata": METADATA},
        {"content": "Lunch is at noon.", "metadata": {}},
        {"query": "the database hangs", "limit": 5},
    ]


def test_the_core_is_told_who_calls_in_a_signed_token(world: World, project: str) -> None:
    ada = world.person("ada", "acme", project, email="ada@example.com", client_id="editor")
    ada.search("anything")
    (claims,) = world.core.claims
    told = {name: claims[name] for name in ("user_id", "org_id", "project_id", "email", "sub")}
    assert told == {
        "user_id": "ada",
        "sub": "ada",
        "org_id": "acme",
        "project_id": project,
        "email": "ada@example.com",
    }


@pytest.mark.parametrize(
    "claims", [{}, {"email": "ada@example.com", "email_verified": False}, {"email": ["a@b"]}, {"email": "ada"}]
)
def test_an_address_that_nobody_has_verified_is_not_told(world: World, project: str, claims: dict[str, Any]) -> None:
    world.person("ada", "acme", project, **claims).search("anything")
    assert "email" not in world.core.claims[0]


def test_what_is_not_found_is_an_empty_list(world: World, project: str) -> None:
    assert world.person("ada", "acme", project).text("search", query="anything") == "[]"


def test_memos_come_back_as_the_core_has_them(world: World, project: str) -> None:
    """In its order, with every field of its own, null where it says null."""
    memos = [
        {"id": "a", "content": "A", "episode_type": "guideline", "created_at": "2026-01-01T00:00:00Z"},
        {
            "id": "b",
            "content": "B \u202e \U0001f40e",
            "episode_type": "bug_fix",
            "created_at": "yesterday",
            "similarity": 1,
            "source": None,
            "tags": None,
            "extra_metadata": None,
            "entities": [{"name": "DuckDB"}],
        },
    ]
    world.core.instead.append(lambda _request: JSONResponse(memos))
    said = world.person("ada", "acme", project).text("search", query="anything")
    assert said == json.dumps(memos, ensure_ascii=False, indent=2)


def test_no_more_memos_are_shown_than_were_asked_for(world: World, project: str) -> None:
    memo = {"id": "a", "content": "A", "episode_type": "other", "created_at": "2026-01-01T00:00:00Z"}
    world.core.instead.append(lambda _request: JSONResponse([{**memo, "id": str(n)} for n in range(300)]))
    found = world.person("ada", "acme", project).search("anything", limit=3)
    assert [memo["id"] for memo in found] == ["0", "1", "2"]


@pytest.mark.parametrize("said", ["Memo recorded successfully: 123e4567-e89b-12d3-a456-426614174000", None])
def test_the_id_is_taken_from_a_record_or_from_a_sentence(world: World, project: str, said: str | None) -> None:
    answer: Any = said or {"id": "123e4567-e89b-12d3-a456-426614174000", "more": 1}
    world.core.instead.append(lambda _request: JSONResponse(answer, 201))
    assert world.person("ada", "acme", project).record("x") == "123e4567-e89b-12d3-a456-426614174000"


def test_organizations_and_projects_see_nothing_of_each_other(world: World, project: str) -> None:
    other = f"{project}-2"
    people = {
        (org, name): world.person(f"{org}-{name}", org, name) for org in ("acme", "globex") for name in (project, other)
    }
    ids = {whose: person.record(f"The codename of {' '.join(whose)} is kestrel.") for whose, person in people.items()}
    for whose, person in people.items():
        assert [memo["id"] for memo in person.search("codename kestrel")] == [ids[whose]]
    both = world.person("eve", "acme", project, other)
    assert [memo["id"] for memo in both.but(project=other).search("codename")] == [ids["acme", other]]
    colleague = world.person("bob", "acme", project)
    assert [memo["id"] for memo in colleague.search("codename")] == [ids["acme", project]]


def test_a_project_that_is_not_the_callers_is_not_found_and_nothing_is_sent(world: World, project: str) -> None:
    ada = world.person("ada", "acme", project).but(project="another")
    for tool, arguments in (("search", {"query": "x"}), ("record", {"content": "x"})):
        said = ada.error(tool, **arguments)
        assert said == {"type": "not_found", "message": "Project 'another' not found or access denied"}
    assert world.core.requests == []


def test_a_project_that_the_core_does_not_have_is_not_found(world: World, project: str) -> None:
    world.core.projects = {"acme": {"orion"}}
    ada = world.person("ada", "acme", project)
    for tool, arguments in (("search", {"query": "x"}), ("record", {"content": "x"})):
        said = ada.error(tool, **arguments)
        assert said == {"type": "not_found", "message": f"Project '{project}' not found or access denied"}


def test_a_call_without_a_project_is_a_configuration_error(world: World) -> None:
    said = world.person("ada", "acme").error("search", query="x")
    assert said["type"] == "configuration_error"
    assert said["message"].startswith("MEMOAI_PROJECT header is required.")
    assert world.core.requests == []


def test_a_caller_without_an_organization_is_refused_before_anything_is_sent(world: World, project: str) -> None:
    for tool, arguments in (("search", {"query": "x"}), ("record", {"content": "x"})):
        said = world.person("ada", None, project).error(tool, **arguments)
        assert said["type"] == "authentication_error"
        assert "your token names none" in said["message"]
    assert world.core.requests == []


@pytest.mark.parametrize("at", ["/memo/mcp/notes", "/mcp/notes"])
def test_a_brain_in_the_url_is_refused_where_there_are_none(world: World, project: str, at: str) -> None:
    ada = world.person("ada", "acme", project).but(at=at)
    if at.startswith("/memo"):
        said = ada.error("search", query="x")
        assert said["type"] == "invalid_request"
        assert said["message"].startswith("This platform has memos and no brains.")
    else:
        said = ada.call("memory_search", query="x")["structuredContent"]
        assert (said["code"], said["message"]) == ("not_implemented", MEMOAI.without_brains)
    assert world.core.requests == []


@pytest.mark.parametrize(
    ("surface", "tool", "arguments"),
    [
        ("memory", "memory_search", {"query": "x", "brain": "b"}),
        ("memory", "memory_remember", {"content": "x", "brain": "b"}),
        ("memory", "memory_ask", {"query": "x", "brain": "b"}),
        ("memory", "memory_list_brains", {}),
        ("memory", "memory_create_brain", {"name": "x"}),
        ("memory", "memory_ingest_url", {"url": "http://93.184.216.34/", "brain": "b"}),
        ("team", "memory_recall", {}),
        ("kv", "jettson_memory_put", {"key": "k", "value": "v"}),
    ],
)
def test_other_surfaces_say_that_they_are_not_served(
    world: World, project: str, surface: str, tool: str, arguments: dict[str, Any]
) -> None:
    in_url = "" if surface == "memory" else "/b"
    result = world.person("ada", "acme", project).but(at=f"/{surface}/mcp{in_url}").call(tool, **arguments)
    assert result["isError"]
    assert MEMOAI.without_brains.rstrip(".") in result["content"][0]["text"]
    assert world.core.requests == [], "that is known"
