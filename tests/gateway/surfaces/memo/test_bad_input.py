"""What the `memo` surface says to arguments and settings that are wrong: in the contract's words, every one of them."""

import json
from typing import Any

import httpx
import pytest

from gateway.operations.errors import CATALOGUE, GatewayError
from gateway.surfaces.memo import text as text
from tests.gateway.conftest import House
from tests.gateway.surfaces.memo.memos import PROJECT, error_of, memos_of
from tests.served import messages_of, raw_call

pytestmark = pytest.mark.not_quick

SEARCH, RECORD = "memoai_memo_search", "memoai_memo_record"
WRONG: list[tuple[str, dict[str, Any], str]] = [
    (SEARCH, {}, "Missing required parameter: query"),
    (SEARCH, {"limit": 5}, "Missing required parameter: query"),
    (SEARCH, {"query": None}, "Missing required parameter: query"),
    (SEARCH, {"query": 7}, "Parameter 'query' must be a string"),
    (SEARCH, {"query": ["a"]}, "Parameter 'query' must be a string"),
    (SEARCH, {"query": ""}, "Parameter 'query' must not be empty"),
    (SEARCH, {"query": "a\0b"}, "Parameter 'query' must not contain a NUL character"),
    (SEARCH, {"query": "q" * 4097}, "Parameter 'query' must have at most 4,096 characters"),
    (SEARCH, {"query": "a", "limit": "5"}, "Parameter 'limit' must be a number"),
    (SEARCH, {"query": "a", "limit": True}, "Parameter 'limit' must be a number"),
    (SEARCH, {"query": "a", "limit": [5]}, "Parameter 'limit' must be a number"),
    (SEARCH, {"query": "a", "limit": {}}, "Parameter 'limit' must be a number"),
    (SEARCH, {"query": "a", "limit": 1.5}, "Parameter 'limit' must be a whole number"),
    (SEARCH, {"query": "a", "limit": 2.5}, "Parameter 'limit' must be a whole number"),
    (SEARCH, {"query": "a", "limit": 0}, "Parameter 'limit' must be between 1 and 100"),
    (SEARCH, {"query": "a", "limit": -1}, "Parameter 'limit' must be between 1 and 100"),
    (SEARCH, {"query": "a", "limit": 101}, "Parameter 'limit' must be between 1 and 100"),
    (SEARCH, {"query": "a", "project": "b"}, "Unknown parameter: project"),
    (RECORD, {}, "Missing required parameter: content"),
    (RECORD, {"content": None}, "Missing required parameter: content"),
    (RECORD, {"content": 7}, "Parameter 'content' must be a string"),
    (RECORD, {"content": ""}, "Parameter 'content' must not be empty"),
    (RECORD, {"content": " \n\t\u3000"}, "Parameter 'content' must not be empty"),
    (RECORD, {"content": "a\0b"}, "Parameter 'content' must not contain a NUL character"),
    (RECORD, {"content": "c" * 2_000_001}, "Parameter 'content' must have at most 2,000,000 characters"),
    (RECORD, {"content": "a", "source": 7}, "Parameter 'source' must be a string"),
    (RECORD, {"content": "a", "source": "s" * 257}, "Parameter 'source' must have at most 256 characters"),
    (RECORD, {"content": "a", "metadata": "b"}, "Parameter 'metadata' must be an object"),
    (RECORD, {"content": "a", "metadata": ["b"]}, "Parameter 'metadata' must be an object"),
    (
        RECORD,
        {"content": "a", "metadata": {"b": "c" * 16_000}},
        "Parameter 'metadata' must have at most 16,000 characters as JSON",
    ),
    (RECORD, {"content": "a", "tags": ["b"]}, "Unknown parameter: tags"),
]


async def test_every_wrong_argument_is_named_in_the_contracts_words(web_house: House) -> None:
    web_house.headers["MEMOAI_PROJECT"] = PROJECT
    for tool, arguments, message in WRONG:
        error = error_of(await web_house("memo", tool, **arguments))
        assert error == {"type": "invalid_request", "message": message}
    assert memos_of(await web_house("memo", SEARCH, query="a b c")) == []


@pytest.mark.parametrize(
    "metadata", ['{"a": NaN}', '{"a": Infinity}', f'{{"a": {"[" * 600}{"]" * 600}}}', '{"a": "\\ud800"}']
)
async def test_metadata_that_are_no_plain_json_are_refused_or_stored_whole(web_house: House, metadata: str) -> None:
    """Where the way here lets them through at all."""
    call = raw_call("modern", RECORD, {"content": "a", "metadata": "HERE"})
    body = json.dumps(call["json"]).replace('"HERE"', metadata)
    headers = {**call["headers"], "content-type": "application/json", "memoai_project": PROJECT}
    async with httpx.AsyncClient(trust_env=False) as http:
        answer = await http.post(f"{web_house.served.url}/memo/mcp/{web_house.brain}", content=body, headers=headers)
    if answer.status_code == 200 and "result" in (message := messages_of(answer)[-1]):
        said = message["result"]["content"][0]["text"]
        assert "recorded successfully" in said or "Parameter 'metadata' must be plain JSON" in said
    else:
        assert 400 <= answer.status_code < 500


async def test_a_missing_project_is_a_configuration_error(house: House) -> None:
    house.settings.update({"MEMOAI_PROJECT": "", "BRAINS_PROJECT": ""})
    for tool, arguments in ((SEARCH, {"query": "a"}), (RECORD, {"content": "a"})):
        assert error_of(await house("memo", tool, **arguments)) == {
            "type": "configuration_error",
            "message": "MEMOAI_PROJECT header is required. Please configure the MEMOAI_PROJECT environment variable "
            "in your MCP client settings.",
        }


@pytest.mark.parametrize("project", ["../x", "a/b", ".hidden", "with space", "%2e%2e", "a" * 129, "-"])
async def test_a_project_that_cannot_be_is_not_found(web_house: House, project: str) -> None:
    web_house.headers["MEMOAI_PROJECT"] = project
    shown = project if len(project) <= 128 else "a" * 128 + "…"
    for tool, arguments in ((SEARCH, {"query": "a"}), (RECORD, {"content": "a"})):
        error = error_of(await web_house("memo", tool, **arguments))
        assert error == {"type": "not_found", "message": f"Project '{shown}' not found or access denied"}


async def test_a_brain_that_is_not_there_is_not_found(web_house: House) -> None:
    web_house.headers["MEMOAI_PROJECT"] = PROJECT
    web_house.brain = "no-such-brain"
    for tool, arguments in ((SEARCH, {"query": "a"}), (RECORD, {"content": "a"})):
        assert error_of(await web_house("memo", tool, **arguments)) == {
            "type": "not_found",
            "message": "Brain not found or access denied. Name yours in the URL: /memo/mcp/{brain}",
        }


CONTRACT_TYPES = {"invalid_request", "configuration_error", "authentication_error", "not_found", "internal_error"}


@pytest.mark.parametrize("code", CATALOGUE)
def test_every_failure_is_of_a_type_of_the_contract(code: str) -> None:
    failure = json.loads(text.failed(GatewayError(code, retry_after_seconds=7), "abc"))
    error = failure.pop("error")
    assert failure == {}
    assert error["type"] in CONTRACT_TYPES
    assert error["message"]
    assert "memory_" not in error["message"]
    if error["type"] == "internal_error":
        # Where nobody knows whether a memo was recorded, trying again may record it twice.
        may_repeat = "Please try again." if code != "outcome_unknown" else "The memo may have been recorded. "
        assert error["message"].startswith(f"An internal error occurred. {may_repeat}")
        assert error["details"]["request_id"] == "abc"
        assert error["details"]["code"] == code
        assert error["details"]["retry_after_seconds"] == 7
    else:
        assert "details" not in error


@pytest.mark.parametrize(
    ("code", "type_"),
    [
        ("unauthorized", "authentication_error"),
        ("insufficient_scope", "authentication_error"),
        ("payload_too_large", "invalid_request"),
        ("not_implemented", "configuration_error"),
        ("rate_limited", "internal_error"),
        ("timeout", "internal_error"),
        ("outcome_unknown", "internal_error"),
        ("upstream_unavailable", "internal_error"),
        ("conflict", "internal_error"),
    ],
)
def test_who_can_mend_a_failure_decides_its_type(code: str, type_: str) -> None:
    assert json.loads(text.failed(GatewayError(code), "abc"))["error"]["type"] == type_
