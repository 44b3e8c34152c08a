"""What the descriptions of the tools say where the contract wants it said."""

import pytest

from tests.test_pins import PINNED

KV = {
    "jettson_memory_put": "Save a value to memory under key. Versioning and quota enforcement work the same way the "
    "public API does.",
    "jettson_memory_get": "Fetch a specific memory by (namespace, key).",
    "jettson_memory_search": "Hybrid semantic+keyword search across the user's memory pool.",
    "jettson_memory_list": "List live memories, optionally filtered. No relevance ranking — newest first.",
    "jettson_memory_delete": "Soft delete a memory. The doc keeps existing with isLatestVersion=false and a deletedAt "
    "stamp; search and get won't surface it.",
}


def test_the_descriptions_of_kv_are_the_contracts_word_for_word() -> None:
    assert {tool["name"]: tool["description"] for tool in PINNED["kv"]} == KV


@pytest.mark.parametrize(
    ("surface", "tool", "words"),
    [
        ("being", "recall", "Call at the start of every turn."),
        ("being", "get_context", "Call once at session start."),
        ("team", "memory_load_context", "This is the tool to call at the start of a session"),
        ("team", "memory_remember", "a client cannot set it"),
    ],
)
def test_a_description_says_when_a_tool_is_to_be_called(surface: str, tool: str, words: str) -> None:
    (description,) = [one["description"] for one in PINNED[surface] if one["name"] == tool]
    assert words in description
