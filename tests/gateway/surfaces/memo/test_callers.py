"""Who may do what with memos where callers are many: their projects, their scopes, and those who are not let in."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.http.auth.gateways import HTTP
from tests.gateway.http.auth.tokens import kept
from tests.gateway.surfaces.memo.memos import SAID
from tests.served import Era, Served, messages_of, raw_call, serving

ERAS: tuple[Era, ...] = ("modern", "legacy")
SEARCH, RECORD = "memoai_memo_search", "memoai_memo_record"
AUTHENTICATION = {"type": "authentication_error", "message": "Invalid or expired authentication token"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data = tmp_path_factory.mktemp("hosted")
    kept(data / "tokens.json")
    with serving(data, None, auth="tokens", calls_per_second=1e6) as made:
        yield made


def token(served: Served, **fields: Any) -> str:
    return kept(served.data_dir / "tokens.json", **{"brain": "main", "scope": "brains:write", **fields})


def called(
    served: Served,
    token: str | None,
    tool: str,
    project: str | None = None,
    *,
    era: Era = "modern",
    at: str = "/memo/mcp/main",
    **arguments: Any,
) -> httpx.Response:
    call = raw_call(era, tool, arguments)
    call["headers"] |= {"authorization": f"Bearer {token}"} if token else {}
    call["headers"] |= {"memoai_project": project} if project else {}
    return HTTP.post(served.url + at, **call)


def said(response: httpx.Response) -> str:
    result = messages_of(response)[-1]["result"]
    assert "structuredContent" not in result
    return str(result["content"][0]["text"])


def error(response: httpx.Response) -> dict[str, Any]:
    assert messages_of(response)[-1]["result"]["isError"] is True
    return dict(json.loads(said(response))["error"])


def contents(response: httpx.Response) -> set[str]:
    return {memo["content"] for memo in json.loads(said(response))}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("at", ["/memo/mcp", "/memo/mcp/main"])
@pytest.mark.parametrize("brought", [None, "wrong"])
def test_who_is_not_let_in_is_told_as_the_contract_says(served: Served, era: Era, at: str, brought: str | None) -> None:
    answer = called(served, brought, SEARCH, "alpha", era=era, at=at, query="x")
    assert answer.status_code == 401
    assert answer.json()["error"] == AUTHENTICATION
    assert answer.headers["www-authenticate"].startswith("Bearer ")


def test_other_surfaces_tell_it_their_own_way(served: Served) -> None:
    assert "error" not in called(served, None, SEARCH, at="/mcp", query="x").json()


def test_where_memo_is_the_surface_at_mcp_it_is_told_there_too(tmp_path: Path) -> None:
    with serving(tmp_path, None, surface="memo", token="right") as served:
        assert called(served, "wrong", SEARCH, at="/mcp", query="x").json()["error"] == AUTHENTICATION


@pytest.mark.parametrize("path", ["/health", "/healthz"])
def test_anybody_may_ask_whether_it_is_alive(served: Served, path: str) -> None:
    answer = HTTP.get(served.url + path)
    assert (answer.status_code, answer.json()) == (200, {"ok": True})


def test_people_of_one_project_share_memos_and_others_do_not_see_them(served: Served) -> None:
    ada = token(served, subject="ada", projects=["alpha", "beta"])
    ben = token(served, subject="ben", projects=["alpha"])
    cleo = token(served, subject="cleo", projects=["beta", "gamma"])
    recorded = called(served, ada, RECORD, "alpha", content="The alpha secret is tea.")
    assert said(recorded).startswith(SAID)
    assert contents(called(served, ben, SEARCH, "alpha", query="secret")) == {"The alpha secret is tea."}
    # The same memo of another person is the same memo.
    assert said(called(served, ben, RECORD, "alpha", content="The alpha secret is tea.")) == said(recorded)
    assert contents(called(served, cleo, SEARCH, "beta", query="secret")) == set()
    assert contents(called(served, ada, SEARCH, "beta", query="secret")) == set()


@pytest.mark.parametrize("era", ERAS)
def test_a_project_that_is_not_the_callers_is_not_found_and_nothing_is_written(served: Served, era: Era) -> None:
    cleo = token(served, subject="cleo", projects=["beta", "gamma"])
    for tool, arguments in ((SEARCH, {"query": "x"}), (RECORD, {"content": "An intruder was here."})):
        for project in ("alpha", "no-such", "BETA"):
            assert error(called(served, cleo, tool, project, era=era, **arguments)) == {
                "type": "not_found",
                "message": f"Project '{project}' not found or access denied",
            }
    ada = token(served, projects=["alpha", "no-such", "BETA"])
    for project in ("alpha", "no-such", "BETA"):
        assert "An intruder was here." not in contents(called(served, ada, SEARCH, project, query="intruder"))


def test_a_token_for_one_project_needs_no_header_and_one_for_none_may_use_none(served: Served) -> None:
    one = token(served, projects=["delta"])
    assert said(called(served, one, RECORD, content="Delta has a mouth.")).startswith(SAID)
    assert contents(called(served, one, SEARCH, "delta", query="mouth")) == {"Delta has a mouth."}
    several, none = token(served, projects=["delta", "alpha"]), token(served)
    for brought in (several, none):
        assert error(called(served, brought, SEARCH, query="mouth"))["type"] == "configuration_error"
    assert error(called(served, none, SEARCH, "delta", query="mouth"))["type"] == "not_found"


@pytest.mark.parametrize("era", ERAS)
def test_who_may_only_read_searches_and_does_not_record(served: Served, era: Era) -> None:
    reader = token(served, scope="brains:read", projects=["alpha"])
    assert called(served, reader, SEARCH, "alpha", era=era, query="x").status_code == 200
    refused = called(served, reader, RECORD, "alpha", era=era, content="Readers were here.")
    assert refused.status_code == 403
    assert error(refused)["type"] == "authentication_error"
    assert "brains:write" in error(refused)["message"]
    assert "Readers were here." not in contents(called(served, reader, SEARCH, "alpha", query="readers"))


def test_a_brain_that_is_not_the_tokens_is_refused_and_one_must_be_named(served: Served) -> None:
    bound, free = token(served, projects=["alpha"]), token(served, brain=None, projects=["alpha"])
    refused = error(called(served, bound, SEARCH, "alpha", at="/memo/mcp/other", query="x"))
    assert refused["type"] == "authentication_error"
    unnamed = error(called(served, free, SEARCH, "alpha", at="/memo/mcp", query="x"))
    assert "name one in the URL" in unnamed["message"]
    missing = error(called(served, free, SEARCH, "alpha", at="/memo/mcp/other", query="x"))
    assert missing["type"] == "not_found"


def test_where_all_are_one_tenant_every_project_is_theirs(tmp_path: Path) -> None:
    plain = kept(tmp_path / "tokens.json", brain="main", scope="brains:write")
    with serving(tmp_path, None, auth="tokens", single_tenant=True, project="home") as served:
        assert said(called(served, plain, RECORD, "alpha", content="The alpha secret.")).startswith(SAID)
        assert contents(called(served, plain, SEARCH, "alpha", query="secret")) == {"The alpha secret."}
        assert contents(called(served, plain, SEARCH, query="secret")) == set()
