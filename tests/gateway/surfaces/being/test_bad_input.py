"""What the `being` surface does not take: each in words, as text alone."""

import json
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import Platforms
from tests.gateway.surfaces.being.beings import refusal, scene
from tests.served import messages_of, raw_call

LONG = "x" * 100_001
HALF = "half \ud83d"
MEMORY = {"target": "diary", "action": "append", "content": "c"}
RELATION = {"entity_name": "Ken", "relation_type": "person", "action": "upsert", "content": "c"}
NODES = {"node_ids": "a,b", "summary": "s"}
TARGETS = (
    "'preferences', 'knowledge', 'relationship', 'partner_tools', 'partner_map', 'diary', 'notes', 'party_message', "
    "'partner_rules' or 'souls'"
)

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("recall", {}, "user_message is required."),
    ("recall", {"user_message": ""}, "user_message must not be empty."),
    ("recall", {"user_message": " \n"}, "user_message must not be blank."),
    ("recall", {"user_message": 7}, "user_message must be a string."),
    ("recall", {"user_message": LONG}, "user_message must have at most 100,000 characters."),
    ("recall", {"user_message": "a\0b"}, "user_message must not contain a NUL character."),
    ("get_context", {"brain": "b"}, "brain is not an argument of this tool."),
    ("recall_memory", {"cluster_id": 7}, "cluster_id must be a string."),
    ("recall_memory", {"node_id": ["a"]}, "node_id must be a string."),
    ("recall_memory", {"limit": 0}, "limit must be at least 1."),
    ("recall_memory", {"limit": 51}, "limit must be at most 50."),
    ("recall_memory", {"no_nodes": "yes"}, "no_nodes must be true or false."),
    ("search_memory", {}, "query is required."),
    ("search_memory", {"query": "q", "limit": 31}, "limit must be at most 30."),
    ("search_memory", {"query": "q", "limit": 1.5}, "limit must be a whole number."),
    ("search_memory", {"query": "q", "limit": "5"}, "limit must be a whole number."),
    ("search_memory", {"query": "q", "mode": "xor"}, "mode must be one of 'or' or 'and'."),
    ("merge_nodes", {"summary": "s"}, "node_ids is required."),
    ("merge_nodes", {"node_ids": "a,b"}, "summary is required."),
    ("merge_nodes", {**NODES, "node_ids": ["a", "b"]}, "node_ids must be a string."),
    ("merge_nodes", {**NODES, "node_ids": "a, a,"}, "node_ids must name 2 to 50 different nodes, separated by commas."),
    ("merge_nodes", {**NODES, "node_ids": ",".join(map(str, range(51)))}, "node_ids must name 2 to 50 different nodes"),
    ("merge_nodes", {**NODES, "feeling": "x" * 2001}, "feeling must have at most 2,000 characters."),
    ("update_memory", {"action": "get"}, "target is required."),
    ("update_memory", {"target": "diary"}, "action is required."),
    ("update_memory", {**MEMORY, "target": "nodes"}, f"target must be one of {TARGETS}."),
    ("update_memory", {**MEMORY, "action": "put"}, "action must be one of 'get', 'append', 'update' or 'delete'."),
    ("update_memory", {**MEMORY, "content": LONG}, "content must have at most 100,000 characters."),
    ("update_memory", {"target": "diary", "action": "append"}, "content is required for append."),
    ("update_memory", {"target": "partner_map", "action": "update", "key": "k"}, "content is required for update."),
    ("update_memory", {**MEMORY, "content": " \t\n"}, "content must not be blank."),
    ("update_memory", {**MEMORY, "key": ""}, "key must not be empty."),
    ("update_memory", {**MEMORY, "key": "   "}, "key must not be blank."),
    ("update_memory", {**MEMORY, "key": "x" * 201}, "key must have at most 200 characters."),
    ("update_memory", {**MEMORY, "location": "Kyoto"}, "location goes with target partner_map alone."),
    ("update_memory", {**MEMORY, "to": "Rin"}, "to goes with target party_message alone."),
    ("update_notes", {}, "at least one of scenes or notes is required."),
    ("update_notes", {"scenes": [], "notes": []}, "at least one of scenes or notes is required."),
    ("update_notes", {"action": "update", "scene_ids": ["a"]}, "at least one of scenes or notes is required."),
    ("update_notes", {"action": "delete", "notes": ["n"]}, "action must be one of 'append' or 'update'."),
    ("update_notes", {"notes": ["n"], "scene_ids": ["a"]}, "scene_ids goes with action update alone."),
    ("update_notes", {"notes": "n"}, "notes must be a list."),
    ("update_notes", {"notes": [""]}, "notes[0] must have at least 1 character(s)."),
    ("update_notes", {"notes": ["   "]}, "notes[0] must not be blank."),
    ("update_notes", {"notes": ["n"] * 101}, "notes must have at most 100 entries."),
    ("update_notes", {"scenes": [scene("a")] * 101}, "scenes must have at most 100 entries."),
    ("update_notes", {"scenes": ["a"]}, "scenes[0] must be an object."),
    ("update_notes", {"scenes": [{"actors": [], "when": []}]}, "scenes[0].action is required."),
    ("update_notes", {"scenes": [{"action": "a", "when": []}]}, "scenes[0].actors is required."),
    ("update_notes", {"scenes": [{"action": "a", "actors": []}]}, "scenes[0].when is required."),
    ("update_notes", {"scenes": [scene("")]}, "action must not be empty."),
    ("update_notes", {"scenes": [scene("a", actors="Rin")]}, "scenes[0].actors must be a list."),
    ("update_notes", {"scenes": [scene("a", when=["today"])]}, "scenes[0].when[0] must be a date as in 2026-04-14."),
    ("update_notes", {"scenes": [scene("a", when=[" "])]}, "scenes[0].when[0] must be a date as in 2026-04-14."),
    ("update_notes", {"scenes": [scene("a", when=["2026-02-30"])]}, "scenes[0].when[0] must be a date as in"),
    ("update_notes", {"scenes": [scene("a", when=["20260414"])]}, "scenes[0].when[0] must be a date as in"),
    ("update_notes", {"scenes": [scene("   ")]}, "scenes[0].action must not be blank."),
    ("update_notes", {"scenes": [scene("a", actors=["Rin", " "])]}, "scenes[0].actors[1] must not be blank."),
    ("update_notes", {"scenes": [scene("a", setting=1)]}, "scenes[0].setting must be a string."),
    ("update_notes", {"scenes": [scene("a", feeling=1)]}, "scenes[0].feeling must be a string."),
    ("update_notes", {"scenes": [scene("a", themes="t")]}, "scenes[0].themes must be a list."),
    ("update_notes", {"scenes": [scene("a", importance=1.1)]}, "scenes[0].importance must be at most 1."),
    ("update_notes", {"scenes": [scene("a", importance=-0.1)]}, "scenes[0].importance must be at least 0."),
    ("update_notes", {"scenes": [scene("a", importance="high")]}, "scenes[0].importance must be a number."),
    ("update_notes", {"scenes": [scene("a", where="x")]}, "scenes[0].where is not an argument of this tool."),
    ("search_history", {"query": 7}, "query must be a string."),
    ("search_history", {"date_from": "14.4.2026"}, "date_from must be a date as in 2026-04-14."),
    ("search_history", {"date_from": "2026-02-30"}, "date_from must be a date as in 2026-04-14."),
    ("search_history", {"date_to": "2026-13-01"}, "date_to must be a date as in 2026-04-14."),
    ("search_history", {"date_from": "2026-04-15", "date_to": "2026-04-14"}, "date_from must not be after date_to."),
    ("search_history", {"limit": 51}, "limit must be at most 50."),
    ("update_relation", {**RELATION, "entity_name": ""}, "entity_name must not be empty."),
    ("update_relation", {**RELATION, "content": "  "}, "content must not be blank."),
    ("update_relation", {"entity_name": "Ken", "action": "delete"}, "relation_type is required."),
    ("update_relation", {"entity_name": "Ken", "relation_type": "person"}, "action is required."),
    ("update_relation", {**RELATION, "action": "append"}, "action must be one of 'upsert' or 'delete'."),
    ("update_relation", {**RELATION, "content": None}, "content is required for upsert."),
    ("trigger_patrol", {}, "messages is required."),
    ("trigger_patrol", {"messages": "hello"}, "messages must be a list."),
    ("trigger_patrol", {"messages": [{"content": "hello"}]}, "messages[0].role is required."),
    ("trigger_patrol", {"messages": [{"role": "user"}]}, "messages[0].content is required."),
    ("trigger_patrol", {"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content must be a string."),
    ("trigger_patrol", {"messages": [], "marker_id": 7}, "marker_id must be a string."),
    ("get_current_time", {"timezone": 9}, "timezone must be a string."),
]


@pytest.fixture(scope="module")
def tools() -> set[str]:
    return {tool for tool, _arguments, _message in BAD}


@pytest.mark.not_quick
async def test_every_bad_argument_is_refused_in_words(platforms: Platforms) -> None:
    """One client for all of them: what is refused leaves no trace."""
    async with platforms("embedded").over_http("modern", "/being/mcp/main") as client:
        refused = {
            (tool, str(arguments)[:80], message): refusal(await client.call_tool(tool, arguments, raise_on_error=False))
            for tool, arguments, message in BAD
        }
    assert {error["code"] for error in refused.values()} == {"validation_error"}
    wrong = {case: error["message"] for case, error in refused.items() if not error["message"].startswith(case[2])}
    assert wrong == {}


def test_every_tool_has_bad_arguments(tools: set[str]) -> None:
    assert len(tools) == 11


async def test_an_argument_sent_as_null_counts_as_left_out(platforms: Platforms) -> None:
    arguments = {"cluster_id": None, "node_id": None, "query": None}
    async with platforms("embedded").over_http("modern", "/being/mcp/main") as client:
        assert not (await client.call_tool("recall_memory", arguments, raise_on_error=False)).is_error


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("recall", {"user_message": HALF}, "user_message"),
        ("trigger_patrol", {"messages": [{"role": "user", "content": HALF}]}, "messages[0].content"),
        ("update_notes", {"scenes": [scene(HALF)]}, "scenes[0].action"),
        ("update_notes", {"notes": [HALF]}, "notes[0]"),
        ("update_memory", {**MEMORY, "key": HALF}, "key"),
    ],
)
async def test_half_a_character_is_refused(platforms: Platforms, tool: str, arguments: Any, field: str) -> None:
    call = raw_call("modern", tool, arguments)
    # As JSON may write it: a client that encodes it as text cannot.
    call["content"] = json.dumps(call.pop("json")).encode()
    call["headers"]["content-type"] = "application/json"
    async with httpx.AsyncClient(trust_env=False, verify=False) as http:
        answer = await http.post(f"{platforms('embedded').url}/being/mcp/main", **call)
    result = messages_of(answer)[-1]["result"]
    assert result["content"][0]["text"].startswith(f"validation_error: {field} must be valid Unicode text.")
