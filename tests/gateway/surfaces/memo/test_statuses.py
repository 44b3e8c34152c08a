"""Which HTTP statuses a client of `memo` meets: those of HTTP itself. What a tool says is a result, and that is 200."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.gateway.http.auth.gateways import HTTP
from tests.gateway.http.auth.tokens import kept
from tests.gateway.surfaces.memo.test_callers import AUTHENTICATION, SEARCH, called, error, token
from tests.served import Served, serving

pytestmark = pytest.mark.not_quick


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data = tmp_path_factory.mktemp("hosted")
    kept(data / "tokens.json")
    with serving(data, None, auth="tokens", calls_per_second=1e6) as made:
        yield made


def test_an_expired_token_is_told_as_the_contract_says(served: Served) -> None:
    late = token(served, projects=["alpha"], expires=datetime.now(UTC) - timedelta(seconds=1))
    answer = called(served, late, SEARCH, "alpha", query="x")
    assert (answer.status_code, answer.json()["error"]) == (401, AUTHENTICATION)


def test_the_status_of_a_memo_call_is_that_of_http(served: Served) -> None:
    mine = token(served, projects=["alpha"])
    headers = {
        "authorization": f"Bearer {mine}",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
    }
    assert HTTP.post(f"{served.url}/memo/mcp/main", content=b"{", headers=headers).status_code == 400
    assert HTTP.post(f"{served.url}/memo/nowhere", content=b"{}", headers=headers).status_code == 404
    for project, query, kind in (("alpha", "", "invalid_request"), ("beta", "x", "not_found")):
        refused = called(served, mine, SEARCH, project, query=query)
        assert (refused.status_code, error(refused)["type"]) == (200, kind)
