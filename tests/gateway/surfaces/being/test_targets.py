"""`update_memory` and `update_relation`: ten targets, four actions, and what a second call changes."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.operations.notes import open_note
from tests.gateway.conftest import House, Platforms, house_of
from tests.gateway.surfaces.being.beings import Files, answered, refusal, told

pytestmark = pytest.mark.not_quick

TARGETS = (
    *("preferences", "knowledge", "relationship", "partner_tools", "partner_map", "diary", "notes", "party_message"),
    *("partner_rules", "souls"),
)


async def memory(house: House, target: str, action: str, **arguments: Any) -> dict[str, Any]:
    return await answered(house, "update_memory", target=target, action=action, **arguments)


async def contents(house: House, target: str, **arguments: Any) -> list[str]:
    got = await memory(house, target, "get", **arguments)
    assert got["count"] == len(got["entries"])
    return sorted(entry["content"] for entry in got["entries"])


async def relation(house: House, name: str, action: str, content: str | None = None, **more: Any) -> dict[str, Any]:
    arguments = {"entity_name": name, "relation_type": "person", "action": action, **more}
    return await answered(house, "update_relation", **arguments, **({"content": content} if content else {}))


async def test_every_target_is_appended_to_read_replaced_and_deleted(web_house: House) -> None:
    for target in TARGETS:
        added = await memory(web_house, target, "append", content=f"first of {target}")
        assert (added["status"], added["target"], added["action"], added["changed"]) == ("ok", target, "append", True)
        assert await contents(web_house, target) == [f"first of {target}"]
        assert (await memory(web_house, target, "update", key=added["key"], content="second"))["key"] == added["key"]
        assert await contents(web_house, target) == ["second"]
        assert (await memory(web_house, target, "delete", key=added["key"]))["deleted"] is True
        assert await memory(web_house, target, "get") == {
            "status": "ok",
            "target": target,
            "action": "get",
            "entries": [],
            "count": 0,
        }


async def test_the_same_call_again_changes_nothing(web_house: House) -> None:
    for arguments in (
        {"action": "append", "content": "likes tea"},
        {"action": "append", "content": "likes jazz", "key": "music"},
        {"action": "update", "content": "likes rain", "key": "weather"},
    ):
        first, second = [await answered(web_house, "update_memory", target="knowledge", **arguments) for _ in range(2)]
        assert second == {**first, "changed": False}
    before = (await memory(web_house, "knowledge", "get"))["entries"]
    assert len(before) == 3
    deleted = [await memory(web_house, "knowledge", "delete", key="music") for _ in range(2)]
    assert [one["deleted"] for one in deleted] == [True, True]
    assert (await memory(web_house, "knowledge", "delete", key="never was"))["deleted"] is False
    assert len((await memory(web_house, "knowledge", "get"))["entries"]) == 2


async def test_an_append_to_a_key_adds_to_what_is_there(web_house: House) -> None:
    # What was said before may be said again; only the same call once more adds nothing.
    for content, changed in (("tea", True), ("jazz", True), ("tea", True), ("tea", False)):
        added = await memory(web_house, "preferences", "append", key="likes", content=content)
        assert added["changed"] is changed
    assert await contents(web_house, "preferences", key="likes") == ["tea\n\njazz\n\ntea"]
    # The end of what is there is not what was added last.
    await memory(web_house, "preferences", "append", key="likes", content="ea")
    assert await contents(web_house, "preferences") == ["tea\n\njazz\n\ntea\n\nea"]
    several = [await memory(web_house, "preferences", "append", key="likes", content="rain\n\nsnow") for _ in range(2)]
    assert [one["changed"] for one in several] == [True, False]


async def test_without_a_key_the_only_entry_is_meant_and_several_are_a_question(web_house: House) -> None:
    for content in ("You are Miku.", "You are Miku, and kind."):
        await memory(web_house, "souls", "update", content=content)
    assert await contents(web_house, "souls") == ["You are Miku, and kind."]
    await memory(web_house, "souls", "append", key="Rin", content="You are Rin.")
    for action in ("update", "delete"):
        error = refusal(await web_house("being", "update_memory", target="souls", action=action, content="x"))
        assert error["code"] == "validation_error"
        assert error["message"].startswith("souls has 2 entries: name one by its key (")
        assert "Rin" in error["message"]
    await memory(web_house, "souls", "delete", key="Rin")
    assert (await memory(web_house, "souls", "delete"))["deleted"] is True
    assert (await memory(web_house, "souls", "delete")) == {
        "status": "ok",
        "target": "souls",
        "action": "delete",
        "deleted": False,
    }


async def test_any_words_are_a_key_and_capitals_count(web_house: House) -> None:
    keys = ["Tea", "tea", "好きな食べ物", "../../x", "a b", "a-b", "x" * 200, "CON", "_x", "é"]
    for key in keys:
        await memory(web_house, "knowledge", "update", key=key, content=f"of {key}")
    for key in keys:
        assert await contents(web_house, "knowledge", key=key) == [f"of {key}"]
    listed = (await memory(web_house, "knowledge", "get"))["entries"]
    assert {entry["key"] for entry in listed} == set(keys)


async def test_a_place_on_the_map_keeps_its_location_until_another_is_told(web_house: House) -> None:
    await memory(web_house, "partner_map", "update", key="Rin", location="Kyoto")
    await memory(web_house, "partner_map", "update", key="Rin", content="studies there")
    (entry,) = (await memory(web_house, "partner_map", "get", key="Rin"))["entries"]
    assert (entry["content"], entry["location"]) == ("studies there", "Kyoto")
    await memory(web_house, "partner_map", "append", key="Rin", location="Osaka")
    (entry,) = (await memory(web_house, "partner_map", "get"))["entries"]
    assert (entry["content"], entry["location"]) == ("studies there", "Osaka")
    # Without a key, the location is one.
    await memory(web_house, "partner_map", "update", location="Nara", content="deer")
    await memory(web_house, "partner_map", "update", location="Nara", content="many deer")
    (entry,) = (await memory(web_house, "partner_map", "get", key="Nara"))["entries"]
    assert (entry["content"], entry["location"]) == ("many deer", "Nara")
    snapshot = (await answered(web_house, "get_context"))["snapshot"]
    assert snapshot == "## Partner map\n\n- Rin (Osaka): studies there\n- Nara: many deer"


async def test_messages_are_read_by_whom_they_are_to(web_house: House) -> None:
    for to, content in (("Rin", "hello"), ("Ken", "hello"), ("Rin", "bye")):
        await memory(web_house, "party_message", "append", to=to, content=content)
    assert await contents(web_house, "party_message", to="Rin") == ["bye", "hello"]
    assert await contents(web_house, "party_message", to="Ken") == ["hello"]
    assert len(await contents(web_house, "party_message")) == 3
    assert "- to Ken: hello" in (await answered(web_house, "get_context"))["snapshot"]


async def test_notes_of_either_tool_are_the_same_notes(web_house: House) -> None:
    (note_id,) = (await answered(web_house, "update_notes", notes=["Buy flour"]))["note_ids"]
    added = await memory(web_house, "notes", "append", content="Buy flour")
    assert (added["key"], added["changed"]) == (note_id, False)
    assert await contents(web_house, "notes") == ["Buy flour"]


async def test_entries_are_bounded_and_what_is_left_out_is_said(web_house: House) -> None:
    await answered(web_house, "update_notes", notes=[f"note {n}" for n in range(100)])
    await answered(web_house, "update_notes", notes=["one more"])
    got = await memory(web_house, "notes", "get")
    assert (got["count"], got["left_out"]) == (100, 1)
    assert got["entries"][0]["content"] == "one more"


async def test_a_relation_is_one_note_that_is_replaced_and_deleted(web_house: House) -> None:
    told_ = [await relation(web_house, "Ken", "upsert", "brother") for _ in range(2)]
    assert [one["changed"] for one in told_] == [True, False]
    assert (await relation(web_house, "Ken", "upsert", "older brother"))["changed"] is True
    await relation(web_house, "Ken", "upsert", "a robot", relation_type="ai")
    prompt = (await answered(web_house, "get_context"))["system_prompt"]
    assert prompt == "## Relations\n\n- Ken (person): older brother\n- Ken (ai): a robot"
    gone = [await relation(web_house, "Ken", "delete") for _ in range(2)]
    assert [one["deleted"] for one in gone] == [True, True]
    assert set(gone[0]) == {"status", "action", "entity_name", "relation_type", "deleted"}
    assert (await relation(web_house, "Nobody", "delete"))["deleted"] is False
    assert (await answered(web_house, "get_context"))["system_prompt"] == "## Relations\n\n- Ken (ai): a robot"


@pytest.fixture
async def daemon_house(platforms: Platforms) -> AsyncIterator[House]:
    """On a platform that can be looked into, past the gateway."""
    async for house in house_of(platforms, "T", "http", "modern"):
        yield house


async def test_what_is_replaced_or_deleted_is_kept_aside(daemon_house: House) -> None:
    await memory(daemon_house, "souls", "update", key="Miku", content="You are Miku.")
    await memory(daemon_house, "souls", "update", key="Miku", content="Be kind.")
    await memory(daemon_house, "souls", "delete", key="Miku")
    await relation(daemon_house, "ken", "upsert", "brother")
    await relation(daemon_house, "ken", "upsert", "cousin")
    kept = {path.rpartition("-")[0]: body for path, body in (await Files(daemon_house).all()).items() if "/_" in path}
    tree = "memory/global/being"
    assert kept[f"{tree}/souls/_versions/!miku"] == b"You are Miku."
    assert open_note(kept[f"{tree}/souls/_deleted/!miku"]).content == "Be kind."
    assert kept[f"{tree}/relations/person/_versions/ken"] == b"brother"


async def test_notes_that_a_person_wrote_or_edited_are_read_and_their_fields_survive(daemon_house: House) -> None:
    files, folder = Files(daemon_house), "memory/global/being/knowledge"
    await files.write(f"{folder}/Plain Words.md", b"plain words")
    await files.write(f"{folder}/broken.md", b"---\nbroken: [\n---\nbroken words")
    await files.write(f"{folder}/theirs.md", b"---\r\ntitle: Theirs\r\n---\r\ntheir words\r\n")
    await memory(daemon_house, "knowledge", "append", key="ours", content="our words")
    body = await files.read(f"{folder}/ours.md")
    await files.write(f"{folder}/ours.md", body.replace(b"digest:", b"color: [red,\n  blue]\ndigest:"))
    entries = {e["key"]: e["content"] for e in (await memory(daemon_house, "knowledge", "get"))["entries"]}
    assert entries["Plain Words"] == "plain words"
    assert entries["broken"] == "---\nbroken: [\n---\nbroken words"
    assert entries["theirs"] == "---\r\ntitle: Theirs\r\n---\r\ntheir words\r\n"
    assert entries["ours"] == "our words"
    for key in ("Plain Words", "broken", "theirs", "ours"):
        await memory(daemon_house, "knowledge", "append", key=key, content="more")
        (entry,) = (await memory(daemon_house, "knowledge", "get", key=key))["entries"]
        assert entry["content"] == entries[key].rstrip() + "\n\nmore"
    assert b"color: [red,\n  blue]\n" in await files.read(f"{folder}/ours.md")
    assert len(await contents(daemon_house, "knowledge")) == 4
    assert "Plain Words" in await told(daemon_house, "get_context")


async def test_a_copied_file_goes_by_its_own_name(daemon_house: House) -> None:
    files, folder = Files(daemon_house), "memory/global/being/souls"
    await memory(daemon_house, "souls", "update", key="Miku", content="You are Miku.")
    body = await files.read(f"{folder}/!miku.md")
    await files.write(f"{folder}/!rin.md", body.replace(b"You are Miku.", b"You are Rin."))
    await files.write(f"{folder}/Miku copy.md", body)
    entries = {e["key"]: e["content"] for e in (await memory(daemon_house, "souls", "get"))["entries"]}
    assert entries == {"Miku": "You are Miku.", "Rin": "You are Rin.", "Miku copy": "You are Miku."}
    prompt = (await answered(daemon_house, "get_context"))["system_prompt"]
    for line in ("- Miku: You are Miku.", "- Rin: You are Rin.", "- Miku copy: You are Miku."):
        assert line in prompt
    # A change by its own key is a change of it, and takes the wrong key away.
    await memory(daemon_house, "souls", "append", key="Miku copy", content="Be kind.")
    assert b"key: Miku copy\n" in await files.read(f"{folder}/Miku copy.md")
    assert await files.read(f"{folder}/!miku.md") == body


async def test_space_around_a_key_is_not_part_of_it(web_house: House) -> None:
    await memory(web_house, "souls", "update", key=" Little  Rin ", content="You are Rin.")
    (entry,) = (await memory(web_house, "souls", "get", key="Little Rin"))["entries"]
    assert (entry["key"], entry["content"]) == ("Little Rin", "You are Rin.")
