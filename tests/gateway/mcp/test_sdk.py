"""The revision that MemoAI's clients name, which nobody has published, is served as the one before it."""

from typing import Any

import httpx
import pytest

from tests.served import Served, messages_of

NAMED, SERVED_AS = "2025-11-05", "2025-06-18"
HTTP = httpx.Client(trust_env=False, timeout=30)


def post(served: Served, at: str, method: str, params: dict[str, Any], version: str | None = NAMED) -> httpx.Response:
    headers = {"accept": "application/json, text/event-stream", "x-memoai-project": "orion"}
    if version is not None:
        headers["mcp-protocol-version"] = version
    return HTTP.post(
        served.url + at, headers=headers, json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    )


@pytest.mark.parametrize(("at", "tool"), [("/mcp/main", "memory_search"), ("/memo/mcp/main", "memoai_memo_search")])
def test_every_request_may_name_it(served: Served, at: str, tool: str) -> None:
    tools = messages_of(post(served, at, "tools/list", {}))[-1]["result"]["tools"]
    assert tool in {listed["name"] for listed in tools}
    result = messages_of(post(served, at, "tools/call", {"name": tool, "arguments": {"query": "otters"}}))[-1]["result"]
    assert not result["isError"]
    same = messages_of(post(served, at, "tools/list", {}, SERVED_AS))[-1]["result"]["tools"]
    assert tools == same


@pytest.mark.parametrize("version", [NAMED, None])
@pytest.mark.parametrize("at", ["/mcp", "/memo/mcp"])
def test_a_client_that_begins_with_it_is_offered_one_that_is_known(
    served: Served, at: str, version: str | None
) -> None:
    client = {"protocolVersion": NAMED, "capabilities": {}, "clientInfo": {"name": "memo", "version": "1"}}
    answer = post(served, at, "initialize", client, version)
    assert answer.status_code == 200
    assert messages_of(answer)[-1]["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("version", ["2025-11-06", "2025-11", "zzz"])
def test_any_other_that_is_not_known_is_refused(served: Served, version: str) -> None:
    assert post(served, "/mcp", "tools/list", {}, version).status_code == 400
