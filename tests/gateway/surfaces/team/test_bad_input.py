"""Arguments of `team` that are refused, each with its code and a sentence that names it."""

from typing import Any

import pytest

from tests.gateway.conftest import House, code_of, structured

pytestmark = pytest.mark.not_quick

LEAST: dict[str, dict[str, Any]] = {
    "memory_remember": {"content": "x", "type": "status", "scope": "global"},
    "memory_recall": {},
    "memory_forget": {"scope": "global", "key": "x"},
    "memory_scopes": {},
    "memory_load_context": {},
}
SCOPE = "scope must match ^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$."
KEY = "key must match ^[a-z0-9]+([.-][a-z0-9]+)*$."
TYPE = "type must be one of 'decision', 'convention', 'constraint', 'open_question', 'glossary' or 'status'."
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("memory_remember", {"content": ""}, "content must not be empty."),
    ("memory_remember", {"content": " \n\t"}, "content must not be blank."),
    ("memory_remember", {"content": 7}, "content must be a string."),
    ("memory_remember", {"content": None}, "content must be a string."),
    ("memory_remember", {"content": "a\0b"}, "content must not contain a NUL character."),
    ("memory_remember", {"content": "x" * 1_000_001}, "content must have at most 1,000,000 characters."),
    ("memory_remember", {"type": "rumour"}, TYPE),
    ("memory_remember", {"type": "Decision"}, TYPE),
    ("memory_remember", {"type": None}, TYPE),
    ("memory_remember", {"key": "Db.System"}, KEY),
    ("memory_remember", {"key": "db_system"}, KEY),
    ("memory_remember", {"key": "db..system"}, KEY),
    ("memory_remember", {"key": "-db"}, KEY),
    ("memory_remember", {"key": "db/system"}, KEY),
    ("memory_remember", {"key": "../x"}, KEY),
    ("memory_remember", {"key": "k" * 129}, "key must have at most 128 characters."),
    ("memory_remember", {"key": "decision-" + "0" * 32}, "key must not look like the name of an entry without a key."),
    ("memory_remember", {"author": "eve"}, "author is not an argument of this tool."),
    ("memory_remember", {"channel": "http"}, "channel is not an argument of this tool."),
    ("memory_recall", {"type": "rumour"}, TYPE),
    ("memory_recall", {"query": "x" * 4097}, "query must have at most 4,096 characters."),
    ("memory_recall", {"include_global": "yes"}, "include_global must be true or false."),
    ("memory_recall", {"limit": 5}, "limit is not an argument of this tool."),
    ("memory_forget", {"key": None}, "Give either key or id."),
    ("memory_forget", {"id": "global/x"}, "Give key or id, not both."),
    ("memory_forget", {"scope": None}, "scope is required with key."),
    ("memory_forget", {"key": "X"}, KEY),
    ("memory_forget", {"key": ""}, "key must not be empty."),
    ("memory_forget", {"scope": ""}, "scope must not be empty."),
    ("memory_forget", {"id": ""}, "id must not be empty."),
    ("memory_forget", {"id": 7}, "id must be a string."),
    ("memory_forget", {"key": None, "id": "x" * 1025}, "id must have at most 1,024 characters."),
    ("memory_scopes", {"scope": "global"}, "scope is not an argument of this tool."),
    ("memory_load_context", {"type": "status"}, "type is not an argument of this tool."),
    *(
        (tool, {"scope": scope}, SCOPE)
        for tool in ("memory_remember", "memory_recall", "memory_forget", "memory_load_context")
        for scope in ("../x", "a/b", ".", "_hidden", "a b", "s" * 129, "ümlaut", "a%2fb")
    ),
]


async def test_wrong_arguments_are_named_with_their_rule(web_house: House) -> None:
    for tool, wrong, sentence in WRONG:
        result = await web_house("team", tool, **{**LEAST[tool], **wrong})
        assert code_of(result) == "validation_error", (tool, wrong)
        assert structured(result)["message"] == sentence
    assert structured(await web_house.good("team", "memory_recall"))["entries"] == []


async def test_what_is_needed_is_asked_for(web_house: House) -> None:
    for tool, missing in (("memory_remember", "content"), ("memory_remember", "type")):
        arguments = {name: value for name, value in LEAST[tool].items() if name != missing}
        result = await web_house("team", tool, **arguments)
        assert (code_of(result), structured(result)["message"]) == ("validation_error", f"{missing} is required.")


@pytest.mark.parametrize("project", ["bad name!", "../x", "global", "Private"])
async def test_a_header_that_names_no_project_is_named(web_house: House, project: str) -> None:
    web_house.headers["X-Project"] = project
    statement = {"content": "x", "type": "status"}
    for tool, arguments in (("memory_load_context", {}), ("memory_remember", statement)):
        result = await web_house("team", tool, **arguments)
        assert code_of(result) == "validation_error"
        assert structured(result)["message"].startswith("The X-Project header, or else your token, does not hold")
    for tool, arguments in LEAST.items():
        if tool != "memory_load_context":
            await web_house.good("team", tool, **arguments)


@pytest.mark.parametrize("scope", ["Global", "PRIVATE", "gLOBAL"])
async def test_a_reserved_word_in_capitals_is_no_project(web_house: House, scope: str) -> None:
    for tool in ("memory_remember", "memory_recall", "memory_forget", "memory_load_context"):
        assert code_of(await web_house("team", tool, **{**LEAST[tool], "scope": scope})) == "not_found"


IDS = [
    "global",
    "global/",
    "/x",
    "global//x",
    "global/../kv/default/x",
    "global/./x",
    "global/%2e%2e/x",
    "global/x\\y",
    "global/_hits/x",
    "global/\uff3fhits/x",
    "global/x/",
    "../global/x",
    "Global/x",
    "global:/x",
    "global:aaaaaaaa/x",
    "private/x",
    "private:/x",
    "private:aaaaaaaa/x",
    "private:u-aaaa/../x",
    "a b/x",
    "mem_0123456789abcdef",
    "０global/x",
    "global/x\u202ey",
]


async def test_an_id_that_is_of_no_entry_is_not_found(web_house: House) -> None:
    for id_ in IDS:
        result = await web_house("team", "memory_forget", id=id_)
        assert code_of(result) == "not_found", id_
        assert "no such entry" in structured(result)["message"]
