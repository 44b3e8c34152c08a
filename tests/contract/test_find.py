"""`find` in a call: what an expression finds in the text is kept under a name."""

import asyncio
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from contract.call import CallCase
from contract.mcp_target import McpTarget
from contract.outcome import Result
from contract.rpc import JsonObject, Reply
from contract.runner import run_calls

HEAD = {"id": "mcp/kv/get/case", "what": "A case of a test.", "requirement": "must", "source": "spec/kv get"}
STEPS = """
- call: jettson_memory_get
  with: {key: "tea of-${unique}"}
  expect: {text: {match: "."}}
  find: {id: EXPRESSION}
- call: jettson_memory_get
  with: {key: "${id}"}
  expect: {text: {contains: ["[b-22]"]}}
"""


class Echo:
    """A server whose tool answers in prose, with the key in it and two ids."""

    version: str | None = None
    setup_seconds = 1.0

    def __init__(self) -> None:
        self.server: JsonObject = {}

    async def open(self) -> None:
        self.version = "2026-07-28"

    async def ask(self, method: str, params: JsonObject, seconds: float) -> Reply:
        if method == "tools/list":
            return Reply({"tools": [{"name": "jettson_memory_get"}]})
        return Reply({"content": [{"type": "text", "text": f"a-11 and b-22, for [{params['arguments']['key']}]"}]})

    async def close(self) -> None:
        return None


def case_of(expression: str) -> CallCase:
    steps: Any = yaml.safe_load(STEPS.replace("EXPRESSION", f"'{expression}'"))
    return CallCase.model_validate({**HEAD, "steps": steps})


def played(expression: str) -> Result:
    return asyncio.run(run_calls(McpTarget("echo", Echo()), [case_of(expression)])).results[0]


@pytest.mark.parametrize("expression", [r"b-\d+", r"and (b-\d+), for", r"(b-\d+)[^\n]*of-${unique}"])
def test_the_whole_match_is_kept_or_its_first_group(expression: str) -> None:
    assert played(expression).outcome == "passed"


def test_where_nothing_is_found_the_case_fails_and_says_so() -> None:
    failure = played(r"c-\d+").failure
    assert failure is not None
    assert failure.seen == r"the text has nothing like c-\d+"


def test_what_is_no_expression_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ValidationError, match="is not a regular expression"):
        case_of("(b")
