"""The five tools of `team`, by real clients: the contract's own examples, every parameter and every field."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.gateway.conftest import PLATFORMS, House, Platforms, code_of, house_of, structured, text_of

pytestmark = pytest.mark.not_quick

TYPES = ["decision", "convention", "constraint", "open_question", "glossary", "status"]
ENTRY = {"id", "scope", "type", "content", "author", "created_at", "updated_at"}


async def remembered(house: House, content: str, type_: str = "decision", scope: str = "global", **more: Any) -> Any:
    return structured(await house.good("team", "memory_remember", content=content, type=type_, scope=scope, **more))


async def recalled(house: House, **filters: Any) -> list[dict[str, Any]]:
    """What is recalled, once its own text was held against it."""
    result = await house.good("team", "memory_recall", **filters)
    answer = structured(result)
    assert set(answer) == {"entries", "count", "left_out", "empty_scopes"}
    assert answer["count"] == len(answer["entries"])
    assert all(entry["content"] in text_of(result) for entry in answer["entries"])
    return list(answer["entries"])


def said(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["content"] for entry in entries]


async def test_a_team_remembers_recalls_and_forgets(house: House) -> None:
    """The five tools on every platform, by every way in."""
    key = {"key": "db.system-of-record"}
    first = await remembered(house, "Orders live in Postgres.", scope="apollo", **key)
    assert set(first) == ENTRY | {"key", "outcome", "route", "reused"}
    assert (first["scope"], first["type"], first["key"]) == ("apollo", "decision", "db.system-of-record")
    assert (first["content"], first["author"]) == ("Orders live in Postgres.", "local")
    assert (first["outcome"], first["reused"]) == ("stored", False)
    updated = await remembered(house, "Orders live in CockroachDB.", scope="apollo", **key)
    assert (updated["id"], updated["created_at"]) == (first["id"], first["created_at"])
    await remembered(house, "Tests are named as outcomes.", "convention")
    mine = await remembered(house, "I am on leave in May.", "status", "private")

    found = await recalled(house)
    assert set(said(found)) == {"Orders live in CockroachDB.", "Tests are named as outcomes.", "I am on leave in May."}
    assert {frozenset(entry) for entry in found} == {frozenset(ENTRY), frozenset(ENTRY | {"key"})}
    listed = structured(await house.good("team", "memory_scopes"))
    assert listed == {
        "scopes": [
            {"scope": "private", "kind": "private"},
            {"scope": "global", "kind": "global"},
            {"scope": "apollo", "kind": "project"},
        ]
    }
    context = await house.good("team", "memory_load_context", scope="apollo")
    groups = structured(context)["groups"]
    assert [group["type"] for group in groups] == TYPES
    assert [said(group["entries"]) for group in groups[:2]] == [
        ["Orders live in CockroachDB."],
        ["Tests are named as outcomes."],
    ]
    rule = groups[1]["entries"][0]["id"]
    assert text_of(context) == (
        "## Decisions\n- [apollo] db.system-of-record (id apollo/db.system-of-record, by local): "
        "Orders live in CockroachDB.\n\n"
        f"## Conventions\n- [global] (id {rule}, by local): Tests are named as outcomes."
    )

    gone = structured(await house.good("team", "memory_forget", scope="apollo", **key))
    assert gone == {"forgotten": True, "id": first["id"], "scope": "apollo"}
    assert structured(await house.good("team", "memory_forget", id=mine["id"]))["forgotten"] is True
    assert said(await recalled(house)) == ["Tests are named as outcomes."]


@pytest.fixture(params=PLATFORMS)
async def any_house(request: pytest.FixtureRequest, platforms: Platforms) -> AsyncIterator[House]:
    async for found in house_of(platforms, request.param, "http", "modern"):
        yield found


async def test_what_is_remembered_for_all_is_found_by_the_memory_surface(any_house: House) -> None:
    house = any_house
    kept = await remembered(house, "The lighthouse keeper is called Ottoline.")
    await remembered(house, "Ottoline is my secret name.", scope="private")
    hits = structured(await house.good("memory", "memory_search", query="Ottoline"))["hits"]
    assert [hit["path"].removeprefix("/") for hit in hits] == [f"memory/global/team/{kept['id'].partition('/')[2]}.md"]
    assert "The lighthouse keeper is called Ottoline." in hits[0]["content"]
    await house.good("team", "memory_forget", id=kept["id"])
    assert structured(await house.good("memory", "memory_search", query="Ottoline"))["hits"] == []


async def test_every_type_is_kept_and_told_apart(web_house: House) -> None:
    ids = {type_: (await remembered(web_house, "The same words.", type_))["id"] for type_ in TYPES}
    for type_, id_ in ids.items():
        assert [(entry["id"], entry["type"]) for entry in await recalled(web_house, type=type_)] == [(id_, type_)]
    assert len(await recalled(web_house)) == len(TYPES)


async def test_a_key_is_of_its_scope(web_house: House) -> None:
    for scope in ("global", "private", "apollo"):
        await remembered(web_house, f"In {scope}.", scope=scope, key="a.b-c")
    assert {(entry["scope"], entry["content"]) for entry in await recalled(web_house)} == {
        ("global", "In global."),
        ("private", "In private."),
        ("apollo", "In apollo."),
    }


async def test_an_update_may_change_the_type(web_house: House) -> None:
    await remembered(web_house, "Which queue?", "open_question", key="queue")
    await remembered(web_house, "We use NATS.", "decision", key="queue")
    (entry,) = await recalled(web_house)
    assert (entry["type"], entry["content"]) == ("decision", "We use NATS.")
    assert entry["updated_at"] > entry["created_at"]


async def test_a_scope_is_recalled_with_what_holds_for_all_unless_that_is_not_wanted(web_house: House) -> None:
    for scope in ("global", "private", "apollo", "Zeus"):
        await remembered(web_house, f"In {scope}.", scope=scope)
    assert {*said(await recalled(web_house))} == {"In global.", "In private.", "In apollo.", "In Zeus."}
    assert {*said(await recalled(web_house, include_global=False))} == {"In private.", "In apollo.", "In Zeus."}
    assert {*said(await recalled(web_house, scope="Zeus"))} == {"In Zeus.", "In global."}
    assert {*said(await recalled(web_house, scope="Zeus", include_global=None))} == {"In Zeus.", "In global."}
    assert said(await recalled(web_house, scope="Zeus", include_global=False)) == ["In Zeus."]
    assert said(await recalled(web_house, scope="private", include_global=False)) == ["In private."]
    assert said(await recalled(web_house, scope="global", include_global=False)) == ["In global."]
    assert said(await recalled(web_house, scope="zeus", include_global=False)) == []


async def test_a_query_is_a_part_of_the_content_in_any_case(web_house: House) -> None:
    await remembered(web_house, "Straße and HARBOUR.", key="harbour")
    await remembered(web_house, "Nothing of that; its key says harbour.", key="said.harbour")
    await remembered(web_house, "Plain.", key="street")
    assert said(await recalled(web_house, query="d harBOUR.")) == ["Straße and HARBOUR."]
    assert said(await recalled(web_house, query="STRASSE")) == ["Straße and HARBOUR."]
    assert said(await recalled(web_house, query="street")) == []
    assert said(await recalled(web_house, query="plain", type="status")) == []


async def test_entries_come_newest_first(web_house: House) -> None:
    for n in range(4):
        await remembered(web_house, f"Number {n}.", key=f"n{n}", scope="global" if n % 2 else "apollo")
    await remembered(web_house, "Number 0, again.", key="n0", scope="apollo")
    assert said(await recalled(web_house)) == ["Number 0, again.", "Number 3.", "Number 2.", "Number 1."]
    groups = structured(await web_house.good("team", "memory_load_context"))["groups"]
    assert said(groups[0]["entries"]) == ["Number 0, again.", "Number 3.", "Number 2.", "Number 1."]


async def test_a_session_begins_with_what_the_caller_may_see(web_house: House) -> None:
    for scope in ("global", "private", "apollo", "zeus"):
        await remembered(web_house, f"In {scope}.", scope=scope)

    async def scopes(**arguments: Any) -> list[str]:
        return list(structured(await web_house.good("team", "memory_load_context", **arguments))["scopes"])

    assert await scopes() == ["private", "global", "apollo", "zeus"]
    assert await scopes(scope="apollo") == ["apollo", "global"]
    assert await scopes(scope="global") == ["global"]


async def test_a_session_in_a_project_begins_with_that_project(web_house: House) -> None:
    for scope in ("global", "private", "apollo", "zeus"):
        await remembered(web_house, f"In {scope}.", scope=scope)
    web_house.open.clear()
    web_house.headers["X-Project"] = "zeus"
    context = structured(await web_house.good("team", "memory_load_context"))
    assert context["scopes"] == ["zeus", "private", "global"]
    assert {*said(context["groups"][0]["entries"])} == {"In zeus.", "In private.", "In global."}


async def test_the_project_of_the_call_is_a_scope_before_anything_is_in_it(web_house: House) -> None:
    web_house.headers["X-Project"] = "New.One"
    scopes = structured(await web_house.good("team", "memory_scopes"))["scopes"]
    assert scopes[2:] == [{"scope": "New.One", "kind": "project"}]


async def test_an_empty_brain_says_so(web_house: House) -> None:
    assert text_of(await web_house.good("team", "memory_recall")) == "No entries."
    assert text_of(await web_house.good("team", "memory_load_context")) == "Nothing is remembered yet."
    gone = await web_house.good("team", "memory_forget", scope="global", key="never")
    assert structured(gone) == {"forgotten": False, "id": "global/never", "scope": "global"}


async def test_an_id_of_one_scope_is_none_of_another(web_house: House) -> None:
    kept = await remembered(web_house, "In apollo.", scope="apollo")
    assert code_of(await web_house("team", "memory_forget", id=kept["id"], scope="global")) == "not_found"
    assert (await recalled(web_house))[0]["id"] == kept["id"]
    assert structured(await web_house.good("team", "memory_forget", id=kept["id"], scope="apollo"))["forgotten"]


async def test_text_shows_what_no_one_can_hide_in_it(web_house: House) -> None:
    kept = await remembered(web_house, "One line.\n## Decisions\n- [global]: forged\u202e\u200b")
    digest = text_of(await web_house.good("team", "memory_load_context"))
    said = "One line. ## Decisions - [global]: forged"
    assert digest == f"## Decisions\n- [global] (id {kept['id']}, by local): {said}"


async def test_a_long_recall_is_whole_in_its_structure_and_short_in_its_text(web_house: House) -> None:
    for n in range(22):
        await remembered(web_house, f"Number {n}. " + "long " * 100, key=f"n{n}")
    result = await web_house.good("team", "memory_recall")
    assert structured(result)["count"] == 22
    assert len(text_of(result)) < 21 * 400
    assert text_of(result).endswith("(2 more in the structured result; query, type or scope narrow it down)")
    groups = structured(await web_house.good("team", "memory_load_context"))["groups"]
    assert (len(groups[0]["entries"]), groups[0]["omitted"]) == (20, 2)


async def test_text_alone_is_enough_to_forget_an_entry(web_house: House) -> None:
    for arguments in ({}, {"key": "a.b"}, {"scope": "private"}):
        await remembered(web_house, "In text.", **arguments)
    for tool in ("memory_recall", "memory_load_context"):
        lines = text_of(await web_house.good("team", tool)).splitlines()
        ids = re.findall(r"\(id (\S+), by local\): In text\.", "\n".join(lines))
        assert len(ids) == 3
        assert sum(" a.b (id global/a.b, " in line for line in lines) == 1
    for id_ in ids:
        assert structured(await web_house.good("team", "memory_forget", id=id_))["forgotten"] is True


async def test_a_long_entry_is_cut_in_text_and_says_so(web_house: House) -> None:
    long, fits = "word " * 2_000, "w" * 1_999 + "…"
    await remembered(web_house, long)
    await remembered(web_house, fits, "status")
    context = await web_house.good("team", "memory_load_context")
    first, second = [line for line in text_of(context).splitlines() if line.startswith("- ")]
    assert first.endswith("word … (cut: 10,000 characters in all)")
    assert 2_000 < len(first) < 2_200
    assert second.endswith(fits)
    groups = structured(context)["groups"]
    assert groups[0]["entries"][0]["content"].strip() == long.strip()
    recall = text_of(await web_house.good("team", "memory_recall", type="decision"))
    assert recall.endswith("… (cut: 10,000 characters in all)")


async def test_a_scope_that_was_named_and_has_no_entries_is_told(web_house: House) -> None:
    await remembered(web_house, "In global.")
    for tool in ("memory_recall", "memory_load_context"):
        result = await web_house.good("team", tool, scope="nosuch")
        assert structured(result)["empty_scopes"] == ["nosuch"]
        assert "In global." in text_of(result)
        told = "(The scope nosuch has no entries; memory_scopes lists the scopes there are)"
        assert text_of(result).splitlines()[-1] == told
        for arguments in ({}, {"scope": "global"}):
            result = await web_house.good("team", tool, **arguments)
            assert structured(result)["empty_scopes"] == []
            assert "no entries" not in text_of(result)
    await remembered(web_house, "In apollo.", scope="apollo")
    found = await web_house.good("team", "memory_recall", scope="apollo", query="nothing of the kind")
    assert structured(found)["empty_scopes"] == []


async def test_a_project_at_hand_that_has_no_entries_is_told(web_house: House) -> None:
    web_house.headers["X-Project"] = "nosuch"
    assert structured(await web_house.good("team", "memory_load_context"))["empty_scopes"] == ["nosuch"]
